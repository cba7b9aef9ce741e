"""Whether the top region covers the answer, on headings whose place on the page is known.

    python -m colret_eval.evidence DATASET_FOLDER [--queries N] [--others] [--index FOLDER]

A query that is a heading of its labelled page asks for the place where that heading stands: the
words of the text layer that spell it, the largest where they stand several times. The regions
are those that ``colret query`` gives for that page, from an index as ``colret ingest`` makes it.
A region covers the heading if at least half of the heading's box lies inside, and if it is at
most a quarter of the page. The queries measured are chosen by a hash of their ids.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from colret.documents import document_id
from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.evidence import Evidence, find_evidence
from colret.ingest import ingest
from colret.matches import PageBox, in_points
from colret.reading import open_document
from colret.search import embed
from colret.settings import settings_for
from colret.store import PageStore
from colret.types import PageRef, Words
from colret_eval.datasets import Dataset, load_dataset
from colret_eval.headings import find_items, plain_text
from colret_eval.statistics import Interval, bootstrap_interval

N_QUERIES = 30
COVERED = 0.5  # of the heading's box that lies inside the region at least
SMALL_ENOUGH = 0.25  # of the page that the region is at most


class Heading(NamedTuple):
    """A query that is a heading of its page."""

    query_id: str
    text: str
    file: str  # name of the document
    page: int
    box: PageBox
    page_area: float  # square points


class Outcome(NamedTuple):
    """What the top region covers of a heading."""

    heading: Heading
    covered: float  # share of the heading's box inside the region
    area: float  # share of the page that the region takes
    other: float  # the largest share of the heading's box inside another region

    @property
    def found(self) -> bool:
        """Whether the region shows where the heading is."""
        return self.covered >= COVERED and self.area <= SMALL_ENOUGH


def find_headings(dataset: Dataset) -> list[Heading]:
    """Return the queries that are a heading or a caption of their page, in the order of the hashes of their ids.

    Raises:
        ColretError: If a document cannot be read.
    """
    items: dict[str, set[tuple[str, int]]] = {}
    found = []
    for query_id in sorted(dataset.queries, key=lambda each: hashlib.sha256(each.encode()).digest()):
        text, name = dataset.queries[query_id], dataset.sources[query_id]
        numbers = {PageRef.parse(key).number for key, grade in dataset.qrels[query_id].items() if grade > 0}
        if name not in items:
            items[name] = {(plain_text(i.text), i.page) for i in find_items(dataset.documents[name], name)}
        for number in sorted(numbers):
            if (plain_text(text), number) in items[name]:
                found.append(Heading(query_id, text, name, number, PageBox(0, 0, 0, 0), 0.0))
                break
    return [heading for heading in _located(dataset.documents, found) if heading.page_area]


def heading_box(words: Words, text: str, width: float, height: float) -> PageBox | None:
    """Return the box around the words that spell ``text``, in points; None where they stand nowhere.

    Words are compared without case and punctuation. Of several places the one set largest, of
    those the first.
    """
    wanted = _letters(text)
    letters = [_letters(word) for word in words.texts]
    boxes = in_points(words.boxes, width, height)
    best: tuple[float, PageBox] | None = None
    for first in range(len(letters)):
        spelt, last = "", first
        while last < len(letters) and len(spelt) < len(wanted) and wanted.startswith(spelt):
            spelt, last = spelt + letters[last], last + 1
        if spelt != wanted or not letters[first]:
            continue
        own = boxes[first:last]
        size = round(float(np.median(own[:, 3] - own[:, 1])), 1)
        if best is None or size > best[0]:
            best = size, PageBox(*own[:, :2].min(axis=0).tolist(), *own[:, 2:].max(axis=0).tolist())
    return best[1] if best else None


def measure(dataset: Dataset, headings: Sequence[Heading], store: PageStore, encoder: Encoder) -> list[Outcome]:
    """Return what the top region of each heading's page covers; the index must hold these pages."""
    embeddings = embed(store, encoder, [heading.text for heading in headings])
    places = {candidate.ref: candidate for candidate in store.candidates()}
    ids = {heading.file: document_id(dataset.documents[heading.file]) for heading in headings}
    outcomes = []
    for heading, query in zip(headings, embeddings, strict=True):
        [evidence] = find_evidence(store, query, [places[PageRef(ids[heading.file], heading.page)]])
        outcomes.append(_outcome(heading, evidence))
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> Interval:
    """Return the share of headings found, with its interval over headings."""
    values = np.array([outcome.found for outcome in outcomes], np.float64)
    return bootstrap_interval(values, [outcome.heading.file for outcome in outcomes], np.random.default_rng(0))


