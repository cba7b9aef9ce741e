"""``colret mcp``: the index as tools for assistants."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from colret.errors import ColretError
from colret_cli.options import check_model_name, device_option, index_option, load_encoder_of, model_option, open_store

if TYPE_CHECKING:
    from colret.location import Location


@click.command()
@index_option
@model_option
@device_option
def mcp(index_path: Location, model: str | None, device: str) -> None:
    """Offer the index to an assistant as tools, over the Model Context Protocol.

    It speaks JSON-RPC on stdin and stdout, until stdin ends: an assistant starts it. The tools
    search pages, read one, list documents and describe the index; none changes anything. The
    model is loaded by the first search. Needs: pip install 'colret[mcp]'.

    \b
    Example:
      colret mcp --index archive
    """
    check_model_name(model)
    try:
        from colret.assistant.server import serve
    except ModuleNotFoundError as error:
        raise ColretError("colret mcp", f"{error.name} is missing", "pip install 'colret[mcp]'") from error
    from colret.assistant.tools import IndexTools
    from colret.index_encoder import EncoderWhenNeeded

    store = open_store(index_path)
    load = functools.partial(load_encoder_of, store, device=device, model=model, queries_only=True)
    with _ended_by_signals():
        serve(IndexTools(store, EncoderWhenNeeded(load), device=device))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the process at once when it is told to stop: there is nothing to tidy up.

    A KeyboardInterrupt, which others of our commands take that as, breaks asyncio at any line.
    """
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, _end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"colret: told to stop\n")
    os._exit(128 + number)
