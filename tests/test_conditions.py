"""Dates as parts of a condition, to both ends of the calendar."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from colret.conditions import condition
from tests.test_filters import PAGES, passing

ALL = list(range(len(PAGES)))


@pytest.fixture(params=["UTC+12", "UTC-12", "Europe/Berlin"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not hasattr(time, "tzset"):
        pytest.skip("a process keeps its zone here")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def changed(after: str | None = None, before: str | None = None) -> list[int]:
    """Return the rows of ``PAGES`` whose files were changed then; the first are a second older than 2023."""
    moments = [None if text is None else datetime.fromisoformat(text) for text in (after, before)]
    return passing(condition(None, None, *moments))


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize("first", ["0001-01-01", "0001-01-01T00:00:00+05:00", "0999-01-01"])
@pytest.mark.parametrize("last", ["9999-12-31T23:59:59", "9999-12-31T23:59:59-05:00"])
def test_a_date_at_an_end_of_the_calendar_is_a_condition_like_any_other(first: str, last: str) -> None:
    assert changed(after=first, before=last) == ALL
    assert changed(after=last) == []
    assert changed(before=first) == []


def test_a_part_of_a_second_counts() -> None:
    new_year = "2023-01-01T00:00:00.5+00:00"
    assert changed(before=new_year) == [0, 1, 4]
    assert changed(after=new_year) == [0, 1, 2, 3]
