"""The values that travel between the layers.

Symbols used in every docstring: T query tokens, P vectors of one page, D dimension,
N pages in the corpus, C candidates, k results, W words of one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colret.errors import Reason

if TYPE_CHECKING:
    from PIL.Image import Image

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
Boxes = NDArray[np.uint16]
"""(n, 4) uint16: left, top, right, bottom in 1/65535 of the page's displayed width and height."""

WHOLE_PAGE = (0, 0, 65535, 65535)
"""The box of what has no place on the page, such as a prompt token."""

Codec = Literal["float16", "int8", "int4", "binary"]
"""How vectors are stored: see ``codecs``."""

Coding = Literal["float32", "float16", "int8", "int4", "binary"]
"""What the values of ``Multivectors`` stand for: a codec, or vectors as an encoder gives them."""

Values = NDArray[np.float32] | NDArray[np.float16] | NDArray[np.int8] | NDArray[np.uint8]

_DTYPES: dict[Coding, type] = {
    "float32": np.float32,
    "float16": np.float16,
    "int8": np.int8,
    "int4": np.uint8,
    "binary": np.uint8,
}
_PER_BYTE: dict[Coding, int] = {"int4": 2, "binary": 8}  # dimensions; of the others, one an element

PageTokens = Literal["all", "image"]
"""Which vectors of a page a vision model keeps: those of its prompt too, or of the image alone."""


