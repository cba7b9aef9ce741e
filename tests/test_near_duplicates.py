"""Near-duplicates: resemblance and bands against naive loops, planted pages in a real index, pages without words."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from colret import shingles as shingling
from colret.encoders.text import TextEncoder
from colret.grouping import Groups, components
from colret.ingest import ingest
from colret.near_duplicates import near_duplicates, page_groups
from colret.schema import FORMAT_VERSION
from colret.scoring import normalize_rows
from colret.shingles import BANDS, RUN, UInt64, candidate_pairs, resemblance, shingles, sketch
from colret.store import PageStore
from colret.types import (
    DocumentFile,
    DocumentRecord,
    EncodedPage,
    IndexSettings,
    Page,
    PageEmbedding,
    PageRef,
    Words,
)
from colret_cli.main import cli
from tests.conftest import write_pdf

words = st.lists(st.sampled_from(["a", "b", "ab", "ba", "日本", "\ud800"]), max_size=12)


def naive_shingles(text: list[str]) -> set[tuple[str, ...]]:
    return {tuple(text[i : i + RUN]) for i in range(max(len(text) - RUN + 1, min(1, len(text))))}


@settings(max_examples=60)
@given(first=words, second=words)
def test_resemblance_is_that_of_sets_of_runs(first: list[str], second: list[str]) -> None:
    a, b = naive_shingles(first), naive_shingles(second)
    expected = len(a & b) / len(a | b) if a | b else 1.0
    assert resemblance(shingles(" ".join(first)), shingles(" ".join(second))) == expected


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), tile=st.sampled_from([1, 3, 2048]))
def test_pairs_agree_in_a_band_and_come_once(seed: int, tile: int) -> None:
    sketches = np.random.default_rng(seed).integers(0, 6, (12, 4)).astype(np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shingling, "_TILE", tile)
        found = [tuple(pair) for block in candidate_pairs(sketches) for pair in block.tolist()]
    expected = [(i, j) for i, j in itertools.combinations(range(12), 2) if (sketches[i] == sketches[j]).any()]
    assert sorted(found) == expected


def changed(text: list[str], share: float, rng: np.random.Generator) -> list[str]:
    """The text with a run of new words in place of a share of its own."""
    n = round(share * len(text))
    at = int(rng.integers(len(text) - n))
    return [*text[:at], *(f"new{i}" for i in rng.integers(0, 10**6, n)), *text[at + n :]]


def test_bands_miss_few_alike_texts_and_skip_nearly_all_others(proving: bool) -> None:
    rng = np.random.default_rng(0)
    n = 2000 if proving else 200
    texts = [[f"w{i}" for i in rng.integers(0, 5000, 200)] for _ in range(n)]
    twins = [changed(text, 0.1, rng) for text in texts]
    found = [shingles(" ".join(text)) for text in texts + twins]
    alike = [resemblance(found[i], found[n + i]) for i in range(n)]
    assert min(alike) > 0.75
    pairs = {tuple(pair) for block in candidate_pairs(np.stack([sketch(each) for each in found])) for pair in block}
    assert {(i, n + i) for i in range(n)} <= pairs
    assert len(pairs) < 1.01 * n + 5


def test_the_share_of_agreeing_bands_is_what_least_hashes_promise() -> None:
    rng = np.random.default_rng(1)
    agreeing, promised = [], []
    for _ in range(150):
        text = [f"w{i}" for i in rng.integers(0, 10**6, 150)]
        a, b = (shingles(" ".join(each)) for each in (text, changed(text, 0.2, rng)))
        agreeing.append(np.mean(sketch(a) == sketch(b)))
        promised.append(resemblance(a, b) ** shingling.ROWS)
    assert np.mean(agreeing) == pytest.approx(np.mean(promised), abs=0.02)


BODY = [
    "Every employee may claim the costs of fitness activities up to one thousand dollars in a calendar year "
    "after sending the receipts and the signed form to the benefits office within ninety days of the purchase",
    "The grey heron waits without moving for fish in shallow water and strikes with its long bill when one "
    "comes near enough which it swallows whole before it stands still again for most of the afternoon",
]


def test_groups_of_a_real_index(store: PageStore, embedded: TextEncoder, tmp_path: Path) -> None:
    """The same words in two files, one word changed in a third; the other pages are alone, each in its way."""
    changed_word = BODY[0].replace("thousand", "hundred")
    write_pdf(tmp_path / "a.pdf", BODY[0], BODY[1])
    write_pdf(tmp_path / "b.pdf", "Something else first of all", BODY[0])
    write_pdf(tmp_path / "c.pdf", changed_word, " ".join(reversed(BODY[1].split())))
    ingest([tmp_path], store, embedded)
    store.refresh()
    names = {record.doc_id: Path(record.files[0].path).stem for record in store.documents()}
    [group] = near_duplicates(store)
    assert sorted((names[page.ref.doc_id], page.ref.number) for page in group.pages) == [("a", 1), ("b", 2), ("c", 1)]
    assert group.by == "words"
    n = len(BODY[0].split()) - 2  # runs; one word is in three of them
    assert group.similarity == pytest.approx((n - 3) / (n + 3))
    [same] = near_duplicates(store, 1.0)
    assert sorted((names[page.ref.doc_id], page.ref.number) for page in same.pages) == [("a", 1), ("b", 2)]
    assert same.similarity == 1
    with pytest.raises(ValueError, match=r"from 0\.5 to 1"):
        near_duplicates(store, 0.4)

    output = CliRunner().invoke(cli, ["duplicates", "--index", str(store.path)], catch_exceptions=False)
    assert output.exit_code == 0
    assert f"3 pages, {group.similarity:.2f} alike" in output.stdout
    assert output.stdout.endswith("1 group of 3 pages, 6 pages in all\n")
    shown = CliRunner().invoke(cli, ["duplicates", "--threshold", "1", "--json", "--index", str(store.path)])
    [found] = json.loads(shown.stdout)["groups"]
    assert [Path(page["file"]).name for page in found["pages"]] == [names[p.ref.doc_id] + ".pdf" for p in same.pages]


def test_pages_of_one_form_are_not_all_compared(
    store: PageStore, embedded: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is compared with one that it is linked to; comparing all pairs would take hours for some ten thousands."""
    write_pdf(tmp_path / "forms.pdf", *(f"{BODY[0]} number {i}" for i in range(40)), BODY[1])
    ingest([tmp_path / "forms.pdf"], store, embedded)
    store.refresh()
    compared: list[float] = []

    def counted(first: UInt64, second: UInt64) -> float:
        compared.append(resemblance(first, second))
        return compared[-1]

    monkeypatch.setattr("colret.near_duplicates.resemblance", counted)
    assert page_groups(store).tolist() == [0] * 40 + [40]
    assert len(compared) < 60  # of 780 pairs


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), tile=st.sampled_from([1, 3, 256]))
def test_pairs_of_one_group_are_left_out_while_groups_grow(seed: int, tile: int) -> None:
    sketches = np.random.default_rng(seed).integers(0, 4, (12, 4)).astype(np.uint64)
    groups = Groups(12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shingling, "_TILE", tile)
        for block in candidate_pairs(sketches, groups.of):
            for i, j in block.tolist():
                assert (sketches[i] == sketches[j]).any()
                groups.unite(i, j)
    linked = [(i, j) for i, j in itertools.combinations(range(12), 2) if (sketches[i] == sketches[j]).any()]
    expected = components(12, np.array(linked, np.int64).reshape(-1, 2))
    assert [groups.of[i] == groups.of[j] for i, j in itertools.combinations(range(12), 2)] == [
        expected[i] == expected[j] for i, j in itertools.combinations(range(12), 2)
    ]


