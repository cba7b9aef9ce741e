"""Options that several commands share, and the objects built from them."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

Result = TypeVar("Result")

_RETRY_SECONDS: Final = 0.2

if TYPE_CHECKING:
    from colret.encoders import Encoder
    from colret.store import PageStore
    from colret.types import EncoderInfo, Page, PageEmbedding, QueryEmbedding


def _index_folder(ctx: click.Context, parameter: click.Parameter, value: str) -> Path:
    """Return the folder that ``--index`` names; an empty name would be the working folder."""
    if not value.strip() or "://" in value:
        raise click.BadParameter("name a folder", ctx, parameter)
    return Path(value).expanduser() if value.startswith("~/") else Path(value)


def index_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--index``."""
    return click.option(
        "--index",
        "index_path",
        callback=_index_folder,
        default=".colret",
        envvar="COLRET_INDEX",
        show_default=True,
        show_envvar=True,
        help="Folder of the index.",
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


def wait_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--wait``."""
    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="SECONDS",
        help="Wait that long for another colret that is writing to the index.  [default: give up at once]",
    )(command)


def when_free(action: Callable[[], Result], seconds: float) -> Result:
    """Do what writes to an index; while another process does, try again for ``seconds``.

    Raises:
        BusyError: If the other still does then.
    """
    from colret.database import BusyError

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


def open_store(path: Path) -> PageStore:
    """Open the index that ``--index`` names."""
    from colret.store import PageStore

    return PageStore.open(path)


def load_encoder_of(
    store: PageStore, *, device: str, model: str | None = None, revision: str | None = None, **options: Any
) -> Encoder:
    """Load the encoder that made an index, keeping the vectors that it kept.

    Args:
        store: The index.
        device: As for ``load_encoder``.
        model: Another name for the index's model, such as that of a folder that moved.
        revision: As for ``load_encoder``; by default the one that made the index.
        options: What else ``load_encoder`` takes.

    Raises:
        ColretError: If the model cannot be had, or is another one.
    """
    if model is not None and not model.strip():
        raise click.UsageError("--model is empty")
    from colret.encoders import load_encoder, pinned_revision
    from colret.encoders.catalogue import SHORTCUTS
    from colret.errors import StoreError

    name = SHORTCUTS.get(model, model) if model else store.settings.model
    if name != store.settings.model and not os.path.isdir(os.path.expanduser(name)):  # no download to refuse it
        problem = f"was made by {store.settings.model}, not {name}"
        raise StoreError(store.path, problem, "leave --model out, or ingest into a new --index")
    if name == store.settings.model:
        revision = revision or pinned_revision(store.settings.revision)
    options["image_tokens_only"] = store.settings.page_tokens == "image"
    encoder: Encoder = usage_errors(lambda: load_encoder(name, revision=revision, device=device, **options))
    store.check_encoder(encoder.info)
    return encoder


class EncoderWhenNeeded:
    """An encoder that is loaded when there is something to encode: a sync of nothing new loads no model."""

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load = functools.cache(load)

    @property
    def info(self) -> EncoderInfo:
        """What the index must know of the encoder."""
        return self._load().info

    def encode_pages(self, pages: Sequence[Page]) -> list[PageEmbedding]:
        """Encode pages with the encoder."""
        return self._load().encode_pages(pages)

    def encode_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Encode queries with the encoder."""
        return self._load().encode_queries(texts)


def usage_errors(call: Callable[[], Result]) -> Result:
    """Turn the library's complaint about an argument into a usage error."""
    try:
        return call()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
