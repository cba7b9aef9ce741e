"""What an index in an object store costs: few round trips, and none for what was copied."""

from __future__ import annotations

import os

import pytest

from colret_eval.counting_server import s3_server
from colret_eval.object_store import measure, table

DELAY = 0.05


def test_candidates_are_fetched_in_few_round_trips_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLRET_CACHE", "elsewhere")
    costs = measure(110, DELAY, 1)
    assert os.environ["COLRET_CACHE"] == "elsewhere"
    _, _, cold, warm, query, again = costs
    assert 10 < cold.n_requests <= 110  # a request may give several pages
    assert cold.n_round_trips < cold.n_requests / 4  # as they are made together
    assert warm.n_requests == 0
    assert query.n_requests > again.n_requests == 2  # which ask for news of the two tables
    assert "| 2 |" in table(costs, DELAY).splitlines()[-1]


def test_requests_are_counted() -> None:
    import httpx

    with s3_server() as (server, options):
        before = server.n_requests
        httpx.get(options["aws_endpoint"], trust_env=False)
        assert server.n_requests == before + 1
