"""What a check of the doctor says."""

from __future__ import annotations

from typing import Literal, NamedTuple

from colret.errors import ColretError

Status = Literal["ok", "warning", "error"]


class Check(NamedTuple):
    """One line of the doctor's report."""

    name: str
    status: Status
    found: str
    remedy: str = ""  # what to do; "" where nothing is wrong


def failed(name: str, error: ColretError) -> Check:
    """Return the line of a check that met ``error``."""
    return Check(name, "error", f"{error.subject}: {error.problem}", error.remedy)
