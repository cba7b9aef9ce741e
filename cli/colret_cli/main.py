"""The ``colret`` command: a group whose commands are imported only when used."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final, NoReturn

import click

import colret
from colret.errors import ColretError
from colret_cli.configuration import defaults, read_settings

_COMMANDS: Final = {
    "ingest": "colret_cli.ingest:ingest",
    "query": "colret_cli.query:query",
    "show": "colret_cli.show:show",
    "info": "colret_cli.info:info",
    "list": "colret_cli.listing:list_documents",
    "remove": "colret_cli.remove:remove",
    "calibrate": "colret_cli.calibrate:calibrate",
    "duplicates": "colret_cli.duplicates:duplicates",
    "index": "colret_cli.index:index",
    "export": "colret_cli.export:export",
    "mcp": "colret_cli.mcp:mcp",
    "serve": "colret_cli.serve:serve",
    "bench": "colret_cli.bench:bench",
    "models": "colret_cli.models:models",
    "config": "colret_cli.config:config",
    "completion": "colret_cli.completion:completion",
    "doctor": "colret_cli.doctor:doctor",
    "eval": "colret_cli.evaluate:evaluate",
}

INTERRUPTED: Final = 130  # what a shell reports for Ctrl-C


class _LazyGroup(click.Group):
    """Import a command's module when the command is asked for, and tell failures in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, and what configuration files say of its options."""
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not ctx.resilient_parsing:  # which completes half a command
            ctx.default_map = {name: defaults(ctx, command, name, read_settings(_COMMANDS))}
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            os.getcwd()  # everything is relative to it
            return super().invoke(ctx)
        except ColretError as error:
            _fail(str(error), 1)
        except KeyboardInterrupt:
            _fail("interrupted; the index is consistent, run the same command again to go on", INTERRUPTED)
        except BrokenPipeError:
            raise  # the reader of our output left, as `head` does; click ends quietly
        except OSError as error:  # no working folder any more, or output that cannot be written
            _fail(f"{error.filename or 'output'}: {error.strerror}; change the folder, or make space", 1)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(colret.__version__, prog_name="colret")
def cli() -> None:
    """Find the right page in folders of PDFs.

    \b
    colret ingest FOLDER            index every PDF and image below FOLDER
    colret query "net revenue 2023" rank the pages that answer
    """


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"colret: {message}", err=True)
    sys.exit(code)
