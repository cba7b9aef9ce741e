"""``colret query`` on a terminal without a query: one after another, the model loaded once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import click

from colret.errors import ColretError, one_line
from colret.wording import count
from colret_cli.asking import Asking
from colret_cli.configuration import user_folder
from colret_cli.evidence import evidence_lines
from colret_cli.hits import is_styled, print_results
from colret_cli.output import show_path
from colret_cli.questions import question
from colret_cli.terminal_images import show_image
from colret_cli.viewers import open_hit

if TYPE_CHECKING:
    from colret import Hit, Index, Results

_PROMPT: Final = "colret> "
_MOST_REMEMBERED: Final = 1000  # lines
_HELP: Final = """\
TEXT         search for it
:open [N]    open hit N in a viewer at its page
:show [N]    show why hit N was found
:k N         show N pages
:lane NAME   rank by visual, text or both
:help        this
:quit        end, as Ctrl-D does; Ctrl-C drops a line or a search"""


def converse(index: Index, asking: Asking) -> None:
    """Answer queries until the end of input; what goes wrong with one ends only that one."""
    n_pages = count(index.info().n_pages, "page")
    click.echo(f"{show_path(str(index.path))}: {n_pages}; :help lists commands, Ctrl-D ends", err=True)
    session = _Session(index, asking)
    with _remembered():
        while (line := _read_line()) is not None:
            try:
                if session.take(line.strip()):
                    return
            except KeyboardInterrupt:
                click.echo("\ncolret: dropped", err=True)
            except click.ClickException as error:
                click.echo(f"colret: {one_line(error.format_message())}", err=True)
            except (ColretError, OSError) as error:
                click.echo(f"colret: {error}", err=True)


class _Session:
    """What a conversation remembers: how it asks, and the last answer.

    Args:
        index: That is asked.
        asking: How, to begin with.
    """

    def __init__(self, index: Index, asking: Asking) -> None:
        self._index = index
        self._asking = asking
        self._last: Results | None = None
        self._commands: dict[str, Callable[[str], object]] = {
            "open": lambda argument: open_hit(self._hit(argument)),
            "show": self._show,
            "k": self._set_k,
            "lane": self._set_lane,
            "help": lambda argument: click.echo(_HELP),
        }

    def take(self, line: str) -> bool:
        """Do what a line says; return whether it says to end."""
        if not line.startswith(":"):
            self._search(line)
            return False
        name, _, argument = line[1:].partition(" ")
        if name in ("quit", "q"):
            return True
        if name not in self._commands:
            raise click.UsageError(f"there is no :{name}; :help lists what there is")
        self._commands[name](argument.strip())
        return False

    def _search(self, line: str) -> None:
        asked = question(line)
        if asked.text:
            [self._last] = self._asking.texts(self._index, [asked.text])
            print_results(asked, self._last)

    def _hit(self, argument: str) -> Hit:
        number = _number(argument or "1")
        if self._last is None or number > len(self._last):
            raise click.UsageError(f"there is no hit {number}")
        return self._last[number - 1]

    def _show(self, argument: str) -> None:
        hit = self._hit(argument)
        click.echo(f"{show_path(hit.file)}  page {hit.page}")
        click.echo("\n".join(evidence_lines(hit.evidence)), color=is_styled())
        if (path := show_image(hit.image(), f"{Path(hit.file).stem}-{hit.page}")) is not None:
            click.echo(show_path(str(path)))

    def _set_k(self, argument: str) -> None:
        self._asking.k = _number(argument)

    def _set_lane(self, argument: str) -> None:
        from colret.lanes import LANES, Lane

        lanes: dict[str, Lane] = {lane: lane for lane in LANES}
        if argument not in lanes:
            raise click.UsageError(f"{argument!r} is no lane: there are {', '.join(get_args(Lane))}")
        self._asking.lane = lanes[argument]


def _number(argument: str) -> int:
    if not argument.isdecimal() or not 1 <= int(argument) <= 10**6:
        raise click.UsageError(f"{argument!r} is no number from 1")
    return int(argument)


def _read_line() -> str | None:
    """Return the next line; None at the end of input. Ctrl-C drops what was typed."""
    while True:
        try:
            return input(_PROMPT)
        except KeyboardInterrupt:
            click.echo()
        except EOFError:
            click.echo()
            return None
        except UnicodeDecodeError:
            click.echo("colret: not UTF-8 text", err=True)


@contextmanager
def _remembered() -> Iterator[None]:
    """Let lines be edited and found again, those of earlier sessions too."""
    try:
        import readline
    except ImportError:  # as on Windows: lines are what the terminal gives
        yield
        return
    folder = user_folder("XDG_STATE_HOME", "~/.local/state")
    if folder is None:
        yield
        return
    path = folder / "history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_MOST_REMEMBERED)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # a home that cannot be written is no reason to fail
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)
