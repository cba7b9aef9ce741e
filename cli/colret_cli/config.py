"""``colret config``: which defaults are in force, and where they come from."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from colret.errors import one_line
from colret_cli.configuration import Setting, config_files, defaults, options_of, read_settings, shown
from colret_cli.options import json_option
from colret_cli.output import show_path


@click.command()
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show what colret.toml and the environment set, and which of it is in force.

    Options are set by the command line, else by the environment (COLRET_INDEX), else by colret.toml
    in the working folder, else by the one in ~/.config/colret. There, "index", "device" and
    "storage-option" hold for every command, and a table is for one: [query] with k = 10, or ["eval run"].

    \b
    Example:
      colret config
    """
    group = ctx.parent.command if ctx.parent else None
    assert isinstance(group, click.Group)
    settings = read_settings(group.list_commands(ctx))
    for name in group.list_commands(ctx):  # what is wrong with any of it is told
        if command := group.get_command(ctx, name):
            defaults(ctx, command, name, settings)
    files = {str(path): path.exists() for path in config_files()}
    told = [*_environment(group, ctx), *map(_fields, settings)]
    seen: set[tuple[str, str]] = set()
    for each in told:
        place = (each["command"], each["option"])
        each["in_force"] = place not in seen
        seen.add(place)
    if as_json:
        click.echo(json.dumps({"files": files, "settings": told}, ensure_ascii=False))
        return
    for path, is_there in files.items():
        click.echo(f"{show_path(path)}{'' if is_there else '  (not there)'}")
    for each in told:
        name = f"colret {each['command']} --{each['option']}" if each["command"] else f"--{each['option']}"
        over = "" if each["in_force"] else "  (overridden)"
        click.echo(f"{one_line(name)} {one_line(str(each['value']))}  from {show_path(each['source'])}{over}")


def _fields(setting: Setting) -> dict[str, Any]:
    return {
        "command": setting.command,
        "option": setting.key,
        "value": shown(setting.key, setting.value),
        "source": str(setting.file),
    }


def _environment(group: click.Group, ctx: click.Context) -> list[dict[str, Any]]:
    """Return what variables set of the options that all commands share."""
    command = group.get_command(ctx, "query")
    options = options_of(command) if command else {}
    return [
        {"command": "", "option": key, "value": shown(key, os.environ[option.envvar]), "source": option.envvar}
        for key, option in options.items()
        if isinstance(option.envvar, str) and os.environ.get(option.envvar)
    ]
