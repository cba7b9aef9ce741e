"""``colret serve``: the index over HTTP, and a page to search it."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from colret.errors import ColretError
from colret_cli.options import NumberRange, check_model_name, device_option, index_option, model_option, usage_errors

if TYPE_CHECKING:
    from colret.location import Location
    from colret.service.access import Access

_KEY_VARIABLE: Final = "COLRET_API_KEY"
_INTERRUPTED: Final = 130  # what a shell reports for Ctrl-C


@click.command()
@index_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; 0.0.0.0 is all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option(
    "--api-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with a key on each line, one of which a request has to show.  [default: ${_KEY_VARIABLE}]",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Another name that the service is called by; repeatable.  "
    "[default: any with a key or at another --host, else only localhost]",
)
@click.option("--hide-paths", is_flag=True, help="Tell files' names without their folders.")
@click.option(
    "--timeout", type=NumberRange(min=0.1), default=30.0, show_default=True, help="Seconds that an answer may take."
)
@click.option(
    "--max-body",
    "body_megabytes",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Megabytes of an image that is sent.",
)
@click.option("--queue", type=click.IntRange(min=1), default=256, show_default=True, help="Searches that may wait.")
@model_option
@device_option
def serve(
    index_path: Location,
    host: str,
    port: int,
    api_key_file: Path | None,
    allowed_hosts: tuple[str, ...],
    hide_paths: bool,
    timeout: float,
    body_megabytes: int,
    queue: int,
    model: str | None,
    device: str,
) -> None:
    """Search the index over HTTP, and on a page in the browser.

    It only reads. Searches see what others ingest meanwhile, and any number of these may serve one
    index. Needs: pip install 'colret[serve]'.

    \b
    Example:
      colret serve --index archive
      colret serve --host 0.0.0.0 --api-key-file keys.txt --hide-paths
    """
    check_model_name(model)
    try:
        from colret.service.app import create_app
        from colret.service.server import bind, serve
    except ModuleNotFoundError as error:
        raise ColretError("colret serve", f"{error.name} is missing", "pip install 'colret[serve]'") from error
    from colret.service.library import Library
    from colret.service.limits import Limits

    access = _access(api_key_file, host, allowed_hosts)
    limits = Limits(seconds=timeout, body_bytes=body_megabytes * 10**6, queue=queue)
    library = Library(index_path, device=device, model=model)
    listening = bind(host, port)  # before a model is loaded for nothing
    encoder = usage_errors(library.load)
    app = create_app(library, encoder, access=access, limits=limits, hide_paths=hide_paths)
    name = f"[{host}]" if ":" in host else host
    click.echo(f"serving {index_path} at http://{name}:{listening.getsockname()[1]}/  (Ctrl-C ends it)", err=True)
    if not access.keys and not _is_loopback(host):
        click.echo("warning: without --api-key-file everybody who reaches this address may search", err=True)
    try:
        serve(app, listening, limits)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _access(key_file: Path | None, host: str, allowed_hosts: tuple[str, ...]) -> Access:
    from colret.service.access import Access, checked_keys, read_keys

    keys: tuple[str, ...] = ()
    if key_file is not None:
        keys = read_keys(key_file)
    elif _KEY_VARIABLE in os.environ:
        keys = checked_keys([os.environ[_KEY_VARIABLE].strip()], _KEY_VARIABLE)
    only_here = not keys and _is_loopback(host)
    return Access(keys, frozenset(name.lower() for name in allowed_hosts) if allowed_hosts or only_here else None)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
