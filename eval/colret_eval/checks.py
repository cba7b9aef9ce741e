"""What is wrong, or looks wrong, with a labelled set: everything at once, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from colret.documents import display_path, is_pdf
from colret.errors import DocumentError, printable
from colret.reading import open_document
from colret.render import PdfFile
from colret.types import PageRef
from colret.words import text_layer_words
from colret_eval.datasets import DatasetError, read_contents
from colret_eval.datasets.contents import Contents, Label, all_faults
from colret_eval.datasets.pages import ImageDocument, TextDocument
from colret_eval.label_shift import Labelled, PagedText, Shift, find_shifts, words_of

MIN_CHARACTERS = 3
"""Letters and digits below which a query is next to empty."""

MAX_WORDS = 500
"""Words above which a query looks like a document."""

_ADD_1 = "add 1 to every page"
_BLANK_PIXELS = 1 << 16  # enough for a thin line to leave a trace
_NAMED = 3  # documents named in a line about many


class Finding(NamedTuple):
    """One thing that is wrong ("error": figures would be wrong) or looks so ("warning")."""

    level: Literal["error", "warning"]
    kind: str  # machine-readable
    where: str  # a file, file:line or row
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A set's sizes and what was found in it."""

    name: str
    n_queries: int  # with a relevant page
    n_no_answer: int
    n_documents: int
    n_pages: int  # of the documents that can be opened
    findings: list[Finding]


@dataclass(slots=True)
class _Document:
    """What a file turned out to hold."""

    n_pages: int
    texts: list[set[str]] = field(default_factory=list)  # distinct words of each page, if it is a labelled PDF
    printed: list[str] = field(default_factory=list)


def check_dataset(folder: Path, *, extra_folders: Sequence[str] = ()) -> CheckReport:
    """Read a set and its documents, and return all that is wrong with it; the arguments are ``load_dataset``'s."""
    try:
        contents = read_contents(folder, extra_folders=extra_folders)
    except DatasetError as error:
        return CheckReport(folder.name, 0, 0, 0, 0, [_from_error("unreadable", error)])
    findings = [_from_error("line", fault) for fault in all_faults(contents)]
    opened, failures = _open_documents(contents)
    findings += failures
    findings += _broken_images(contents)
    findings += _page_numbers(contents, opened)
    findings += _blank_pages(contents, opened)
    findings += _query_texts(contents)
    findings += _labelling(contents)
    answered = {label.query_id for label in contents.labels if label.grade > 0}
    asked = {query.query_id for query in contents.queries}
    n_pages = sum(document.n_pages for document in opened.values())
    n_pages += sum(len(document.numbers) for document in contents.page_documents.values())
    n_documents = len(contents.documents) + len(contents.page_documents)
    return CheckReport(contents.name, len(asked & answered), len(asked - answered), n_documents, n_pages, findings)


def _from_error(kind: str, error: DatasetError) -> Finding:
    return Finding("error", kind, error.subject, error.problem, error.remedy)


def _open_documents(contents: Contents) -> tuple[dict[str, _Document], list[Finding]]:
    """Return the documents that can be read, by name, and what is to say of the others."""
    labelled = {label.document for label in contents.labels if label.grade > 0}
    opened, failures = {}, []
    for name, path in contents.documents.items():
        try:
            opened[name] = _read(path, with_text=name in labelled)
        except DocumentError as error:
            level: Literal["error", "warning"] = "error" if name in labelled else "warning"
            failures.append(Finding(level, "document", error.subject, error.problem, error.remedy))
    return opened, failures


def _broken_images(contents: Contents) -> Iterator[Finding]:
    """Yield rows of parquet files without an image that can be opened, in the order in which they are stored."""
    images = [pages for pages in contents.page_documents.values() if isinstance(pages, ImageDocument)]
    pages_of = [(place.column.where(0), place.row, n, pages) for pages in images for n, place in pages.rows.items()]
    for _, _, number, pages in sorted(pages_of, key=lambda place: place[:3]):
        try:
            pages.check_page(number)
        except DatasetError as error:
            yield _from_error("document", error)


