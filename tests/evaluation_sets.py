"""A small labelled set with everything planted in it that an evaluation should find."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import write_pdf
from tests.pdfs import PdfSpec, build_pdf, text

TOPICS = (
    ("The grey heron waits for fish in shallow water", "where does the heron hunt"),
    ("Sourdough bread needs flour water salt and time", "what goes into sourdough bread"),
    ("The satellite reached a stable orbit around Mars", "orbit of the satellite"),
    ("She tuned the old violin before the concert began", "when was the violin tuned"),
    ("Net revenue by segment grew in the third quarter", "growth of net revenue"),
    ("Volcanic ash closed the airports of northern Europe", "why were airports closed"),
    ("The carpenter joined the oak beams with wooden pegs", "how are oak beams joined"),
    ("Penguins huddle together to survive the polar night", "how do penguins survive the cold"),
    ("The court dismissed the appeal for lack of evidence", "why was the appeal dismissed"),
    ("Vaccines train the immune system to recognise a virus", "how do vaccines work"),
    ("The goalkeeper saved two penalties in the final match", "penalties in the final"),
    ("Tomatoes ripen faster next to bananas in a paper bag", "how to ripen tomatoes"),
    ("The glacier has lost a third of its ice since 1980", "how much ice did the glacier lose"),
    ("Employees may park in the garage behind the office", "where may employees park"),
    ("The compiler inlines small functions at the second level", "when are functions inlined"),
    ("Monks copied the manuscript by hand in the abbey", "who copied the manuscript"),
    ("Electric trains recover energy when they brake downhill", "energy from braking trains"),
    ("The dentist recommends brushing for two minutes twice a day", "how long to brush teeth"),
    ("Salmon swim upstream to the river where they hatched", "where do salmon return to"),
    ("The lighthouse keeper logged every passing ship", "who logged passing ships"),
    ("Quartz watches count the vibrations of a crystal", "how do quartz watches keep time"),
    ("The bakery opens at six and sells out before noon", "opening hours of the bakery"),
    ("Migrating swallows cross the Sahara in four days", "how long do swallows cross the desert"),
    ("The museum lends paintings only to insured galleries", "who can borrow paintings"),
)
"""A sentence of a page, and a question that it answers."""

SMALL_TOPICS = ("the cat sleeps", "revenue grew by ten percent", "rain falls in spring", "a bridge of steel")
SMALL_QUESTIONS = ("kitten asleep", "higher sales", "wet weather", "iron construction")

UNANSWERED = ("how deep is the Mariana trench", "recipe for mushroom risotto", "capital of Mongolia")


def write_set(
    folder: Path,
    topics: Sequence[tuple[str, str]] = TOPICS,
    *,
    extra: Mapping[str, Sequence[str]] | None = None,
    shift: int = 0,
    unanswered: Sequence[str] = (),
) -> Path:
    """Write a set in colret's own layout: four topics a PDF, a query a topic, and further PDFs without labels."""
    (folder / "pdfs").mkdir(parents=True)
    pages = [text for text, _ in topics]
    for start in range(0, len(pages), 4):
        write_pdf(folder / "pdfs" / f"doc{start // 4}.pdf", *pages[start : start + 4])
    for name, texts in (extra or {}).items():
        write_pdf(folder / "pdfs" / name, *texts)
    queries = [{"query_id": f"q{i}", "text": question} for i, (_, question) in enumerate(topics)]
    queries += [{"query_id": f"none{i}", "text": question} for i, question in enumerate(unanswered)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    labels = [f"q{i}\tdoc{i // 4}.pdf\t{i % 4 + 1 + shift}\t1\n" for i in range(len(topics))]
    labels += [f"none{i}\tdoc0.pdf\t1\t0\n" for i in range(len(unanswered))]
    (folder / "qrels.tsv").write_text("".join(labels))
    return folder


def write_small_set(folder: Path) -> Path:
    """Write four topics, a page each in two PDFs, a question for each, and a blank page that one line names."""
    (folder / "pdfs").mkdir(parents=True)
    (folder / "pdfs_distractors").mkdir()
    for name, topics in {
        "pdfs/a b.pdf": SMALL_TOPICS[:2],
        "pdfs/c.pdf": SMALL_TOPICS[2:],
        "pdfs_distractors/d.pdf": ("pi",),
    }.items():
        pages = [PdfSpec(text(topic, 72, 700)) for topic in topics]
        (folder / name).write_bytes(build_pdf([*pages, PdfSpec()]))
    lines = [
        {"query_id": f"q{i}", "query": question, "pdf": "a b.pdf" if i < 2 else "c.pdf", "pages": [i % 2 + 1]}
        for i, question in enumerate(SMALL_QUESTIONS)
    ]
    lines.append(lines[0] | {"pages": [3]})
    (folder / "qrels.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder
