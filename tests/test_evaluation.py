"""``colret eval run`` end to end with the embedded encoder: what is planted in a set is found by its report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import colret.encoders
from colret.encoders.text import TextEncoder
from colret.scoring import maxsim
from colret.types import Multivectors, PageRef
from colret_cli.main import cli
from colret_eval.datasets import DatasetError
from colret_eval.evaluation.headline import MEASURE, headline
from colret_eval.evaluation.markdown import markdown
from colret_eval.evaluation.one_set import Options
from colret_eval.evaluation.recorder import BLOCKS
from colret_eval.evaluation.run import UnusableSetError, evaluate_sets, load_checked
from colret_eval.evaluation.summary import summary
from colret_eval.evaluation.systems import BI, BM25, BOTH, FLOAT32, MEAN, POOLED, REFERENCE, SYSTEMS, TEXT, TWO_STAGE
from colret_eval.trec import read_qrels, read_run
from tests.evaluation_sets import SMALL_TOPICS, TOPICS, UNANSWERED, write_set, write_small_set
from tests.pdfs import PdfSpec, build_pdf, text

HUB = " ".join(text for text, _ in TOPICS)
SYSTEM_IDS = tuple(system.id for system in SYSTEMS)


def evaluate(
    folders: Sequence[Path], encoder: TextEncoder, work: Path, systems: tuple[str, ...] = SYSTEM_IDS
) -> dict[str, Any]:
    (work / "vectors").mkdir(parents=True)
    sets = [load_checked(folder) for folder in folders]
    report = evaluate_sets(sets, encoder, work / "indexes", work / "vectors", Options(systems, trec=work / "trec"))
    as_read: dict[str, Any] = json.loads(json.dumps(report, allow_nan=False))  # plain values, and no NaN among them
    return as_read


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, embedded: TextEncoder) -> tuple[dict[str, Any], Path]:
    """A report of a set with a hub, a page twice in other words of PDF, and queries that nothing answers."""
    work = tmp_path_factory.mktemp("planted")
    twin = TOPICS[0][0]
    folder = write_set(
        work / "planted", extra={"hub.pdf": [HUB], "twin.pdf": [twin, "nothing but this"]}, unanswered=UNANSWERED
    )
    return evaluate([folder], embedded, work / "run"), work / "run"


def the_set(planted: tuple[dict[str, Any], Path]) -> dict[str, Any]:
    [found] = planted[0]["sets"]
    return dict(found)


def test_every_figure_stands_beside_n_queries_chance_and_an_interval(planted: tuple[dict[str, Any], Path]) -> None:
    found = the_set(planted)
    assert (found["n_pages"], found["n_queries"], found["n_no_answer"], found["n_sources"]) == (27, 24, 3, 6)
    assert found["random"]["Success@1"] == pytest.approx(1 / 27)
    assert [system["id"] for system in found["systems"]] == list(SYSTEM_IDS)
    for system in found["systems"]:
        assert system["available"] == (system["id"] != BI)
        assert bool(system["reason"]) == (system["id"] == BI)
        for interval in system["measures"].values():
            assert interval["low"] <= interval["mean"] <= interval["high"]
            assert interval["unit"] == "queries"  # six documents are too few to be resampled
    by_id = {system["id"]: system for system in found["systems"]}
    assert by_id[REFERENCE]["differences"] is None
    assert by_id[TWO_STAGE]["differences"][MEASURE]["verdict"] == "tie"
    assert by_id[REFERENCE]["measures"]["Success@5"]["mean"] >= 0.9


def test_a_planted_hub_is_found(planted: tuple[dict[str, Any], Path]) -> None:
    found = the_set(planted)
    first = found["hubness"]["hubs"][0]
    assert (first["file"], first["page"], first["occurrences"]) == ("hub.pdf", 1, 24)
    assert first["wrong"] == 24
    assert found["thumbnails"]["hub.pdf:1"].startswith("data:image/jpeg;base64,")
    assert any("hub.pdf page 1" in sentence for sentence in found["headline"])
    histogram = found["hubness"]["histogram"]
    assert sum(row["pages"] for row in histogram) == 27
    assert sum(row["pages"] * row["occurrences"] for row in histogram) == 240


def test_a_planted_near_duplicate_is_found_and_merged(planted: tuple[dict[str, Any], Path]) -> None:
    found = the_set(planted)["leakage"]
    [row] = [row for row in found["systems"] if row["system"] == REFERENCE]
    assert row["measures"]["Success@1"]["difference"]["mean"] >= 0
    [group] = found["groups"]
    assert {page["key"] for page in group["pages"]} == {"doc0.pdf:1", "twin.pdf:1"}
    assert "identical words" in group["how"]
    assert group["n_labelled"] == 1


def test_planted_queries_without_an_answer_are_kept_apart(planted: tuple[dict[str, Any], Path]) -> None:
    found = the_set(planted)
    kinds = {kind["kind"]: kind for kind in found["score_floor"]["kinds"]}
    assert list(kinds) == ["given", "page removed", "document removed"]
    assert (kinds["given"]["n_with"], kinds["given"]["n_without"]) == (24, 3)
    assert [row["id"] for row in found["queries"]] == [f"q{i}" for i in range(24)]  # never averaged in
    [per_token] = [row for row in kinds["given"]["signals"] if row["signal"] == "score per token"]
    assert per_token["auroc"]["mean"] > 0.8


def test_stages_are_told_apart(planted: tuple[dict[str, Any], Path]) -> None:
    stages = the_set(planted)["stages"]
    lost = [row["lost"] for row in stages["rows"] if row["lost"] is not None]
    assert stages["found"] + sum(lost) == stages["n_queries"] == 24
    assert all(row["kept"]["mean"] == 1.0 for row in stages["rows"] if row["name"] == "prefilter")  # 27 pages, C = 100
    [codec] = [row for row in stages["rows"] if row["name"] == "codec"]
    assert 0.9 < codec["kept"]["mean"] <= 1.0


def test_curves_end_at_what_was_measured(planted: tuple[dict[str, Any], Path]) -> None:
    found = the_set(planted)
    sizes = found["collection_size"]
    assert sizes["sizes"] == [10, 20, 27]
    measured = {system["id"]: system["measures"]["Success@1"]["mean"] for system in found["systems"] if system["ranks"]}
    for each in sizes["systems"]:
        for name in ("random", "hardest"):
            assert each[name][-1]["mean"] == pytest.approx(measured[each["system"]])
        assert each["random"][0]["mean"] >= each["random"][-1]["mean"]
    directions = {(row["system"], row["direction"]): row for row in found["directions"]}
    text_to_page = directions[REFERENCE, "text_to_page"]
    assert text_to_page["success"]["1"]["mean"] == pytest.approx(measured[REFERENCE])
    assert directions[REFERENCE, "page_to_text"]["n_candidates"] == 24


def test_cost_is_measured_beside_its_prediction(planted: tuple[dict[str, Any], Path]) -> None:
    report, work = planted
    cost = the_set(planted)["cost"]
    found = cost["bytes"]
    assert found["single_vector_per_page"] == 4 * 384
    assert found["predicted_float32_per_page"] == pytest.approx(4 * 384 * found["vectors_per_page"])
    index = work / "indexes" / "planted"
    on_disk = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
    assert found["predicted_vectors_per_page"] * 27 < found["on_disk_per_page"] * 27 <= on_disk
    assert cost["ingest"]["pages_per_second"] > 0
    for name in ("stages", "exact"):
        assert [row["stage"] for row in cost["latency"][name]] == ["encode", "prefilter", "fetch", "rescore", "total"]
    assert report["index"]["codec"] == "int4"


def test_runs_are_exported_for_trec_eval(planted: tuple[dict[str, Any], Path]) -> None:
    _, work = planted
    qrels = read_qrels(work / "trec" / "planted" / "qrels.trec")
    run = read_run(work / "trec" / "planted" / f"{REFERENCE}.trec")
    assert list(qrels) == list(run) == [f"q{i}" for i in range(24)]
    assert len(run["q0"]) == 27


def test_the_report_reads_well_in_markdown_and_in_a_terminal(planted: tuple[dict[str, Any], Path]) -> None:
    found = the_set(planted)
    report = markdown(planted[0])
    for part in ("N = 27 pages", "random order", "late interaction minus", "Hubs", "Score floor", "not available"):
        assert part in report
    short = summary(found)
    assert "24 queries about 6 documents, N = 27 pages" in short
    assert "random order" in short
    [missing] = [system for system in found["systems"] if not system["available"]]
    assert f"no {missing['label']}: {missing['reason']}" in short
    assert headline(found) == found["headline"]


def test_several_sets_are_evaluated_each_and_together(tmp_path: Path, embedded: TextEncoder) -> None:
    folders = [write_set(tmp_path / "one", TOPICS[:8]), write_set(tmp_path / "two", TOPICS[8:20])]
    report = evaluate(folders, embedded, tmp_path / "work", (REFERENCE, BM25, MEAN))
    one, two, both = report["sets"]
    assert [(s["name"], s["n_pages"], s["n_queries"], s["is_union"]) for s in (one, two, both)] == [
        ("one", 8, 8, False),
        ("two", 12, 12, False),
        ("all", 20, 20, True),
    ]
    assert [system["id"] for system in both["systems"]] == [REFERENCE, MEAN, BM25]
    assert both["queries"][0]["relevant"][0]["file"] == "one/doc0.pdf"
    assert both["cost"]["ingest"]["pages_per_second"] is None  # nothing was encoded again
    assert both["thumbnails"]


def test_a_document_that_two_sets_hold_is_one_among_all(tmp_path: Path, embedded: TextEncoder) -> None:
    """Its pages answer the questions of both; distractors join where they are asked for."""
    folders = [write_small_set(tmp_path / name) for name in ("one", "two")]
    pages = [PdfSpec(text(topic, 72, 600)) for topic in SMALL_TOPICS[2:]]
    (folders[1] / "pdfs" / "c.pdf").write_bytes(build_pdf(pages))
    sets = [load_checked(folder, distractors=True) for folder in folders]
    assert [each.dataset.name for each in sets] == ["one+distractors", "two+distractors"]
    (tmp_path / "vectors").mkdir()
    report = evaluate_sets(sets, embedded, tmp_path / "indexes", tmp_path / "vectors", Options((REFERENCE, BM25)))
    one, _, every = report["sets"]
    assert (one["n_queries"], one["n_pages"], one["n_relevant_unsearchable"]) == (4, 5, 1)
    assert (every["n_queries"], every["n_pages"], every["n_identical_files"]) == (8, 7, 2)
    found = {system["id"]: system["measures"]["Success@1"]["mean"] for system in one["systems"]}
    assert found == {REFERENCE: 1.0, BM25: 0.0}  # no question shares a word with its page
    again = {row["relevant"][0]["key"] for row in every["queries"] if row["text"] == "higher sales"}
    assert again == {"one+distractors/a%20b.pdf:2"}
    assert every["leakage"]["n_repeated_queries"] == 4


def test_float32_scores_are_those_of_the_encoder(tmp_path: Path, embedded: TextEncoder) -> None:
    """The matrix that codec losses are told by, against encoding and scoring each page."""
    from colret.reading import open_document

    folder = write_set(tmp_path / "set", TOPICS[:4])
    evaluate([folder], embedded, tmp_path / "work", (REFERENCE, FLOAT32, BOTH))
    run = read_run(tmp_path / "work" / "trec" / "set" / f"{FLOAT32}.trec")
    with open_document(folder / "pdfs" / "doc0.pdf") as document:
        pages = [document.read_page(n, ref=PageRef("doc0.pdf", n), pixels=0, ocr=False) for n in range(1, 5)]
    vectors = Multivectors.pack([embedding.vectors for embedding in embedded.encode_pages(pages)])
    for i, (_, question) in enumerate(TOPICS[:4]):
        [query] = embedded.encode_queries([question])
        scores = maxsim(query.vectors, vectors)
        found = [run[f"q{i}"][f"doc0.pdf:{n}"] for n in range(1, 5)]
        np.testing.assert_allclose(found, scores, rtol=1e-5)


def test_lanes_are_what_a_search_ranks_by(tmp_path: Path, embedded: TextEncoder) -> None:
    from colret.search import rank, words_only
    from colret.store import PageStore

    folder = write_set(tmp_path / "set", TOPICS[:4])
    report = evaluate([folder], embedded, tmp_path / "work", (REFERENCE, TEXT, BOTH))
    assert [system["id"] for system in report["sets"][0]["systems"]] == [REFERENCE, TEXT, BOTH]
    store = PageStore.open(tmp_path / "work" / "indexes" / "set")
    runs = {
        system: read_run(tmp_path / "work" / "trec" / "set" / f"{system}.trec") for system in (REFERENCE, TEXT, BOTH)
    }
    for i, (_, question) in enumerate(TOPICS[:4]):
        [words] = rank(store, words_only([question]), lane="text", k=4)
        shares = {hit.ref.number: hit.bm25 for hit in words.hits}
        n_tokens = len(embedded.encode_queries([question])[0].vectors)
        assert {
            PageRef.parse(key).number: score for key, score in runs[TEXT].get(f"q{i}", {}).items()
        } == pytest.approx(shares, abs=1e-5)
        for key, score in runs[BOTH][f"q{i}"].items():
            expected = runs[REFERENCE][f"q{i}"][key] / n_tokens + 0.5 * shares.get(PageRef.parse(key).number, 0.0)
            assert score == pytest.approx(expected, abs=1e-4)


def test_names_that_cannot_be_told_apart_are_refused(tmp_path: Path, embedded: TextEncoder) -> None:
    one, every = write_set(tmp_path / "one", TOPICS[:4]), write_set(tmp_path / "all", TOPICS[:4])
    with pytest.raises(DatasetError, match="all: is what all sets together are called; rename that folder"):
        evaluate([one, every], embedded, tmp_path / "work")
    with pytest.raises(DatasetError, match="one: is the name of two sets"):
        evaluate([one, one], embedded, tmp_path / "again")


def test_the_storage_stage_is_the_codec_only_where_nothing_else_is_done(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = write_set(tmp_path / "set", TOPICS[:4])
    (tmp_path / "vectors").mkdir()
    options = Options((REFERENCE, MEAN, POOLED), codec="int8", dim=48, pool=2)
    report = evaluate_sets([load_checked(folder)], embedded, tmp_path / "indexes", tmp_path / "vectors", options)
    [found] = report["sets"]
    [row] = [row for row in found["stages"]["rows"] if row["name"] in ("codec", "storage")]
    assert row["name"] == "storage"
    assert "int8, 48 of 384 dimensions, pool 2" in row["what"]
    # The mean is of stored vectors, the blocks' means are of the encoder's.
    _, mean, pooled = found["systems"]
    [n_blocks] = [n for n in BLOCKS if pooled["what"].endswith(f"Here {n}.")]
    assert (mean["bytes_per_page"], pooled["bytes_per_page"]) == (4 * 48, 4 * 384 * n_blocks)


def test_labels_counted_from_zero_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableSetError) as caught:
        load_checked(write_set(tmp_path / "set", shift=-1))
    assert "zero_based" in {finding.kind for finding in caught.value.errors}


def test_a_blank_labelled_page_counts_against_every_system(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = write_set(tmp_path / "set", [*TOPICS[:5], ("", "what the blank page says")])
    report = evaluate([folder], embedded, tmp_path / "work", (REFERENCE, BM25, MEAN))
    [found] = report["sets"]
    assert (found["n_pages"], found["n_relevant_unsearchable"], found["n_blank"]) == (5, 1, 1)
    assert all(system["measures"]["Success@10"]["mean"] <= 5 / 6 + 1e-9 for system in found["systems"])
    assert found["queries"][5]["ranks"][REFERENCE] is None
    assert found["systems"][0]["ranks"]["n_missing"] == 1
    # One N, the pages searched, in chance, curves and ranks: the blank page is no candidate, but never found.
    assert found["random"]["Success@1"] == pytest.approx(5 / 6 * 1 / 5)
    assert found["random"]["Recall@10"] == pytest.approx(5 / 6)
    assert found["random_ranks"]["mean"] == pytest.approx((5 * 3 + 5) / 6)
    measured = {system["id"]: system["measures"] for system in found["systems"]}
    for curve in found["collection_size"]["systems"]:
        assert found["collection_size"]["sizes"][-1] == 5
        assert curve["random"][-1]["mean"] == pytest.approx(measured[curve["system"]]["Success@1"]["mean"])
    directions = {(row["system"], row["direction"]): row for row in found["directions"]}
    to_page, to_text = (directions[REFERENCE, name] for name in ("text_to_page", "page_to_text"))
    assert (to_page["n_items"], to_page["n_candidates"], to_page["random"]["1"]) == (6, 5, pytest.approx(1 / 6))
    assert (to_text["n_items"], to_text["n_candidates"], to_text["random"]["1"]) == (6, 6, pytest.approx(5 / 6 / 6))


def write_texts(folder: Path, topics: Sequence[tuple[str, str]]) -> Path:
    """Write a set in BEIR's layout, a text and a question each topic."""
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"p{i}", "title": "", "text": text} for i, (text, _) in enumerate(topics)]
    queries = [{"_id": f"q{i}", "text": question} for i, (_, question) in enumerate(topics)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = ["query-id\tcorpus-id\tscore", *(f"q{i}\tp{i}\t1" for i in range(len(topics)))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows))
    return folder


