"""What a large collection needs is the product of its unit figures."""

from __future__ import annotations

import pytest

from colret_eval.scale import Units, committing, main, need, page_bytes, rewriting, sign_bytes, sketch_bytes, table

UNITS = Units(vectors=100, dim=128, codec="int8", row_bytes=1000, table_bytes=100)


def test_bytes_of_a_page_are_those_of_its_parts() -> None:
    assert page_bytes(UNITS) == 100 * (128 + 8) + 4 * 128 + 1000
    assert sketch_bytes(UNITS) == 32 * 16
    assert sign_bytes(UNITS) == 100 * 16


def test_ten_times_the_pages_take_ten_times_as_much_but_for_the_waiting() -> None:
    one, ten = (need(n, UNITS, 512) for n in (10**9, 10**10))
    for name in ("stored", "ingest", "memory", "scan", "committing"):
        assert getattr(ten, name) == pytest.approx(10 * getattr(one, name))
    assert ten.nodes == pytest.approx(10 * one.nodes, abs=10)
    assert ten.latency == pytest.approx(one.latency, rel=0.1)  # ten times the nodes look at a tenth each


def test_nodes_hold_what_three_quarters_of_their_memory_can() -> None:
    fits = int(0.75 * UNITS.memory_gb * 1e9 / 612)
    assert need(fits, UNITS, 512).nodes == 1
    assert need(fits + 1, UNITS, 512).nodes == 2


def test_commits_get_slower_until_a_compaction_and_compactions_with_what_there_is() -> None:
    units = Units(commit_rate=1e9, commit_pages=10, commit_growth_us=1000, run_pages=1000)
    by_hand = 10 * sum(0.001 * before for before in range(100))
    assert committing(10_000, units) == pytest.approx(by_hand, rel=0.02)
    rewritten = sum(page_bytes(units) * 1000 * (run + 1) for run in range(10))
    assert rewriting(10_000, units) == pytest.approx(rewritten / (units.rewrite_gb * 1e9))


def test_the_table_is_printed_for_figures_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--pages", "1000000", "--vectors", "100", "--codec", "int8", "--dim", "128", "--row-bytes", "0"])
    printed = capsys.readouterr().out
    assert "A page: 14.1 kB in the index." in printed
    assert "| in the object store | 14.1 GB |" in printed
    assert table([10**6], Units(vectors=100, codec="int8", dim=128, row_bytes=0), 512) in printed
