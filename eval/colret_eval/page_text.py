"""How report.html writes numbers, times and notes: the filters of its templates."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from jinja2 import Undefined
from markupsafe import Markup

from colret.errors import printable
from colret_eval.plots import Row

MISSING = "\N{EN DASH}"
"""What stands where there is no number."""

MINUS = "\N{MINUS SIGN}"
_SPACE = re.compile(r"\s")


def shown(value: object) -> object:
    """Return a value as the page writes it: text without control characters, which might turn it around."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(_SPACE.sub(" ", value))
    return MISSING if value is None else value


def _file(name: Any) -> Markup:
    """Return a file's name that breaks where it has punctuation, not within words."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_.-])(?=.)", str(shown(str(name)))))


def _missing(value: object) -> bool:
    return value is None or isinstance(value, Undefined) or (isinstance(value, float) and not math.isfinite(value))


def _decimals(value: Any, signed: bool = False) -> str:
    """Return a measure, with a true minus."""
    if _missing(value):
        return MISSING
    text = f"{value:{'+' if signed else ''}.3f}".replace("-", MINUS)
    return "0.000" if text in ("+0.000", f"{MINUS}0.000") else text


def _chance(value: Any) -> str:
    """Return a random baseline with enough digits to tell it from nothing."""
    if _missing(value):
        return MISSING
    return f"{value:.3f}" if value >= 0.01 or value == 0 else f"{value:.2g}"


def _number(value: Any) -> str:
    """Return a number to three significant digits, large ones whole."""
    if _missing(value):
        return MISSING
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}").replace("-", MINUS)


def _count(value: Any) -> str:
    return MISSING if _missing(value) else f"{value:,.0f}"


def _percent(value: Any) -> str:
    return MISSING if _missing(value) else f"{100 * value:.1f} %"


def _bytes(value: Any) -> str:
    if _missing(value):
        return MISSING
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} GB"


def _milliseconds(value: Any) -> str:
    """Return milliseconds, without digits that no clock of a busy machine can vouch for."""
    if _missing(value):
        return MISSING
    return "< 0.01" if 0 <= value < 0.01 else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _sentence(text: Any) -> str:
    """Return a note as a sentence: a capital before, a full stop after."""
    words = "" if _missing(text) else str(text).strip()
    return words and words[0].upper() + words[1:] + ("" if words[-1] in ".!?" else ".")


def _moment(created: Any) -> str:
    """Return an ISO 8601 time in UTC to the minute."""
    return f"{str(created)[:16].replace('T', ' ')} UTC"


def _rank(value: Any) -> str:
    return MISSING if _missing(value) else f"{value:,.0f}"


def _probability(value: Any) -> str:
    if _missing(value):
        return "p unknown"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _against(difference: Row) -> str:
    """Return a difference of the reference minus a system as the system sees it."""
    return _decimals(-difference["mean"], True)


def _of(systems: Sequence[Row], name: str) -> Row:
    return next((system for system in systems if system["id"] == name), {"measures": {}})


FILTERS = {
    "against": _against,
    "bytes": _bytes,
    "chance": _chance,
    "chance_of": _probability,
    "count": _count,
    "decimals": _decimals,
    "file": _file,
    "moment": _moment,
    "ms": _milliseconds,
    "number": _number,
    "of": _of,
    "percent": _percent,
    "rank": _rank,
    "sentence": _sentence,
    "words": lambda name: str(name).replace("_", " "),
}
"""By name, as templates use them."""