def _outcome(heading: Heading, evidence: Evidence) -> Outcome:
    shares = [_share_inside(heading.box, region.box) for region in evidence.regions]
    if not shares:
        return Outcome(heading, 0.0, 0.0, 0.0)
    top = evidence.regions[0].box
    return Outcome(heading, shares[0], _area(top) / heading.page_area, max(shares[1:], default=0.0))


def _share_inside(box: PageBox, region: PageBox) -> float:
    across = min(box.right, region.right) - max(box.left, region.left)
    down = min(box.bottom, region.bottom) - max(box.top, region.top)
    return max(across, 0.0) * max(down, 0.0) / _area(box) if _area(box) else 0.0


def _area(box: PageBox) -> float:
    return (box.right - box.left) * (box.bottom - box.top)


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", unicodedata.normalize("NFKC", text).casefold())


def _located(documents: Mapping[str, Path], headings: Sequence[Heading]) -> Iterator[Heading]:
    """Yield the headings with their boxes; without area where their words cannot be found."""
    for heading in headings:
        with open_document(documents[heading.file]) as document:
            page = document.read_page(heading.page, ref=PageRef("page", heading.page), pixels=0, ocr=False)
        box = heading_box(page.words, heading.text, page.width, page.height)
        if box:
            yield heading._replace(box=box, page_area=page.width * page.height)


def _report(dataset: Dataset, n_headings: int, outcomes: Sequence[Outcome]) -> Iterator[str]:
    share = summary(outcomes)
    n_found = sum(outcome.found for outcome in outcomes)
    yield (
        f"{dataset.name}: {len(dataset.queries)} queries, {n_headings} of them headings found on their page; "
        f"of {len(outcomes)}, the top region covers {n_found}: "
        f"{share.mean:.1%} [{share.low:.1%}, {share.high:.1%}] (95 %, over {share.unit})"
    )
    areas = [outcome.area for outcome in outcomes]
    n_any = sum(max(outcome.covered, outcome.other) >= COVERED for outcome in outcomes)
    yield f"a region of any rank covers {n_any}; mean area of the top region {np.mean(areas):.1%} of the page"
    for outcome in outcomes:
        if not outcome.found:
            heading = outcome.heading
            yield (
                f"missed: {heading.query_id} {heading.file} page {heading.page} {heading.text!r}: "
                f"{outcome.covered:.0%} covered by {outcome.area:.1%} of the page, "
                f"{outcome.other:.0%} by another region"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how often the top region covers the heading, and which it misses; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m colret_eval.evidence", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DATASET_FOLDER")
    parser.add_argument("--queries", type=int, default=N_QUERIES, help="headings to measure (default: %(default)s)")
    parser.add_argument("--others", action="store_true", help="measure all headings but those: for tuning")
    parser.add_argument("--index", type=Path, help="index to keep; by default one that is thrown away")
    options = parser.parse_args(arguments)
    try:
        dataset = load_dataset(options.folder)
        headings = find_headings(dataset)
        chosen = headings[options.queries :] if options.others else headings[: options.queries]
        with tempfile.TemporaryDirectory() as folder:
            store, encoder = _index(dataset, options.index or Path(folder) / "index")
            lines = list(_report(dataset, len(headings), measure(dataset, chosen, store, encoder)))
    except ColretError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def _index(dataset: Dataset, path: Path) -> tuple[PageStore, Encoder]:
    encoder = load_encoder("embedded", queries_only=True)
    store = PageStore.open(path) if PageStore.exists(path) else PageStore.create(path, settings_for(encoder.info))
    ingest(dataset.pdfs, store, encoder)
    store.refresh()
    return store, encoder


if __name__ == "__main__":
    sys.exit(main())
