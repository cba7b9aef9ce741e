"""Measure engines: each builds and searches in processes of its own, under a time limit."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import colret
import colret_eval
from colret_eval.bench.corpora import DIM, N_VECTORS, Kind
from colret_eval.bench.reference import DEPTH, Reference, kept_at
from colret_eval.bench.rivals import RIVALS, Variant
from colret_eval.bench.worker import Job, write_job

ENVIRONMENT_OF = {"fast-plaid": "FAST_PLAID_PYTHON"}
"""Variables that name the interpreter of an engine that needs an environment of its own."""


@dataclass(frozen=True)
class Limits:
    """What an engine may take on one corpus."""

    minutes: float  # for building, and again for all its searches
    seconds: float  # for the queries of one variant


def measure(name: str, kind: Kind, n_pages: int, reference: Reference, work: Path, limits: Limits) -> dict[str, Any]:
    """Return an engine's figures on one corpus; ``status`` is "done", or says what is missing and why."""
    figures: dict[str, Any] = {"rival": name, "kind": kind, "n_pages": n_pages, "status": "done", "points": []}
    python = interpreter(name)
    figures["version"], problem = version(name, python)
    if problem := problem or _without_room(name, n_pages, work):
        return figures | {"status": problem}
    folder = work / f"engine-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = Job(name, str(folder), str(work), kind, n_pages, str(work / "result.json"), limits.seconds)
    try:
        built, problem = _run(python, job, limits.minutes * 60, {})
        if built is None:
            return figures | {"status": f"building {problem}"}
        variants = [Variant(*each) for each in built.pop("variants")]
        points, problem = _search(python, job, variants, limits.minutes * 60)
        figures |= built | {"points": [_judged(point, reference) for point in points]}
        return figures | ({"status": f"searching {problem}"} if problem else {})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def interpreter(name: str) -> str:
    """Return the Python that runs an engine: this one, unless the environment names another for it."""
    return os.environ.get(ENVIRONMENT_OF.get(name, ""), sys.executable)


def version(name: str, python: str) -> tuple[str, str]:
    """Return the version of an engine that ``python`` can import, or else why it cannot run."""
    distribution = RIVALS[name].distribution
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    try:
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True, env=worker_environment({}))
    except OSError as error:
        return "", f"not measured: {python} cannot be run ({error.strerror})"
    return asked.stdout.strip(), "" if asked.returncode == 0 else f"not installed: {distribution}"


def _without_room(name: str, n_pages: int, work: Path) -> str:
    """Return that an engine takes too long to build, or that the disk is too small for it, or nothing."""
    if n_pages > (most := RIVALS[name].most_pages):
        return f"not tried: it takes too long to build over more than {most:,} pages"
    needed, free = n_pages * N_VECTORS * DIM * 4 * RIVALS[name].disk, shutil.disk_usage(work).free
    return f"not tried: it needs {needed / 1e9:.0f} GB of disk, {free / 1e9:.0f} are free" if needed > free else ""


def _search(python: str, job: Job, variants: Sequence[Variant], seconds: float) -> tuple[list[dict[str, Any]], str]:
    """Return what was measured of the variants, and what went wrong, if anything."""
    points: list[dict[str, Any]] = []
    ends = time.monotonic() + seconds
    for _, group in itertools.groupby(variants, key=lambda variant: variant.environment):
        some = list(group)
        found, problem = _run(python, _searching(job, some), ends - time.monotonic(), some[0].environment)
        points += found or []
        if problem:
            return points, problem
    return points, ""


def _searching(job: Job, variants: list[Variant]) -> Job:
    return Job(**{**vars(job), "variants": variants})


def _run(python: str, job: Job, seconds: float, environment: dict[str, str]) -> tuple[Any, str]:
    """Run a job in a process of its own; return its result so far, and what went wrong, if anything."""
    result, path = Path(job.result), Path(job.work) / "job.json"
    result.unlink(missing_ok=True)
    write_job(job, path)
    problem = ""
    command = [python, "-m", "colret_eval.bench.worker", str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=max(seconds, 1.0), env=worker_environment(environment)
        )
        if done.returncode:
            problem = f"failed: {last_line(done.stderr) or f'exit status {done.returncode}'}"
    except subprocess.TimeoutExpired:
        problem = f"stopped after {max(seconds, 1.0) / 60:.1f} minutes"
    return (json.loads(result.read_text()) if result.is_file() else None), problem


def worker_environment(more: dict[str, str]) -> dict[str, str]:
    """Return the environment of a worker, which finds this code whatever its interpreter."""
    roots = [str(Path(package.__file__ or "").parent.parent) for package in (colret, colret_eval)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(roots), "LANCEDB_LOG": "error"} | more


def last_line(text: str) -> str:
    """Return the last line that says something: of a traceback, the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _judged(point: dict[str, Any], reference: Reference) -> dict[str, Any]:
    found, own = point.pop("found"), point.pop("own")
    kept = {f"top{k}": share for k, share in kept_at(reference.ids, found).items()}
    if own is not None:
        kept["own_top10"] = kept_at(np.array(own), found)[DEPTH]
    return {"label": point.pop("label"), "n_queries": len(found), **kept, **point}
