"""Defaults of options from ``colret.toml``: in the working folder, and for all of a user's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from colret.errors import ColretError, printable

NAME: Final = "colret.toml"
SHARED: Final = ("device", "index", "storage-option")
"""Options that stand at the top of a file, for every command that has them."""

_MOST_BYTES: Final = 1_000_000
_SECRET: Final = "storage-option"  # whose values may be credentials


class Setting(NamedTuple):
    """A default that a file gives to an option."""

    command: str  # as it is typed after "colret"; "" for all that have the option
    key: str  # long name of the option, without dashes
    value: Any
    file: Path


def config_files() -> list[Path]:
    """Return where configuration may lie, what counts more first."""
    folder = user_folder("XDG_CONFIG_HOME", "~/.config")
    return [Path(NAME), *([] if folder is None else [folder / NAME])]


def user_folder(variable: str, otherwise: str) -> Path | None:
    """Return a user's folder for colret below what a variable of the environment names, or else ``otherwise``.

    Returns:
        None where the user has no home, as in a container that runs under a number.
    """
    parent = os.environ.get(variable) or os.path.expanduser(otherwise)
    return None if parent.startswith("~") else Path(parent) / "colret"


def read_settings(commands: Iterable[str]) -> list[Setting]:
    """Return what the files set, what counts more first.

    Args:
        commands: Names of all commands, which tables may be called by, alone or with a subcommand's.

    Raises:
        ColretError: If a file cannot be read, or has a table or a shared option that there is not.
    """
    return [setting for path in config_files() for setting in _settings_of(path, list(commands))]


def _settings_of(path: Path, commands: list[str]) -> Iterator[Setting]:
    for key, value in _parsed(path).items():
        if isinstance(value, Mapping):
            if key.split(" ")[0] not in commands:
                raise ColretError(
                    path, f"there is no command {printable(key)!r}", _nearest(key, commands, "a table is")
                )
            yield from (Setting(key, name, each, path) for name, each in value.items())
        elif key in SHARED:
            yield Setting("", key, value, path)
        else:
            remedy = _nearest(key, SHARED, "what no table is for is") + ", others belong in a table, such as [query]"
            raise ColretError(path, f"there is no option {printable(key)!r} of all commands", remedy)


def _parsed(path: Path) -> dict[str, Any]:
    """Return what a file says; nothing, if there is none."""
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ColretError(path, f"cannot be read ({error.strerror})", "check its permissions") from error
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ColretError(path, f"is not TOML: {error}", "correct it there") from error


def _content(path: Path) -> bytes:
    """Return the bytes of a file. What is no regular one may have no end, or wait for a writer for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ColretError(path, "is no regular file", "put a file of TOML there, or none")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ColretError(path, f"has more than {_MOST_BYTES:,} bytes", "put a file of TOML there, or none")
    return content


def defaults(ctx: click.Context, command: click.Command, name: str, settings: list[Setting]) -> dict[str, Any]:
    """Return what settings say of a command's options, and of its subcommands', as click's ``default_map`` has it.

    Args:
        ctx: Of the group that the command belongs to.
        command: The command.
        name: As it is typed after "colret".
        settings: What counts more first.

    Raises:
        ColretError: If the command has no such option, or the option no such value.
    """
    own = [setting for setting in settings if setting.command == name]
    if isinstance(command, click.Group):
        parts = {each: command.get_command(ctx, each) for each in command.list_commands(ctx)}
        _refuse_unknown_parts(name, list(parts), settings)
        return {each: defaults(ctx, part, f"{name} {each}", settings) for each, part in parts.items() if part}
    options = options_of(command)
    shared = [setting for setting in settings if not setting.command and setting.key in options]
    found: dict[str, Any] = {}
    for setting in (*own, *shared):
        option = options.get(setting.key)
        if option is None:
            remedy = _nearest(setting.key, options, "its options are")
            raise ColretError(setting.file, f"colret {name} has no option {printable(setting.key)!r}", remedy)
        with click.Context(command, info_name=name) as scratch:
            _check(setting, option, scratch)
        if option.name is not None:
            found.setdefault(option.name, setting.value)
    return found


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by the names that files use."""
    return {
        max(option.opts, key=len).lstrip("-"): option for option in command.params if isinstance(option, click.Option)
    }


def _refuse_unknown_parts(name: str, parts: list[str], settings: list[Setting]) -> None:
    for setting in settings:
        group, _, part = setting.command.partition(" ")
        if group == name and part not in parts:
            tables = [f"{name} {each}" for each in parts]
            problem = f"there is no command {printable(setting.command)!r} with options"
            raise ColretError(setting.file, problem, _nearest(setting.command, tables, "a table is"))


def _check(setting: Setting, option: click.Option, ctx: click.Context) -> None:
    """Refuse a value that the option would not take from a command line."""
    problem = ""
    items = setting.value if isinstance(setting.value, list) else [setting.value]
    if option.is_flag != isinstance(setting.value, bool):
        problem = "wants true or false" if option.is_flag else "wants no true or false"
    elif option.multiple != isinstance(setting.value, list):
        problem = "wants a list" if option.multiple else "wants no list"
    elif not (option.is_flag or all(map(_is_typed, items))):
        problem = "wants a list of texts or numbers" if option.multiple else "wants a text or a number"
    else:
        try:
            option.process_value(ctx, _as_typed(setting.value))
        except click.UsageError as error:
            problem = f"does not take it: {error.message}"
    if problem:
        where = f"[{setting.command}] {setting.key}" if setting.command else setting.key
        value = shown(setting.key, setting.value)
        raise ColretError(setting.file, f"{where} = {value!r}: {problem}", "correct it there")


def shown(key: str, value: Any) -> Any:
    """Return a value as it may be shown: of storage options the names alone."""
    if key != _SECRET:
        return value
    parts = value if isinstance(value, list) else str(value).split()
    return " ".join(f"{name}=..." for name, equals, _ in (str(part).partition("=") for part in parts) if equals)


def _is_typed(value: Any) -> bool:
    """Tell whether a command line could say a value."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _as_typed(value: Any) -> Any:
    """Return a value as it would come from a command line."""
    if isinstance(value, list):
        return [str(each) for each in value]
    return value if isinstance(value, bool) else str(value)


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    import difflib  # slow to import, and seldom needed

    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"{otherwise} {', '.join(names)}"