def _read(path: Path, *, with_text: bool) -> _Document:
    name = display_path(path)
    if not (with_text and is_pdf(path)):
        with open_document(path) as document:
            return _Document(document.n_pages)
    with PdfFile(path, name) as pdf:
        found = _Document(pdf.n_pages)
        for number in range(1, pdf.n_pages + 1):
            try:
                with pdf.page(number) as page:
                    found.texts.append(words_of(text_layer_words(page.handle, name=name).text))
                    found.printed.append(page.handle.pdf.get_page_label(number - 1))
            except DocumentError:  # a page that ingest skips
                found.texts.append(set())
                found.printed.append("")
        return found


def _page_numbers(contents: Contents, opened: Mapping[str, _Document]) -> Iterator[Finding]:
    """Yield pages that are not there, and signs that pages were not counted as they are in the file, from 1."""
    for label in contents.labels:
        document = opened.get(label.document)
        if document and label.page > document.n_pages:
            has = f"which has {document.n_pages} page{'s' * (document.n_pages != 1)}"
            problem = f"names page {label.page} of {label.document!r}, {has}"
            yield Finding("error", "page_out_of_range", label.where, problem, "count physical pages, from 1")
    zeros = [label for label in contents.labels if label.page == 0]
    if zeros:
        found = _page_0(contents, zeros, opened)
        yield found
        if found.kind == "zero_based":
            return
    texts = {name: PagedText(found.texts, found.printed) for name, found in opened.items() if any(found.texts)}
    for shift in find_shifts(_by_query(contents), texts):
        yield _shift_finding(contents, shift, opened)


def _page_0(contents: Contents, zeros: Sequence[Label], opened: Mapping[str, _Document]) -> Finding:
    """Return what labels that name page 0 mean: all count from 0, if all can; or these are mistaken."""
    problem = f"{len(zeros)} of {len(contents.labels)} labels name page 0"
    beyond = _pushed_out(contents.labels, 1, opened)
    if beyond:
        problem += f", but {beyond.where} names the last of {beyond.document!r}, so that not all are counted from 0"
    elif len(zeros) == 1 < len(contents.labels) - 1:
        problem += ": a mistake, or all pages are counted from 0"
    else:
        return Finding("error", "zero_based", _file(zeros[0]), f"{problem}: pages look counted from 0", _ADD_1)
    return Finding("error", "page_0", zeros[0].where, problem, "count physical pages, from 1; look at each label")


def _pushed_out(labels: Sequence[Label], step: int, opened: Mapping[str, _Document]) -> Label | None:
    """Return the first label that ``step`` more pages would move out of its document."""
    known = [label for label in labels if label.document in opened]
    return next((label for label in known if not 1 <= label.page + step <= opened[label.document].n_pages), None)


def _by_query(contents: Contents) -> list[Labelled]:
    queries = {query.query_id: query.text for query in contents.queries}
    pages: dict[tuple[str, str], set[int]] = {}
    for label in contents.labels:
        if label.grade > 0 and label.query_id in queries:
            pages.setdefault((label.query_id, label.document), set()).add(label.page)
    return [Labelled(queries[query], document, tuple(sorted(some))) for (query, document), some in pages.items()]


def _shift_finding(contents: Contents, shift: Shift, opened: Mapping[str, _Document]) -> Finding:
    labels = "labels" if shift.document is None else f"labels on {shift.document!r}"
    counted = f"better in {shift.n_better} of {shift.n_groups} cases (p = {shift.chance:.1g})"
    if shift.step is None:
        problem = f"{labels} look like printed page numbers: the pages that show them match the queries {counted}"
        remedy = "name positions in the file, from 1"
        return Finding("error", "printed_pages", _file(contents.labels[0]), problem, remedy)
    kind, like = "printed_pages", "shifted, as printed page numbers are"
    if shift.step == 1:
        kind, like = "zero_based", "counted from 0"
    step = f"add {shift.step} to" if shift.step > 0 else f"subtract {-shift.step} from"
    moved = [label for label in contents.labels if shift.document in (None, label.document)]
    problem = f"{labels} look {like}: pages {shift.step:+d} match the queries {counted}"
    beyond = _pushed_out(moved, shift.step, opened)
    remedy = f"{step} each page"
    if beyond:
        remedy = f"count physical pages, from 1: not all are off alike, as {beyond.where} shows"
    return Finding("error", kind, _file(moved[0]), problem, remedy)


def _file(label: Label) -> str:
    """Return the file that a label is in."""
    return re.sub(r"(:\d+| row \d+)$", "", label.where)


