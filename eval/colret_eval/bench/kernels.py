"""MaxSim over pages in memory on one core: every scorer in turn, round after round.

    python -m colret_eval.bench.kernels SCORER WORK N_PAGES     (one scorer's process)

Each scorer has a process of its own, all on the same core and all waiting but one, so that
rounds interleave: what else the machine does meanwhile falls on all alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colret_eval.bench.clock import Stopwatch
from colret_eval.bench.corpora import corpus, load_queries
from colret_eval.bench.engines import last_line, worker_environment
from colret_eval.bench.reference import DEPTH, Reference, kept_at
from colret_eval.bench.scorers import OURS, SCORERS

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")}
START_SECONDS = 120.0
SAME_TOP = 0.995
"""Share of the exact top-10 from which a scorer counts as exact."""


class _Process:
    """A scorer's process, which answers a line for each line."""

    def __init__(self, name: str, work: Path, n_pages: int) -> None:
        command = [sys.executable, "-m", __name__, name, str(work), str(n_pages)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=worker_environment(ONE_THREAD),
        )

    def ask(self, line: str = "") -> dict[str, Any] | None:
        """Return the answer to a line; None if the process ended."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            if line:
                print(line, file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer) if answer else None

    def end(self) -> str:
        """Let the process end; return the last line of what it complained about."""
        _, complaint = self._process.communicate(timeout=START_SECONDS)
        return last_line(complaint)


def measure(work: Path, reference: Reference, n_pages: int, rounds: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return pages a second and core of each scorer, and its ratio to the best rival's.

    Args:
        work: Where ``corpora.prepare`` wrote.
        reference: The exact ranking of the first ``n_pages`` pages of the separated corpus.
        n_pages: Pages in memory.
        rounds: Queries that each scorer answers in turn.
        names: Of ``SCORERS``.
    """
    processes = {name: _Process(name, work, n_pages) for name in names}
    rows: dict[str, dict[str, Any]] = {}
    rates: dict[str, list[float]] = {}
    for name, process in processes.items():
        ready = process.ask()
        if ready is None:
            rows[name] = {"scorer": name, "status": process.end() or "failed"}
        else:
            rows[name] = {"scorer": name, "status": "done", **_kept(reference, ready["found"])}
            rates[name] = []
    for turn in range(rounds):
        for name in list(rates):
            answer = processes[name].ask(str(turn))
            if answer is not None:
                rates[name].append(n_pages / answer["cpu_s"])
    for name, measured in rates.items():
        processes[name].end()
        rows[name] |= {"pages_per_core_s": float(np.median(measured)), "rounds": len(measured)}
    return _with_ratios(list(rows.values()))


def _kept(reference: Reference, found: list[list[int]]) -> dict[str, float]:
    return {f"top{k}": share for k, share in kept_at(reference.ids, found).items()}


def _with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each row its speed as a multiple of the best rival's that keeps the exact top."""
    rivals = [row for row in rows if not row["scorer"].startswith(OURS) and row.get(f"top{DEPTH}", 0.0) >= SAME_TOP]
    best = max((row["pages_per_core_s"] for row in rivals), default=None)
    if best is None:
        return rows
    return [row | {"to_best_rival": row["pages_per_core_s"] / best} if "rounds" in row else row for row in rows]


def serve(name: str, work: Path, n_pages: int) -> None:
    """Score: first all queries, answering with the best pages, then one query for each line read."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answer_stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    if SCORERS[name].distribution in ("colpali-engine", "colret"):
        import torch

        torch.set_num_threads(1)
    score = SCORERS[name].make(np.stack(list(corpus(work, "separated").pages(n_pages))))
    queries = load_queries(work)
    found = [np.argsort(-np.asarray(score(query)), kind="stable")[:DEPTH].tolist() for query in queries]
    print(json.dumps({"found": found}), file=answer_stream, flush=True)
    for line in sys.stdin:
        query = queries[int(line) % len(queries)]
        watch = Stopwatch()
        score(query)
        elapsed = watch.elapsed()
        print(json.dumps({"wall_s": elapsed.wall, "cpu_s": elapsed.cpu}), file=answer_stream, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