def test_sets_whose_pages_share_names_give_the_figures_that_each_gives_alone(
    tmp_path: Path, embedded: TextEncoder
) -> None:
    """Two corpora of texts have pages p0, p1, ... both, and other texts there."""
    folders = [write_texts(tmp_path / "one", TOPICS[:8]), write_texts(tmp_path / "two", TOPICS[8:20])]
    systems = REFERENCE, FLOAT32, MEAN, POOLED
    together = evaluate(folders, embedded, tmp_path / "together", systems)["sets"]
    for folder, found in zip(folders, together, strict=False):
        [alone] = evaluate([folder], embedded, tmp_path / f"alone {folder.name}", systems)["sets"]
        # But for what is timed, and the mark of the ingest, which may differ.
        for part in ("leakage", "hubness", "stages", "directions", "collection_size", "score_floor", "queries"):
            assert found[part] == alone[part], part
        assert found["cost"]["bytes"]["vectors_per_page"] == alone["cost"]["bytes"]["vectors_per_page"]
        for system, by_itself in zip(found["systems"], alone["systems"], strict=True):
            assert (system["id"], system["measures"]) == (by_itself["id"], by_itself["measures"])
    [float32] = [system for system in together[1]["systems"] if system["id"] == FLOAT32]
    assert float32["measures"]["Success@5"]["mean"] >= 0.9  # not the first set's vectors


