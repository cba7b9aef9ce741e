"""Which conditions a stranger may ask with: comparisons, and functions whose cost is that of their text.

LanceDB's SQL can neither see nor change anything but the list of pages, but some of its functions
take as much memory or time as they are told to: ``repeat('a', 1000000000)``, a regular expression
of nested counts. So only functions on a list are let through.
"""

from __future__ import annotations

import re
from typing import Final

from colret.errors import FilterError
from colret.filters import COLUMNS

FUNCTIONS: Final = ("lower", "upper", "length", "starts_with", "ends_with", "date_part")

_BEFORE_PARENTHESES = frozenset(["and", "or", "not", "in", "between", "like", "ilike", "is", *FUNCTIONS])
_TEXT = re.compile(r"'(?:[^']|'')*'")
_UNSAFE = re.compile(r"--|/\*|[;~`\\$]|\bsimilar\b", re.IGNORECASE)
_PREFIXED = re.compile(r"\b(?:[bexn]|u&|_\w+)''", re.IGNORECASE)  # texts of other kinds; N'' makes LanceDB panic
_CALLED = re.compile(r'("[^"]*"|[\w.]+)\s*\(')
_ID = re.compile("[0-9a-f]{8,32}")
_PLACES = re.compile(r"\b(path|folder)\b", re.IGNORECASE)


def check_condition(where: str, *, hide_paths: bool = False) -> None:
    """Refuse a condition that may cost more than reading the list of pages, or that asks for what is hidden.

    Args:
        where: A condition in SQL, as ``filters.page_mask`` takes it.
        hide_paths: Whether folders are nobody's business: a condition could guess them letter by letter.

    Raises:
        FilterError: If it calls a function that is not on the list, or uses what hides one.
    """
    problem = _problem(_TEXT.sub("''", where), hide_paths)
    if problem is None:
        return
    subject = where if len(where) <= 100 else where[:100] + "..."
    columns = ", ".join(name for name in COLUMNS if not (hide_paths and _PLACES.fullmatch(name)))
    remedy = f"compare {columns} by =, <, LIKE, ILIKE, IN or BETWEEN; functions: {', '.join(FUNCTIONS)}"
    raise FilterError(subject, problem, remedy)


def document_name(name: str, *, hide_paths: bool = False) -> str:
    """Return the name of a document as ``filters`` takes it, which where paths are hidden asks for files alone.

    Raises:
        FilterError: If it names a folder, or is a pattern that would match one.
    """
    if not hide_paths or _ID.fullmatch(name):
        return name
    if re.search(r"[/\\*?\[]", name) or name in (".", ".."):
        raise FilterError(name[:100], "folders and patterns are not told here", "give a file's name, or its id")
    return f"*/{name}"  # by itself it would also be a folder below the one that the service was started in


def _problem(bare: str, hide_paths: bool) -> str | None:
    """Return what is wrong with a condition whose texts are left out; None if nothing is."""
    if found := _UNSAFE.search(bare) or _PREFIXED.search(bare):
        return f"{found[0]} is not allowed here"
    for name in _CALLED.findall(bare):
        if name.lower() not in _BEFORE_PARENTHESES:
            return f"{name} is no function that is allowed here"
    if hide_paths and (found := _PLACES.search(bare)):
        return f"there is no column {found[0]} here"
    return None
