"""Reads documents in processes of their own: what hangs, swells or crashes there costs one page."""

from colret.readers.events import DEFAULT_LIMITS, Event, Finished, Limits, Opened, PageFailed, PageRead
from colret.readers.pool import Readers

__all__ = ["DEFAULT_LIMITS", "Event", "Finished", "Limits", "Opened", "PageFailed", "PageRead", "Readers"]
