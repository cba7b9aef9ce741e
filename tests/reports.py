"""A small report.json made by hand, with hostile text in it."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

Report = dict[str, Any]

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" 'twice' \u202etxet"
FILE = '"><img src="https://evil.example/x.png">.pdf'
MEASURES = ("Recall@10", "Success@1", "Success@5", "nDCG@10", "MRR@10")
SYSTEMS = {
    "late_interaction": ("late interaction, exact", 0.71, 210_000, 31.0),
    "two_stage": ("two-stage", 0.70, 216_000, 6.2),
    "single_vector": ("single vector, mean", 0.49, 1_536, 1.9),
    "bm25": ("BM25", 0.66, 4_100, 0.4),
}


def interval(mean: float, half: float = 0.06) -> Report:
    """Return an interval of the report's schema."""
    return {"mean": mean, "low": mean - half, "high": mean + half, "unit": "documents", "n_units": 24}


def page(file: str, number: int, **more: object) -> Report:
    """Return a page of the report's schema."""
    return {"key": f"{file}:{number}", "file": file, "page": number, **more}


def small_report(n_queries: int = 12) -> Report:
    """Return a report of one set with every part of the schema."""
    measures = [{"name": name, "explanation": f"What {name} means."} for name in MEASURES]
    return {
        "schema": "colret-eval-run",
        "schema_version": 1,
        "created": "2026-01-02T03:04:05Z",
        "tool_version": "0.1.0",
        "seconds": 61.0,
        "seed": 0,
        "machine": {
            "cores": 2, "processor": "Example CPU", "memory_bytes": 8 << 30, "system": "Linux", "python": "3.12",
            "device": "cpu",
        },
        "model": {"name": "embedded", "revision": "", "family": "text", "dim": 384, "reads": "text"},
        "index": {"codec": "int8", "stored_dim": 384, "pool": 1, "prefilter": "sketch", "n_candidates": 200},
        "measures": measures,
        "sets": [small_set(n_queries)],
    }  # fmt: skip


def small_set(n_queries: int = 12) -> Report:
    """Return one set with every part of the schema."""
    queries = [_query(i) for i in range(n_queries)]
    return {
        "name": "small <set>", "folder": "small", "is_union": False, "synthetic": False,
        "n_pages": 635, "n_documents": 30, "n_queries": n_queries, "n_no_answer": 4, "n_sources": 24,
        "n_relevant_unsearchable": 1, "n_blank": 3, "n_identical_files": 0,
        "skipped": [{"file": FILE, "page": 3, "reason": "page_unreadable", "message": "cannot be read"}],
        "findings": [{"level": "warning", "kind": "shift", "where": FILE, "problem": HOSTILE, "remedy": "check"}],
        "headline": ["Late interaction beats the single vector by 0.220.", "It ties with BM25."],
        "random": dict.fromkeys(MEASURES, 10 / 635), "random_ranks": {"median": 318, "mean": 318},
        "reference": "late_interaction", "systems": _systems(),
        "directions": [
            {
                "system": "late_interaction", "direction": direction, "n_items": n_queries, "n_candidates": n,
                "success": {k: interval(0.5 + int(k) / 25) for k in ("1", "5", "10")},
                "random": {k: int(k) / n for k in ("1", "5", "10")},
            }
            for direction, n in (("text_to_page", 635), ("page_to_text", n_queries))
        ],
        "collection_size": _collection_size(), "stages": _stages(n_queries),
        "leakage": _leakage(), "hubness": _hubness(), "score_floor": _score_floor(), "cost": _cost(),
        "queries": queries, "worst": [query["id"] for query in queries[:2]],
        "regressions": [query["id"] for query in queries[2:3]], "regressions_against": "bm25",
        "thumbnails": {f"{FILE}:7": thumbnail(), "hub.pdf:1": thumbnail(), "other.pdf:2": "https://evil.example/y.png"},
    }  # fmt: skip


