"""``colret config``: which defaults are in force, and where they come from."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Final

import click

from colret.errors import printable
from colret_cli.configuration import Setting, config_files, defaults, options_of, read_settings, shown
from colret_cli.options import json_option
from colret_cli.output import show_path

_OF_ALL: Final = "query"  # a command that has every option that all share


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
        name = f"colret {each['command']} " if each["command"] else ""
        typed = _typed(_option(group, ctx, each["command"], each["option"]), each["value"])
        over = "" if each["in_force"] else "  (overridden)"
        click.echo(f"{name}{printable(typed)}  from {show_path(each['source'])}{over}")


def _fields(setting: Setting) -> dict[str, Any]:
    return {
        "command": setting.command,
        "option": setting.key,
        "value": shown(setting.key, setting.value),
        "source": str(setting.file),
    }


def _option(group: click.Group, ctx: click.Context, name: str, key: str) -> click.Option:
    """Return an option of a command, or one that all share."""
    command: click.Command | None = group
    for part in (name or _OF_ALL).split(" "):
        assert isinstance(command, click.Group)
        command = command.get_command(ctx, part)
    assert command is not None
    return options_of(command)[key]


def _typed(option: click.Option, value: Any) -> str:
    """Return an option as a command line sets it; what it cannot say there, as a file does."""
    name = max(option.opts, key=len)
    if option.is_flag:
        return name if value else f"{name} false"
    values = value if isinstance(value, list) else value.split() if option.multiple else [value]
    return " ".join(f"{name} {shlex.quote(str(each))}" for each in values) or f"{name} []"


def _environment(group: click.Group, ctx: click.Context) -> list[dict[str, Any]]:
    """Return what variables set of the options that all commands share."""
    command = group.get_command(ctx, _OF_ALL)
    options = options_of(command) if command else {}
    return [
        {"command": "", "option": key, "value": shown(key, os.environ[option.envvar]), "source": option.envvar}
        for key, option in options.items()
        if isinstance(option.envvar, str) and os.environ.get(option.envvar)
    ]
