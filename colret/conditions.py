"""Pages by number and date, as parts of the one SQL condition that ``filters`` takes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

PageRange = tuple[int, int | None]
"""The first and the last page, from 1; None is the last there is."""


def page_range(text: str) -> PageRange:
    """Return the pages that 3, 3-10, 3- or -10 name.

    Raises:
        ValueError: If it is no range, or holds no page.
    """
    found = re.fullmatch(r"([0-9]{0,9})(-?)([0-9]{0,9})", text.replace(" ", ""))
    if found is None or not (found[1] or found[3]):
        raise ValueError(f"{text!r} is no range of pages, such as 3-10, 7 or 12-")
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else None if found[2] else first
    if first < 1 or (last is not None and last < first):
        raise ValueError(f"{text!r} holds no page")
    return first, last


def condition(
    where: str | None, pages: PageRange | None, after: datetime | None, before: datetime | None
) -> str | None:
    """Return the one SQL condition that all of them make; None if nothing is asked.

    Args:
        where: A condition in SQL, which is kept in parentheses of its own.
        pages: Physical pages.
        after: The earliest change of a file that passes; local time, unless it says which.
        before: The change of a file from which on none passes.
    """
    parts = [] if where is None else [where]
    if pages is not None:
        first, last = pages
        parts.append(f"page >= {first}" if last is None else f"page BETWEEN {first} AND {last}")
    for comparison, moment in ((">=", after), ("<", before)):
        if moment is not None:
            parts.append(f"modified {comparison} timestamp '{_in_utc(moment).isoformat()}'")
    if len(parts) < 2:
        return parts[0] if parts else None
    return " AND ".join(f"({part}\n)" if part is where else part for part in parts)


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; what is there before the first year or after the last is its end of the calendar."""
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):  # which of them depends on the end, and on whether a zone is given
        return (datetime.min if moment.year == 1 else datetime.max).replace(tzinfo=UTC)
