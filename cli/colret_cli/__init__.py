"""The command line of colret: one module per command."""
