"""Two ingests and four askers at once on one index: nobody fails, and nobody sees part of a document.

``python -m tests.test_soak ROLE INDEX FOLDER SECONDS SEED`` is each of the six processes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from colret.errors import StoreError
from colret.ingest import ingest
from colret.search import embed, explain, rank
from colret.settings import settings_for
from colret.store import PageStore
from tests.folders import QUESTIONS, contents, numpy_encoder, pdf, sentence, steady
from tests.processes import ROOT, environment, small_commits

SECONDS, LONG_SECONDS = 5, 120
INGESTS, ASKERS = 2, 4
FILES = 6  # of each ingest
LIMIT = 240  # seconds beyond the above, after which a process hangs


@pytest.mark.prove
def test_askers_see_whole_documents_while_two_ingest(proving: bool, tmp_path: Path) -> None:
    index = tmp_path / "index"
    seconds = LONG_SECONDS if proving else SECONDS
    store = PageStore.create(index, settings_for(numpy_encoder().info))
    folders = [tmp_path / f"documents{i}" for i in range(INGESTS)]
    for i, folder in enumerate(folders):
        folder.mkdir()
        change(folder, random.Random(i), FILES)
    ingest(folders, store, numpy_encoder())
    roles = [("ingest", folder) for folder in folders] + [("ask", tmp_path)] * ASKERS
    processes = [start(role, index, folder, seconds, seed) for seed, (role, folder) in enumerate(roles)]
    results = [process.communicate(timeout=seconds + LIMIT) for process in processes]
    for (role, _), process, (out, err) in zip(roles, processes, results, strict=True):
        assert process.returncode == 0, f"{role}: {err}"
        print(role, out.strip())
    told = [json.loads(out) for out, _ in results]
    assert all(each["n_changes"] for each in told[:INGESTS])  # neither starved
    assert all(each["n_answers"] for each in told[INGESTS:])
    ingest(folders, store, numpy_encoder(), prune=True)
    undisturbed = PageStore.create(tmp_path / "undisturbed", settings_for(numpy_encoder().info))
    ingest(folders, undisturbed, numpy_encoder())
    assert contents(store) == contents(undisturbed)


def start(role: str, index: Path, folder: Path, seconds: int, seed: int) -> subprocess.Popen[str]:
    arguments = map(str, (role, index, folder, seconds, seed))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.test_soak", *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def change(folder: Path, rng: random.Random, n_files: int) -> None:
    """Write some of the folder's files anew."""
    for number in rng.sample(range(FILES), n_files):
        pages = [sentence(rng) for _ in range(rng.randint(1, 9))]
        (folder / f"{number}.pdf").write_bytes(pdf(*pages))


def keep_ingesting(store: PageStore, folder: Path, end: float, rng: random.Random) -> dict[str, int]:
    """Change a folder and ingest it, over and over; whoever finds the index locked tries again."""
    counts: Counter[str] = Counter(n_changes=0)
    small_commits()
    while time.monotonic() < end:
        change(folder, rng, rng.randint(1, 3))
        if rng.random() < 0.3:
            (folder / f"{rng.randrange(FILES)}.pdf").unlink(missing_ok=True)
        while True:
            try:
                report = ingest([folder], store, numpy_encoder(), prune=rng.random() < 0.5)
                break
            except StoreError as error:
                if "another colret is writing" not in str(error):
                    raise
                counts["n_refused"] += 1
                time.sleep(rng.uniform(0, 0.1))
        assert not report.skipped, report.skipped
        counts["n_changes"] += 1
    return counts


def keep_asking(store: PageStore, end: float, rng: random.Random) -> dict[str, int]:
    """Ask and look at every visible document, over and over."""
    counts: Counter[str] = Counter(n_answers=0)
    queries = embed(store, numpy_encoder(), QUESTIONS)
    while time.monotonic() < end:
        prefilter = rng.choice([None, "none", "single", "binary", "text"])
        [ranking] = rank(store, [rng.choice(queries)], k=5, prefilter=prefilter, n_candidates=8 if prefilter else None)
        counts["n_documents"] += steady(lambda: n_whole(store))
        counts["n_answers"] += 1
        try:
            explanations = explain(store, queries[0], ranking.hits)
            assert all(each.paths and each.snippet for each in explanations)
        except StoreError as error:
            if "search again" not in str(error):  # a page was replaced since it was found
                raise
            counts["n_gone"] += 1
    return counts


def n_whole(store: PageStore) -> int:
    """Return how many documents can be seen, each with all its pages."""
    store.refresh()
    seen = Counter(page.ref.doc_id for page in store.candidates())
    records = [record for record in store.documents() if record.status == "done"]
    for record in records:
        expected = record.n_pages - record.n_blank - len(record.skipped)
        assert seen.pop(record.doc_id, 0) == expected, record
    assert not seen
    return len(records)


def _main(role: str, index: str, folder: str, seconds: str, seed: str) -> None:
    store, rng = PageStore.open(Path(index)), random.Random(int(seed))
    numpy_encoder()
    end = time.monotonic() + float(seconds)
    counts = keep_ingesting(store, Path(folder), end, rng) if role == "ingest" else keep_asking(store, end, rng)
    print(json.dumps(counts))


if __name__ == "__main__":
    _main(*sys.argv[1:])