class PageRef(NamedTuple):
    """One page of one document; ``number`` counts physical pages from 1."""

    doc_id: str
    number: int

    @property
    def page_id(self) -> str:
        """``doc_id:number``, without white space, so that TREC files can carry it."""
        return f"{self.doc_id}:{self.number}"

    @classmethod
    def parse(cls, page_id: str) -> PageRef:
        """Return the reference that ``page_id`` names."""
        doc_id, _, number = page_id.rpartition(":")
        return cls(doc_id, int(number))


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a page in reading order, none empty and none with white space inside."""

    texts: tuple[str, ...]
    boxes: Boxes  # (W, 4)

    def __post_init__(self) -> None:
        """Check that each word has its box."""
        if self.boxes.shape != (len(self.texts), 4) or self.boxes.dtype != np.uint16:
            raise ValueError(f"{len(self.texts)} words need ({len(self.texts)}, 4) uint16 boxes")

    @property
    def text(self) -> str:
        """The words joined by single spaces: ``text.split(" ")`` gives them back."""
        return " ".join(self.texts)

    @classmethod
    def none(cls) -> Words:
        """Return the words of a page without any."""
        return cls((), np.empty((0, 4), np.uint16))


@dataclass(frozen=True, slots=True)
class Page:
    """One page as read from its document, before encoding."""

    ref: PageRef
    width: float  # points, as displayed (after rotation and cropping)
    height: float
    words: Words
    image: Image | None  # RGB, as displayed; None when nothing needs pixels
    image_hash: int  # 64-bit perceptual hash
    ocr: bool = False  # whether the words were read from the image


@dataclass(frozen=True, slots=True)
class PageEmbedding:
    """The multivector of one page and where on the page each vector comes from."""

    vectors: Float32  # (P, D) float32, unit rows; P may be 0 for a blank page
    boxes: Boxes  # (P, 4)


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    """The multivector of one query and the token that each vector stands for."""

    vectors: Float32  # (T, D) float32, unit rows
    tokens: tuple[str, ...]
    text: str = ""  # as asked, for prefilters and lanes that read words


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """What an index must know of its encoder to be searched by the same one."""

    name: str  # as given to load_encoder: a short-cut, a hub name or a folder
    family: str
    revision: str  # commit, or digest of the weights
    dim: int
    query_template: str  # how a query is wrapped before encoding, "{}" being its text
    reads: str  # "words" or "image"
    render_pixels: int  # largest number of pixels of a page image worth rendering
    page_tokens: PageTokens = "all"


@dataclass(frozen=True, slots=True)
class Multivectors:
    """Multivectors of C pages, packed: no padding, so no mask to forget.

    Page ``i`` owns rows ``offsets[i]:offsets[i + 1]`` of ``values``; its vectors are what those
    rows stand for times ``scales[i]``. ``coding`` says what they stand for (n = sum of all P):

    ========== ==================== =====================================================
    float32    (n, D) float32       themselves
    float16    (n, D) float16       themselves
    int8       (n, D) int8          themselves
    int4       (n, ceil(D/2)) uint8 the odd numbers 2c - 15, c from 0 to 15: the low half
                                    of byte j is dimension j, the high half ceil(D/2) + j
    binary     (n, ceil(D/8)) uint8 1 where a bit is set, else -1; dimension j is bit
                                    j % 8 of byte j // 8, counted from the lowest
    ========== ==================== =====================================================

    Padding (the last high half of int4 at odd D, the last bits of binary) is zero bits, and no
    dimension.
    """

    values: Values
    offsets: Int64  # (C + 1,)
    scales: Float32  # (C,)
    coding: Coding = "float32"
    dim: int = 0  # D; only what packs several dimensions into a byte must say it

    def __post_init__(self) -> None:
        """Refuse what would make a segment maximum wrong."""
        if not self.dim:
            object.__setattr__(self, "dim", self.values.shape[1])
        width, dtype = -(-self.dim // _PER_BYTE.get(self.coding, 1)), np.dtype(_DTYPES[self.coding])
        if self.values.ndim != 2 or self.values.dtype != dtype or (len(self.values) and self.values.shape[1] != width):
            problem = f"{self.values.shape} {self.values.dtype}"
            raise ValueError(f"{self.dim} dimensions in {self.coding} are (n, {width}) {dtype}, not {problem}")
        if self.offsets.dtype != np.int64 or self.offsets.ndim != 1 or not len(self.offsets):
            raise ValueError("offsets must be (C + 1,) int64")
        lengths = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.values):
            raise ValueError("offsets must run from 0 to the number of vectors")
        if len(lengths) and lengths.min() < 1:
            raise ValueError("a page without vectors cannot be scored")
        if self.scales.shape != lengths.shape:
            raise ValueError("each page needs one scale")

    def __len__(self) -> int:
        """Return C, the number of pages."""
        return len(self.offsets) - 1

    @classmethod
    def pack(cls, pages: Sequence[NDArray[np.float32]]) -> Multivectors:
        """Pack float32 multivectors, each (P, D) with its own P >= 1."""
        offsets = np.zeros(len(pages) + 1, np.int64)
        np.cumsum([len(page) for page in pages], out=offsets[1:])
        values = np.concatenate(pages) if pages else np.empty((0, 0), np.float32)
        return cls(np.asarray(values, np.float32), offsets, np.ones(len(pages), np.float32))


class Hit(NamedTuple):
    """One ranked page."""

    ref: PageRef
    score: float  # what it is ranked by: in the visual lane MaxSim over the number of query tokens, else see ``lanes``
    maxsim: float  # raw MaxSim: the sum over query tokens of the best similarity; 0 in the text lane
    row_id: int  # where the store keeps the page
    bm25: float = 0.0  # as a share of its upper bound; 0 in the visual lane
    contents: bool = False  # whether the page is a list of contents, and was demoted where words are read


class SkippedPage(NamedTuple):
    """A page that could not be indexed."""

    number: int
    reason: Reason
    message: str


class DocumentFile(NamedTuple):
    """A path that holds a document's content, as it was when last read."""

    path: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """What the index knows of one document: the commit record of its pages."""

    doc_id: str
    files: tuple[DocumentFile, ...]
    size: int  # bytes
    n_pages: int  # pages of the document, indexed or not
    n_blank: int  # pages without anything to encode
    status: str  # "done", "failed", or "replaced" until its pages are deleted
    reason: str  # "" when done
    message: str
    tool_version: str
    skipped: tuple[SkippedPage, ...] = field(default=())

    @property
    def n_left_out(self) -> int:
        """Pages that the index holds nothing of: blank ones, and those that could not be used."""
        return self.n_blank + len(self.skipped)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What an index was made with; a search or an ingest with anything else is refused."""

    model: str
    revision: str
    family: str
    dim: int  # D of the encoder
    query_template: str
    codec: Codec
    format_version: int
    tool_version: str  # of the colret that made it
    created: str  # ISO 8601, UTC
    page_tokens: PageTokens = "all"
    render_pixels: int = 0  # largest page image that the encoder asked for
    stored_dim: int = 0  # dimensions that are stored; 0 stands for all D
    pool: int = 1  # vectors of a page that became one
    projected: bool = False  # whether vectors are stored, and asked for, in rotated dimensions
    libraries: dict[str, str] = field(default_factory=dict)  # versions that made the index

    def __post_init__(self) -> None:
        """Say how many dimensions are stored where nobody did."""
        if not self.stored_dim:
            object.__setattr__(self, "stored_dim", self.dim)


class EncodedPage(NamedTuple):
    """A page with its multivector, ready to be stored."""

    page: Page
    embedding: PageEmbedding


class Candidate(NamedTuple):
    """A page that a search may rescore, and where the store keeps it."""

    ref: PageRef
    row_id: int


@dataclass(frozen=True, slots=True)
class PageDetails:
    """What the index knows of a page besides its vectors."""

    ref: PageRef
    width: float  # points
    height: float
    words: Words
    boxes: Boxes  # (P, 4), where each stored vector comes from


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What an index holds and what it takes."""

    settings: IndexSettings
    n_documents: int
    n_failed: int
    n_pages: int
    n_blank: int
    n_skipped_pages: int
    n_vectors: int
    bytes_on_disk: int
    dead_bytes: int  # of them: deleted rows, what was replaced, what killed writers left; compaction frees them

    @property
    def live_bytes(self) -> int:
        """Bytes on disk that what the index holds needs."""
        return self.bytes_on_disk - self.dead_bytes
