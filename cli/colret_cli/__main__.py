"""Run the command line with ``python -m colret_cli``."""

from colret_cli.main import cli

cli(prog_name="colret")
