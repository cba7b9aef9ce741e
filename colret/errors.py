"""What can go wrong, as exceptions that are already one clear line for the user.

    ColretError
    ├── DocumentError   a file or a page of it cannot be used
    ├── FilterError     a filter on pages cannot be understood
    ├── ModelError      a model cannot be had, loaded or trusted
    └── StoreError      an index is missing, foreign, locked or damaged
        └── BusyError   another process is writing to it

A caller's own mistake (a wrong shape, a negative k) is a ``ValueError`` instead.
"""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "missing",
    "unreadable",
    "unsupported_type",
    "unsupported_archive",
    "empty_file",
    "not_a_pdf",
    "not_an_image",
    "password_required",
    "unsupported_encryption",
    "no_pages",
    "page_unreadable",
    "render_timeout",
    "render_memory",
    "reader_crashed",
    "too_large",
    "no_text_no_ocr",
    "ocr_failed",
    "needs_libreoffice",
    "conversion_failed",
    "encoding_failed",
    "changed_while_read",
]
"""Machine-readable cause of a skipped document or page."""


class ColretError(Exception):
    """A failure told in one line: what it concerns, what is wrong, what to do about it.

    Args:
        subject: The path, page or model concerned.
        problem: What is wrong with it.
        remedy: What the user can do.
    """

    def __init__(self, subject: object, problem: str, remedy: str) -> None:
        self.subject = printable(str(subject))
        self.problem = one_line(problem)
        self.remedy = one_line(remedy)
        super().__init__(f"{self.subject}: {self.problem}; {self.remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip between processes, which would give the message as the one argument."""
        return type(self), (self.subject, self.problem, self.remedy)


class DocumentError(ColretError):
    """A document, or one of its pages, cannot be used; ``reason`` says why to a machine."""

    def __init__(self, subject: object, problem: str, remedy: str, *, reason: Reason) -> None:
        self.reason = reason
        super().__init__(subject, problem, remedy)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip between processes, which drops keyword arguments."""
        return _restore_document_error, (self.subject, self.problem, self.remedy, self.reason)


class FilterError(ColretError):
    """A filter on pages is not a condition, or names no document."""


class ModelError(ColretError):
    """A model cannot be had, loaded, or trusted with what it returned."""


class StoreError(ColretError):
    """An index is missing, of another model or format, or cannot be read or written."""


class BusyError(StoreError):
    """Another process is writing to the index."""


def one_line(text: str) -> str:
    """Return ``text`` on one line, safe to print: control characters and lone surrogates escaped."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Return ``text`` with what a terminal must not be sent escaped, its spaces as they are."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _restore_document_error(subject: str, problem: str, remedy: str, reason: Reason) -> DocumentError:
    return DocumentError(subject, problem, remedy, reason=reason)
