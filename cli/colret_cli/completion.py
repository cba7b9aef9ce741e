"""``colret completion``: what makes a shell complete colret's commands, options and files."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete colret's commands, options, values and files.

    Put its line where the shell reads it: eval "$(colret completion bash)" into ~/.bashrc, the same
    with zsh into ~/.zshrc, and colret completion fish > ~/.config/fish/completions/colret.fish.

    \b
    Example:
      colret completion bash
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    assert ctx.parent is not None
    click.echo(kind(ctx.parent.command, {}, "colret", "_COLRET_COMPLETE").source())
