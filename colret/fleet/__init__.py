"""Reads and encodes documents on a Ray cluster; one process, the one that asked, writes the index."""

from colret.fleet.engine import Fleet

__all__ = ["Fleet"]