def test_no_duplicates(store: PageStore, embedded: TextEncoder, folder: Path) -> None:
    assert near_duplicates(store) == []  # of no pages
    ingest([folder], store, embedded)
    store.refresh()
    assert page_groups(store).tolist() == [0, 1, 2]


@pytest.mark.parametrize("threshold", ["nan", "0.49", "1.01", "inf"])
def test_a_threshold_out_of_range_is_a_usage_error(threshold: str) -> None:
    result = CliRunner().invoke(cli, ["duplicates", "--threshold", threshold])
    assert result.exit_code == 2, result.output
    assert "'--threshold'" in result.stderr


def test_pages_without_words_are_told_by_image_and_vectors(tmp_path: Path) -> None:
    """Both must agree; a page with words is never told by its image."""
    made_by = IndexSettings(
        "test", "1", "vision", 16, "{}", "float16", FORMAT_VERSION, "0", "2026-01-01T00:00:00+00:00"
    )
    store = PageStore.create(tmp_path / "index", made_by)
    rng = np.random.default_rng(0)
    one, other = (normalize_rows(rng.normal(size=(5, 16)).astype(np.float32)) for _ in range(2))
    pages = [(one, 0b1111, False), (one, 0b1100, False), (one, 0b11110000, False), (other, 0b1111, False)]
    pages += [(one, 0b1111, True), (one, 0b1111, True)]
    encoded = []
    for number, (vectors, image_hash, worded) in enumerate(pages, start=1):
        text = Words((f"word{number}",), np.zeros((1, 4), np.uint16)) if worded else Words.none()
        page = Page(PageRef("d", number), 612.0, 792.0, text, None, image_hash)
        encoded.append(EncodedPage(page, PageEmbedding(vectors, np.zeros((5, 4), np.uint16))))
    store.add_pages(encoded)
    store.put_documents([DocumentRecord("d", (DocumentFile("/d.pdf", 1),), 1, len(pages), 0, "done", "", "", "0")])
    [group] = near_duplicates(store)
    assert [page.ref.number for page in group.pages] == [1, 2]
    assert group.by == "image"
    assert group.similarity == pytest.approx(1, abs=1e-3)


def test_a_sketch_has_a_hash_for_each_band() -> None:
    assert sketch(shingles("a")).shape == (BANDS,)
    assert shingles("").shape == (0,)