def test_pages_of_text_without_files_are_evaluated(tmp_path: Path, embedded: TextEncoder) -> None:
    folder = write_texts(tmp_path / "beir", TOPICS)
    report = evaluate([folder], embedded, tmp_path / "work", (REFERENCE, MEAN))
    [found] = report["sets"]
    assert (found["n_pages"], found["n_queries"], found["thumbnails"]) == (24, 24, {})
    assert found["systems"][0]["measures"]["Success@5"]["mean"] >= 0.9
    # Again, on the index that is there: the same figures, although nothing is stored anew.
    (tmp_path / "again").mkdir()
    sets = [load_checked(folder)]
    again = evaluate_sets(sets, embedded, tmp_path / "work/indexes", tmp_path / "again", Options((REFERENCE, MEAN)))
    assert again["sets"][0]["systems"][0]["measures"] == found["systems"][0]["measures"]


def test_the_command_writes_all_reports(tmp_path: Path, embedded: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colret.encoders, "load_encoder", lambda name, **options: embedded)
    folder, out, indexes = write_set(tmp_path / "set", TOPICS[:4]), tmp_path / "out", tmp_path / "indexes"
    asked = ["eval", "run", str(folder), "--out", str(out), "--index", str(indexes), "--systems", "single_mean"]
    result = CliRunner().invoke(cli, [*asked, "--model", "embedded"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "4 queries about 1 documents, N = 4 pages" in result.stdout
    assert "indexing" in result.stderr
    assert {path.name for path in out.iterdir()} == {"report.json", "report.md", "report.html", "trec"}
    assert (indexes / "set").is_dir()
    printed = CliRunner().invoke(cli, [*asked, "--model", "embedded", "--json"], catch_exceptions=False)
    assert json.loads(printed.stdout)["report"]["sets"][0]["n_pages"] == 4


def test_the_command_refuses_a_set_with_errors_in_one_line_each(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", TOPICS[:8], shift=2)
    result = CliRunner().invoke(cli, ["eval", "run", str(folder), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "names page 5 of 'doc0.pdf', which has 4 pages" in result.stderr
    assert not (tmp_path / "out").exists()


def test_unknown_systems_are_a_usage_error(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", TOPICS[:4])
    result = CliRunner().invoke(cli, ["eval", "run", str(folder), "--systems", "bm25,nonsense"])
    assert result.exit_code == 2
    assert "no such nonsense" in result.stderr
