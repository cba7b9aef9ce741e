"""Options that several commands share, and the objects built from them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

Result = TypeVar("Result")

_RETRY_SECONDS: Final = 0.2
_STORAGE_OPTIONS: Final = "colret.storage_options"  # in click's meta

if TYPE_CHECKING:
    from colret.encoders import Encoder
    from colret.location import Location
    from colret.store import PageStore


def index_location(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Location | None:
    """Return what ``--index`` names, None if nothing; an empty name would be the working folder."""
    from colret.errors import StoreError
    from colret.location import Location

    if value is None:
        return None
    if not value.strip():
        raise click.BadParameter("name a folder", ctx, parameter)
    try:
        return Location.of(Path(value).expanduser() if value.startswith("~/") else value, storage_options(ctx))
    except StoreError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def _keep_storage_options(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    """Keep the options for whatever opens an object store. A message quotes no value: it may be a secret."""
    options = {}
    for value in values:
        name, equals, content = value.partition("=")
        if not (equals and name.strip() and content):
            raise click.BadParameter("each is KEY=VALUE, such as aws_region=eu-central-1", ctx, parameter)
        options[name.strip().lower()] = content
    ctx.meta[_STORAGE_OPTIONS] = options


def storage_options(ctx: click.Context) -> dict[str, str]:
    """Return what ``--storage-option`` says, of a command that has it."""
    options: dict[str, str] = ctx.meta.get(_STORAGE_OPTIONS, {})
    return options


def complete_folders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have a shell complete names of folders."""
    return [CompletionItem(incomplete, type="dir")]


def complete_files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have a shell complete names of files and folders."""
    return [CompletionItem(incomplete, type="file")]


def index_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--index`` and ``--storage-option``."""
    return click.option(
        "--index",
        "index_path",
        callback=index_location,
        default=".colret",
        envvar="COLRET_INDEX",
        show_default=True,
        show_envvar=True,
        shell_complete=complete_folders,
        help="Folder of the index, or its address: s3://BUCKET/PREFIX, gs://, az://.",
    )(storage_option(command))


def storage_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--storage-option``, for what is in object stores."""
    return click.option(
        "--storage-option",
        multiple=True,
        is_eager=True,  # --index needs them
        expose_value=False,
        callback=_keep_storage_options,
        envvar="COLRET_STORAGE_OPTION",
        metavar="KEY=VALUE",
        help="How an object store is reached, such as aws_endpoint=URL; again for each. Credentials are better "
        "left to the environment.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def device_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--device``."""
    return click.option(
        "--device",
        default="auto",
        show_default=True,
        help="Where the model runs: auto, cpu, cuda, cuda:N or mps.",
    )(command)


def model_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--model``, as commands have it that search an index."""
    return click.option("--model", help="Another name for the index's model, such as its folder after a move.")(command)


class TextFile(click.File):
    """A file of text to read, which "-" says is stdin."""

    def __init__(self) -> None:
        super().__init__("r", encoding="utf-8")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> IO[Any]:
        """Return the file, open."""
        if value == "-" and sys.stdin is None:
            self.fail("stdin is closed", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """A number within a range; no "nan", which no comparison keeps out of one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def wait_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--wait``."""
    return click.option(
        "--wait",
        type=NumberRange(min=0),
        default=0.0,
        metavar="SECONDS",
        help="Wait that long for another colret that is writing to the index.  [default: give up at once]",
    )(command)


def when_free(action: Callable[[], Result], seconds: float) -> Result:
    """Do what writes to an index; while another process does, try again for ``seconds``.

    Raises:
        BusyError: If the other still does then.
    """
    from colret.errors import BusyError

    deadline = time.monotonic() + seconds
    waiting = False
    while True:
        try:
            return action()
        except BusyError as error:
            if time.monotonic() >= deadline:
                raise
            if not waiting:
                click.echo(f"waiting: {error.subject}: {error.problem}", err=True)
            waiting = True
            time.sleep(_RETRY_SECONDS)


def open_store(index: Location) -> PageStore:
    """Open the index that ``--index`` names."""
    from colret.store import PageStore

    return PageStore.open(index)


def load_encoder_of(
    store: PageStore, *, device: str, model: str | None = None, revision: str | None = None, **options: Any
) -> Encoder:
    """Load the encoder that made an index; a wrong option is a usage error.

    Arguments as for ``index_encoder.load_encoder_of``.

    Raises:
        ColretError: If the model cannot be had, or is another one.
    """
    from colret.index_encoder import load_encoder_of as load

    check_model_name(model)
    return usage_errors(lambda: load(store, model=model, device=device, revision=revision, **options))


def check_model_name(model: str | None) -> None:
    """Refuse an empty name, as an unset variable gives."""
    if model is not None and not model.strip():
        raise click.UsageError("--model is empty")


def usage_errors(call: Callable[[], Result]) -> Result:
    """Turn the library's complaint about an argument into a usage error."""
    try:
        return call()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