def _blank_pages(contents: Contents, opened: Mapping[str, _Document]) -> Iterator[Finding]:
    seen: dict[tuple[str, int], bool] = {}
    for label in contents.labels:
        place = label.document, label.page
        if label.grade > 0 and place not in seen:
            seen[place] = _is_blank(contents, opened, *place)
        if label.grade > 0 and seen[place]:
            problem = f"page {label.page} of {label.document!r} is blank"
            yield Finding("warning", "blank_page", label.where, problem, "name the page that has the answer")


def _is_blank(contents: Contents, opened: Mapping[str, _Document], name: str, number: int) -> bool:
    """Return whether a page has neither words nor anything to see; pages that cannot be read are not called so."""
    pages = contents.page_documents.get(name)
    if pages is not None:  # an image is not decoded for this
        return isinstance(pages, TextDocument) and not pages.texts.get(number, "-").strip()
    document = opened.get(name)
    if document is None or not 1 <= number <= document.n_pages or (document.texts and document.texts[number - 1]):
        return False
    try:
        with open_document(contents.documents[name]) as source:
            page = source.read_page(number, ref=PageRef(name, number), pixels=_BLANK_PIXELS, ocr=False)
    except DocumentError:
        return False
    if page.words.texts or page.image is None:
        return False
    return all(low == high for low, high in np.asarray(page.image.getextrema()))


def _query_texts(contents: Contents) -> Iterator[Finding]:
    """Yield queries that say next to nothing, and those that ask the same."""
    pages: dict[str, set[tuple[str, int]]] = {}
    for label in contents.labels:
        if label.grade > 0:
            pages.setdefault(label.query_id, set()).add((label.document, label.page))
    first: dict[str, tuple[str, str]] = {}  # the plain text to the id and place of the first query that has it
    seen = set()
    for query_id, text, where in contents.queries:
        if query_id in seen:
            continue
        seen.add(query_id)
        if sum(map(str.isalnum, text)) < MIN_CHARACTERS:
            problem = f"query {query_id!r} is next to empty: {text!r}"
            yield Finding("warning", "short_query", where, problem, "write it out")
        if (n_words := len(text.split())) > MAX_WORDS:
            problem = f"query {query_id!r} has {n_words:,} words: encoders cut it short"
            yield Finding("warning", "long_query", where, problem, "ask a question")
        plain = " ".join(re.findall(r"\w+", text.casefold())) or text
        other, at = first.setdefault(plain, (query_id, where))
        if other == query_id:
            continue
        if pages.get(query_id, set()) == pages.get(other, set()):
            problem = f"query {query_id!r} repeats {other!r} ({at}) and counts twice"
            yield Finding("warning", "duplicate_query", where, problem, "keep one of them")
        else:
            problem = f"query {query_id!r} asks what {other!r} ({at}) asks, with other relevant pages"
            yield Finding("warning", "conflicting_labels", where, problem, "make them one query with all its pages")


def _labelling(contents: Contents) -> Iterator[Finding]:
    """Yield queries that no label names, pages with two grades, and documents that no query is about."""
    if contents.synthetic:
        problem = "queries were made from the pages that answer them: they favour systems that match words"
        yield Finding("warning", "synthetic", contents.queries[0].where, problem, "have people ask questions")
    judged = {label.query_id for label in contents.labels} | contents.no_answer
    for query_id, where in {query.query_id: query.where for query in contents.queries}.items():
        if query_id not in judged:
            problem = f"query {query_id!r} has no relevant page: it counts as one without an answer"
            yield Finding("warning", "unlabelled_query", where, problem, "label its pages, or one with grade 0 if so")
    grades: dict[tuple[str, str, int], Label] = {}
    for label in contents.labels:
        other = grades.setdefault((label.query_id, label.document, label.page), label)
        if other.grade != label.grade:
            problem = f"grade {label.grade} for a page that {other.where} gives {other.grade}: the higher counts"
            yield Finding("warning", "conflicting_grades", label.where, problem, "keep one of them")
    about = {label.document for label in contents.labels if label.grade > 0}
    unlabelled = [name for name in contents.documents if name not in about]
    if about and unlabelled:
        some = ", ".join(map(printable, unlabelled[:_NAMED])) + (", ..." if len(unlabelled) > _NAMED else "")
        problem = f"{len(unlabelled)} of {len(contents.documents)} documents have no relevant page ({some})"
        remedy = "label them, unless they are there to distract"
        yield Finding("warning", "unlabelled_documents", str(contents.folder / contents.corpus), problem, remedy)
