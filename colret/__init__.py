"""colret: late-interaction retrieval of document pages."""

__version__ = "0.1.0"