def thumbnail() -> str:
    """Return a picture as the report holds it."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (132, 171), "white")
    ImageDraw.Draw(image).rectangle((12, 12, 120, 40), fill="#4477aa")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _query(place: int) -> Report:
    rank = 1 if place % 3 else None
    others = dict.fromkeys(SYSTEMS, 1) | {"late_interaction": rank, "single_vector": 7}
    return {
        "id": f"q{place}", "text": HOSTILE if place == 0 else f"query number {place}", "source": f"{place}.pdf",
        "relevant": [page(FILE, 7, grade=1)], "ranks": others,
        "values": {name: {"nDCG@10": 1.0 if r == 1 else 0.0, "Success@1": float(r == 1)} for name, r in others.items()},
        "lost_at": None if rank else "model",
        "top": [page("hub.pdf", 1, score=0.61, relevant=False), page("other.pdf", 2, score=0.6, relevant=False)],
        "score": 0.61,
    }  # fmt: skip


def _systems() -> list[Report]:
    systems = []
    for name, (label, mean, size, time) in SYSTEMS.items():
        gap = SYSTEMS["late_interaction"][1] - mean
        verdict = "better" if gap > 0.06 else "tie"
        difference = {**interval(gap), "p": 0.01, "p_holm": 0.0002 if gap > 0.06 else 0.4, "verdict": verdict}
        first = name == "late_interaction"
        systems.append({
            "id": name, "label": label, "what": f"Ranks pages by {label}.", "available": True, "reason": "",
            "measures": {measure: interval(mean) for measure in MEASURES},
            "ranks": {"median": 1, "mean": 6.4, "n_missing": 0},
            "differences": None if first else dict.fromkeys(MEASURES, difference),
            "bytes_per_page": size, "bytes_kind": "on disk", "latency_ms": {"p50": time, "p95": time * 1.6},
        })  # fmt: skip
    absent = {
        "id": "bi", "label": "single-vector model", "what": "Another model.", "available": False,
        "reason": "its checkpoint cannot be had", "measures": {}, "ranks": None, "differences": None,
        "bytes_per_page": None, "bytes_kind": "", "latency_ms": None,
    }  # fmt: skip
    return [*systems, absent]


def _collection_size() -> Report:
    sizes = [10, 20, 50, 100, 200, 500, 635]
    curves = []
    for name, start in (("late_interaction", 0.97), ("single_vector", 0.9)):
        falls = [start - 0.11 * np.log10(size) for size in sizes]
        curves.append({
            "system": name, "random": [interval(float(each)) for each in falls],
            "hardest": [interval(float(each) - 0.12) for each in falls],
            "extrapolated": {"sizes": [800, 1200], "success": [interval(0.62), interval(0.6)]},
            "half": {"start": 10, "at_start": 0.86, "size": None, "extrapolated": False, "furthest": 1200,
                     "at_furthest": 0.6},
        })  # fmt: skip
    return {"k": 1, "sizes": sizes, "systems": curves}


def _stages(n_queries: int) -> Report:
    rows = [
        {"name": "model", "what": "ranks all pages", "compared": True, "note": "", "kept": None, "lost": 2},
        {"name": "codec", "what": "int8 for float32", "compared": True, "note": "", "kept": interval(0.998, 0.001),
         "lost": 0},
        {"name": "prefilter", "what": "looks at 200 pages", "compared": True, "note": "", "kept": interval(0.97, 0.01),
         "lost": 1},
        {"name": "ann", "what": "no index", "compared": False, "note": "too few pages", "kept": None, "lost": None},
    ]  # fmt: skip
    return {"k": 10, "rows": rows, "found": n_queries - 3, "n_queries": n_queries}


def _leakage() -> Report:
    values = {"with": interval(0.71), "without": interval(0.73), "difference": interval(0.02, 0.02)}
    return {
        "thresholds": {"hash_bits": 4, "cosine": 0.98, "image_cosine": 0.9}, "n_groups": 1, "n_pages_in_groups": 2,
        "groups": [{"pages": [page(FILE, 7), page("copy.pdf", 1)], "how": ["identical image"], "n_labelled": 1}],
        "systems": [{"system": "late_interaction", "measures": {"nDCG@10": values, "Success@1": values}}],
        "repeated_queries": [{"first": "q1", "second": "q2", "text": HOSTILE}], "n_repeated_queries": 1,
        "split": {"n_groups": 20, "largest": 3},
    }  # fmt: skip


def _hubness() -> Report:
    pages = (300, 180, 90, 40, 15, 6, 2, 1, 0, 0, 0, 1)
    chance = (420, 160, 45, 9, 1, 0.1, 0, 0, 0, 0, 0, 0)
    rows = [{"occurrences": n, "pages": each, "expected_pages": chance[n]} for n, each in enumerate(pages)]
    change = {**interval(0.004, 0.02), "p": 0.4, "p_holm": 0.4, "verdict": "tie"}
    return {
        "k": 10, "skewness": 4.2, "chance_skewness": 1.1, "orphans": 0.41, "chance_orphans": 0.17, "expected": 0.9,
        "histogram": rows, "hubs": [page("hub.pdf", 1, occurrences=11, wrong=11, n_vectors=300)],
        "length_correlation": 0.31, "note": "",
        "corrections": [{"name": "CSLS", "measure": "nDCG@10", "corrected": interval(0.714), "difference": change}],
    }  # fmt: skip


def _score_floor() -> Report:
    curve = {
        name: [[share, share**power] for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)]
        for name, power in (("score", 2), ("margin to rank 2", 3))
    }
    auroc = {"mean": 0.8, "low": 0.7, "high": 0.9}
    signals = [{"signal": name, "auroc": auroc, "floor": 0.5, "answered": 0.95, "false_answers": 0.4} for name in curve]
    chosen = {"signal": "score", "floor": 0.52, "guarantee": 0.95, "probable": 0.9, "n_queries": 40,
              "false_answers": 0.35, "n_without": 20}  # fmt: skip
    kinds = [
        {"kind": "given", "what": "Given with the set.", "n_with": 12, "n_without": 4, "signals": signals,
         "curve": curve, "chosen": None, "note": "few queries"},
        {"kind": "page removed", "what": "Right pages taken out.", "n_with": 12, "n_without": 12, "signals": signals,
         "curve": curve, "chosen": chosen, "note": ""},
    ]  # fmt: skip
    return {"kinds": kinds, "note": ""}


def _cost() -> Report:
    stages = [{"stage": stage, "p50_ms": 2.0, "p95_ms": 3.0} for stage in ("encode", "prefilter", "fetch", "rescore")]
    return {
        "bytes": {
            "on_disk_per_page": 216_000.0, "pages_table_per_page": 210_000.0, "side_files_per_page": 6_000.0,
            "predicted_vectors_per_page": 205_000.0, "predicted_float32_per_page": 820_000.0,
            "single_vector_per_page": 1_536.0, "ratio_to_single": 140.6, "vectors_per_page": 534.2,
        },
        "ingest": {"pages_per_second": 11.2, "seconds": 56.7, "note": ""}, "index_seconds": 1.4,
        "latency": {"n_queries": 12, "cold_first_ms": 210.0, "stages": stages, "exact": stages[:1]},
    }  # fmt: skip
