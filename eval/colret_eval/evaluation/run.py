"""``colret eval run``: labelled sets in, the report out, as one dictionary of plain values."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import colret
from colret.encoders import Encoder
from colret.location import Location, StrPath
from colret.prefilter import DEFAULT_PREFILTER
from colret.report import Progress
from colret.search import DEFAULT_CANDIDATES
from colret.settings import settings_for
from colret.types import IndexSettings
from colret_eval.bench import machine
from colret_eval.checks import Finding, check_dataset
from colret_eval.datasets import Dataset, DatasetError, load_dataset, union
from colret_eval.evaluation.baselines import Baselines
from colret_eval.evaluation.comparison import EXPLANATIONS
from colret_eval.evaluation.corpus import open_corpus
from colret_eval.evaluation.one_set import SEED, Options, evaluate_set, with_headline
from colret_eval.evaluation.recorder import RecordingEncoder

SCHEMA: Final = "colret-eval-run"
SCHEMA_VERSION: Final = 1

DISTRACTORS: Final = "pdfs_distractors"


@dataclass(frozen=True, slots=True)
class Checked:
    """A set that can be used, and what its check warns of."""

    dataset: Dataset
    findings: list[Finding] = field(default_factory=list)


def load_checked(folder: Path, *, distractors: bool = False) -> Checked:
    """Read a set, with the PDFs of its ``pdfs_distractors/`` where they are wanted and there.

    Raises:
        UnusableSetError: The check found errors.
    """
    extra = [DISTRACTORS] if distractors and (folder / DISTRACTORS).is_dir() else []
    findings = check_dataset(folder, extra_folders=extra).findings
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise UnusableSetError(errors)
    dataset = load_dataset(folder, extra_folders=extra)
    if extra:
        dataset = replace(dataset, name=f"{dataset.name}+distractors")
        findings = [finding for finding in findings if finding.kind != "unlabelled_documents"]  # as was asked for
    return Checked(dataset, findings)


class UnusableSetError(Exception):
    """A labelled set has errors: figures would be wrong."""

    def __init__(self, errors: Sequence[Finding]) -> None:
        self.errors = tuple(errors)
        n = len(self.errors)
        super().__init__(f"{n} {'error' if n == 1 else 'errors'} in the labelled set")


def evaluate_sets(
    sets: Sequence[Checked],
    encoder: Encoder,
    indexes: Location | StrPath,
    scratch: Path,
    options: Options,
    say: Callable[[str], None] = lambda text: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Evaluate each set, and all together where there are several.

    Args:
        sets: With names of their own.
        encoder: The model.
        indexes: Folder, or address in an object store, that the indexes are made below, one for each
            set, or found.
        scratch: Folder for float32 vectors, about 4 P D bytes a page, where there are several sets:
            their pages are encoded once.
        options: What to measure.
        say: Told what is being done.
        on_progress: As for ``ingest``.

    Returns:
        The report: see its schema.

    Raises:
        ColretError: A set or an index cannot be used.
    """
    started = time.monotonic()
    several = len(sets) > 1
    every = [replace(each, findings=_within(each)) for each in sets]
    every += [_union(every)] if several else []
    texts = list(dict.fromkeys(text for each in sets for text in _texts(each.dataset)))
    recorder = RecordingEncoder(encoder, texts, scratch if several else None)
    settings = settings_for(encoder.info, options.codec, dim=options.dim, pool=options.pool)
    baselines = Baselines(encoder.info, options.bi_model, options.device)
    reports = []
    for checked in every:
        say(f"{checked.dataset.name}: indexing")
        place = Location.of(indexes).below(checked.dataset.name)
        corpus, ingested = open_corpus(checked.dataset, place, settings, recorder, on_progress)
        is_union = several and checked is every[-1]
        report = evaluate_set(corpus, ingested, recorder, options, baselines, say)
        findings = [finding._asdict() for finding in checked.findings]
        reports.append(with_headline(report | {"is_union": is_union, "findings": findings}))
    return _head(encoder, settings) | {"seconds": time.monotonic() - started, "sets": reports}


def _texts(dataset: Dataset) -> Iterator[str]:
    yield from dataset.queries.values()
    yield from dataset.no_answer.values()


def _within(checked: Checked) -> list[Finding]:
    """Return the findings with files as the set names them: where it lies on this machine tells readers nothing."""
    folder = str(checked.dataset.folder)
    return [
        finding._replace(
            where=checked.dataset.name if finding.where == folder else finding.where.replace(folder + os.sep, ""),
            problem=finding.problem.replace(folder + os.sep, ""),
        )
        for finding in checked.findings
    ]


def _union(sets: Sequence[Checked]) -> Checked:
    try:
        merged = union([each.dataset for each in sets])
    except ValueError as error:
        raise DatasetError(sets[0].dataset.name, "is the name of two sets", "rename one of the folders") from error
    if merged.name in {each.dataset.name for each in sets}:
        raise DatasetError(merged.name, "is what all sets together are called", "rename that folder")
    return Checked(merged, [f._replace(where=f"{each.dataset.name}/{f.where}") for each in sets for f in each.findings])


def _head(encoder: Encoder, settings: IndexSettings) -> dict[str, Any]:
    info = encoder.info
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tool_version": colret.__version__,
        "seed": SEED,
        "machine": machine.facts(),
        "model": {
            name: getattr(info, name) for name in ("name", "revision", "family", "dim", "reads", "query_template")
        },
        "index": {
            "codec": settings.codec,
            "stored_dim": settings.stored_dim,
            "pool": settings.pool,
            "prefilter": DEFAULT_PREFILTER,
            "n_candidates": DEFAULT_CANDIDATES,
        },
        "measures": [{"name": name, "explanation": text} for name, text in EXPLANATIONS.items()],
    }
