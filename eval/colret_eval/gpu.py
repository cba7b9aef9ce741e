"""How a CUDA device and the CPU agree, on the pages of a folder.

    python -m colret_eval.gpu [FOLDER] [--model NAME] [--pages N]

Encoder: the same pages and queries on the CPU in float32, and on the device in float32 and in
the precision it uses by itself. MaxSim: the same vectors, as an index stores them, scored on
both. Without a CUDA device it says so and ends well: nothing was compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from colret.codecs import decode, encode
from colret.encoders import Encoder, load_encoder
from colret.errors import ColretError
from colret.folders import find_documents
from colret.reading import open_document
from colret.scoring import maxsim
from colret.types import Float32, Multivectors, Page, PageEmbedding, PageRef
from colret_eval.stages import kept

DEPTH = 10
_QUERY_WORDS = 8
_FALLBACK = "a page about nothing in particular"


def read_pages(folder: Path, limit: int, encoder: Encoder) -> list[Page]:
    """Return the first ``limit`` pages below ``folder``, as ``encoder`` reads them.

    Raises:
        DocumentError: If a document cannot be read.
    """
    pages: list[Page] = []
    for page in _pages(folder, encoder):
        if len(pages) == limit:
            break
        pages.append(page)
    return pages


def _pages(folder: Path, encoder: Encoder) -> Iterator[Page]:
    info = encoder.info
    for source in find_documents([folder])[0]:
        with open_document(source.file) as document:
            for number in range(1, document.n_pages + 1):
                ref = PageRef(source.file.stem.replace(" ", "_"), number)
                yield document.read_page(number, ref=ref, pixels=info.render_pixels, ocr=info.reads == "words")


def compare(model: str, folder: Path, device: str, n_pages: int) -> list[str]:
    """Return lines on how ``device`` and the CPU agree.

    Raises:
        ColretError: If the model or a document cannot be had.
        ValueError: If no page has anything on it.
    """
    cpu = load_encoder(model, device="cpu", dtype="float32")
    pages = read_pages(folder, n_pages, cpu)
    texts = [" ".join(page.words.texts[:_QUERY_WORDS]) or _FALLBACK for page in pages]
    reference = cpu.encode_pages(pages)
    pages = [page for page, found in zip(pages, reference, strict=True) if len(found.vectors)]
    reference = [found for found in reference if len(found.vectors)]
    if not pages:
        raise ValueError("the pages are blank")
    queries = [query.vectors for query in cpu.encode_queries(texts)]
    lines = [f"{model}: {len(pages)} pages, {len(queries)} queries, CPU in float32 against {device}"]
    for dtype in ("float32", "auto"):
        other = load_encoder(model, device=device, dtype=dtype)
        started = time.monotonic()
        found = other.encode_pages(pages)
        rate = len(pages) / (time.monotonic() - started)
        asked = [query.vectors for query in other.encode_queries(texts)]
        lines.append(f"encoder, {dtype}: {_agreement(reference, queries, found, asked)}; {rate:.1f} pages/s")
    return [*lines, f"MaxSim, int8 as stored: {_scoring_agreement(reference, queries, device)}"]


def _agreement(
    reference: Sequence[PageEmbedding],
    queries: Sequence[Float32],
    found: Sequence[PageEmbedding],
    asked: Sequence[Float32],
) -> str:
    pairs = [(one.vectors, other.vectors) for one, other in zip(reference, found, strict=True)]
    worst = max(float(np.abs(one - other).max()) for one, other in pairs)
    cosine = float(np.concatenate([(one * other).sum(axis=1) for one, other in pairs]).mean())
    share = _kept(
        _scores(queries, Multivectors.pack([one for one, _ in pairs]), "cpu"),
        _scores(asked, Multivectors.pack([other for _, other in pairs]), "cpu"),
    )
    return f"components differ by {worst:.1e} at most, mean cosine {cosine:.6f}, {share}"


def _scoring_agreement(reference: Sequence[PageEmbedding], queries: Sequence[Float32], device: str) -> str:
    dim = reference[0].vectors.shape[1]
    encoded = [encode(page.vectors, "int8") for page in reference]
    codes = np.frombuffer(b"".join(page.codes for page in encoded), np.uint8)
    sizes = np.array([len(page.codes) for page in encoded], np.int64)
    stored = decode(codes, sizes, np.array([page.scale for page in encoded], np.float32), dim, "int8")
    exact, other = (_scores(queries, stored, where) for where in ("cpu", device))
    lengths = np.array([len(query) for query in queries])
    worst = float((np.abs(exact - other) / lengths[:, None]).max())
    return f"scores differ by {worst:.1e} a query token at most, {_kept(exact, other)}"


def _scores(queries: Sequence[Float32], pages: Multivectors, device: str) -> Float32:
    return np.stack([maxsim(query, pages, device=device) for query in queries])  # (Q, C)


def _kept(exact: Float32, other: Float32) -> str:
    rankings = [
        {str(q): [str(i) for i in np.argsort(-row, kind="stable")[:DEPTH]] for q, row in enumerate(scores)}
        for scores in (exact, other)
    ]
    return f"{100 * kept(rankings[0], rankings[1], DEPTH).mean():.1f} % of the top-{DEPTH} kept"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how both agree on the folder named in ``arguments``; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m colret_eval.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("examples"), metavar="FOLDER")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--pages", type=int, default=64, help="how many to compare (default 64)")
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was compared")
        return 0
    try:
        for line in compare(options.model, options.folder, "cuda", options.pages):
            print(line, flush=True)
    except ColretError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
