"""``colret eval run`` and ``colret eval sweep``: what a search is worth on labelled pages."""

from __future__ import annotations

import functools
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from colret.errors import ColretError, printable
from colret_cli.options import device_option, index_location, json_option, storage_option, usage_errors
from colret_cli.output import ProgressLine, show_path

if TYPE_CHECKING:
    from colret.encoders import Encoder
    from colret.location import Location
    from colret_eval.evaluation.run import Checked

_CODECS: Final = ("float16", "int8", "int4", "binary")
_SYSTEMS: Final = (  # those of colret_eval, which --help is not to load
    "late_interaction",
    "two_stage",
    "late_interaction_float32",
    "single_mean",
    "single_pooled",
    "minilm_chunk",
    "bm25",
    "text_lane",
    "both_lanes",
    "bi_encoder",
)


def _set_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names the set's pages and the model."""
    options = (
        click.option("--distractors", is_flag=True, help="Search the PDFs of the set's pdfs_distractors/ too."),
        click.option("--model", help="As for colret ingest.  [default: embedded without a GPU, else colqwen2]"),
        device_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("datasets", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DATASET...")
@click.option("--systems", help=f"Which to compare, with commas between: {', '.join(_SYSTEMS)}.  [default: all]")
@_set_options
@click.option("--codec", type=click.Choice(_CODECS), help="How vectors are stored.  [default: as colret ingest]")
@click.option("--dim", type=click.IntRange(min=1), help="Dimensions to store.  [default: all]")
@click.option("--pool", type=click.IntRange(min=1), default=1, show_default=True, help="Vectors that become one.")
@click.option("--bi-model", help="A single-vector vision model (Bi*) to compare: a folder, or a hub name.")
@click.option(
    "--index",
    "indexes",
    callback=index_location,
    help="Folder to keep the indexes in, or an address such as s3://BUCKET/PREFIX, one for each set.  "
    "[default: none is kept]",
)
@storage_option
@click.option(
    "--out", type=click.Path(path_type=Path), default="eval-report", show_default=True, help="Folder of the report."
)
@json_option
def run(
    datasets: tuple[Path, ...],
    systems: str | None,
    distractors: bool,
    model: str | None,
    device: str,
    indexes: Location | None,
    out: Path,
    as_json: bool,
    **stored: Any,
) -> None:
    """Compare late interaction with simpler systems on labelled sets, and say how sure that is.

    Each DATASET is a folder that `colret eval check` understands; several are evaluated each and
    together. Writes report.html, report.md, report.json, and runs and qrels as TREC files.

    \b
    Example:
      colret eval run my-set
      colret eval run my-set --systems late_interaction,bm25,single_mean
    """
    from colret_eval.evaluation.one_set import Options
    from colret_eval.evaluation.run import evaluate_sets
    from colret_eval.evaluation.summary import summary
    from colret_eval.report_file import replacing_folder

    wanted = _known_systems(systems)
    sets = [_load(dataset, distractors) for dataset in datasets]
    _make_folder(out)
    with ExitStack() as stack:
        stack.enter_context(_stoppable(keeps_index=indexes is not None))
        trec = stack.enter_context(replacing_folder(out / "trec", ".trec"))
        encoder = _encoder(model, device)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="colret-eval-")))
        vectors = scratch / "vectors"
        vectors.mkdir()
        evaluate = functools.partial(evaluate_sets, sets, encoder, indexes or scratch / "indexes", vectors)
        with _progress() as progress:
            report = usage_errors(
                lambda: evaluate(Options(wanted, device=device, trec=trec, **stored), say=_say, on_progress=progress)
            )
        texts = _run_texts(report)
    written = _write(out, texts)
    if as_json:
        click.echo(json.dumps({"report": report, "files": [str(path) for path in written]}))
        return
    for each in report["sets"]:
        click.echo(summary(each) + "\n")
    click.echo(f"wrote {', '.join(show_path(str(path)) for path in written)}")


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@_set_options
@click.option("--codecs", help="float32, float16, int8, int4, binary, pq (product quantisation).  [default: all]")
@click.option("--dims", help="Numbers of dimensions to keep.  [default: a half, a third, a sixth]")
@click.option("--pools", default="2,4,8", show_default=True, help="Pool factors.")
@click.option("--prefilters", help="As for colret query.  [default: single, sketch, binary, single+binary]")
@click.option("--candidates", default="20,50,100,200", show_default=True, help="Pages that prefilters keep.")
@click.option(
    "--out", type=click.Path(path_type=Path), default="eval-sweep", show_default=True, help="Folder of the figures."
)
@json_option
def sweep(
    dataset: Path,
    distractors: bool,
    model: str | None,
    device: str,
    out: Path,
    as_json: bool,
    **lists: str | None,
) -> None:
    """Try ways to store vectors and to prefilter pages on a labelled set: quality against bytes and time.

    Pages are encoded once; float32 vectors lie in a temporary folder meanwhile. One factor at a
    time is changed around the defaults. Writes sweep.html, sweep.md and sweep.json.

    \b
    Example:
      colret eval sweep my-set
      colret eval sweep my-set --codecs int8,int4 --dims 128,64
    """
    from colret_eval.evaluation.sweep import sweep as run_sweep
    from colret_eval.evaluation.sweep_table import sweep_markdown

    grid = _grid(lists)
    checked = _load(dataset, distractors)
    _make_folder(out)
    encoder = _encoder(model, device)
    scratch_folder = tempfile.TemporaryDirectory(prefix="colret-eval-")
    with _stoppable(keeps_index=False), scratch_folder as scratch, _progress() as progress:
        report = usage_errors(lambda: run_sweep(checked, encoder, Path(scratch), grid, say=_say, on_progress=progress))
    text = sweep_markdown(report)
    written = _write(out, _texts("sweep", report, text))
    if as_json:
        click.echo(json.dumps(report))
        return
    click.echo(text)
    click.echo(f"wrote {', '.join(show_path(str(path)) for path in written)}")


def _known_systems(names: str | None) -> tuple[str, ...]:
    from colret_eval.evaluation.systems import SYSTEMS

    known = tuple(system.id for system in SYSTEMS)
    return known if names is None else _among(names, known, "--systems")


def _grid(lists: dict[str, str | None]) -> Any:
    from colret.prefilter import Prefilter
    from colret_eval.evaluation.sweep import CODECS, PREFILTERS, Grid

    prefilters = _split(lists["prefilters"]) if lists["prefilters"] else PREFILTERS
    for name in prefilters:
        usage_errors(functools.partial(Prefilter.parse, name))
    return Grid(
        codecs=_among(lists["codecs"], CODECS, "--codecs") if lists["codecs"] else CODECS,
        dims=_numbers(lists["dims"], "--dims"),
        pools=_numbers(lists["pools"], "--pools"),
        prefilters=prefilters,
        candidates=_numbers(lists["candidates"], "--candidates"),
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _among(text: str, known: Sequence[str], option: str) -> tuple[str, ...]:
    names = _split(text)
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"no such {', '.join(unknown)}: there are {', '.join(known)}", param_hint=option)
    return names


def _numbers(text: str | None, option: str) -> tuple[int, ...]:
    parts = _split(text or "")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of numbers above 0", param_hint=option)
    return tuple(map(int, parts))


def _load(folder: Path, distractors: bool) -> Checked:
    """Return a set; one with errors ends the command, with a line each, and warnings are told."""
    from colret_cli.evaluate import finding_line
    from colret_eval.evaluation.run import UnusableSetError, load_checked

    try:
        checked = load_checked(folder, distractors=distractors)
    except UnusableSetError as error:
        for finding in error.errors:
            click.echo(finding_line(finding), err=True)
        click.echo(f"colret: {printable(str(folder))}: {error}; correct them first", err=True)
        sys.exit(1)
    for finding in checked.findings:
        click.echo(finding_line(finding), err=True)
    return checked


def _encoder(model: str | None, device: str) -> Encoder:
    from colret.encoders import choose_model, load_encoder

    if model is not None and not model.strip():
        raise click.UsageError("--model is empty")
    if model in (None, "auto"):
        model, why = choose_model()
        click.echo(f"model: {model} ({why}; --model chooses another)", err=True)
    return usage_errors(lambda: load_encoder(str(model), device=device))


def _make_folder(folder: Path) -> None:
    """Make the folder of a report, and see that it can be written before the work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ColretError(folder, f"cannot be made or written ({error.strerror})", "name another with --out") from error


def _run_texts(report: dict[str, Any]) -> dict[str, str]:
    from colret_eval.evaluation.markdown import markdown

    return _texts("report", report, markdown(report))


def _texts(name: str, report: dict[str, Any], text: str) -> dict[str, str]:
    """Return a report by file: as Markdown, as a page for a browser where what makes it is installed, and as JSON."""
    figures = json.dumps(report, indent=1) + "\n"
    texts = {f"{name}.md": text}
    try:
        from colret_eval.html_report import html_report
    except ImportError as error:
        click.echo(f"no {name}.html: {error.name} is not installed; pip install 'colret[eval]'", err=True)
    else:
        texts[f"{name}.html"] = html_report(json.loads(figures))
    return {**texts, f"{name}.json": figures}  # written last: where it is new, all is


def _write(folder: Path, texts: dict[str, str]) -> list[Path]:
    from colret_eval.report_file import write_text

    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _say(text: str) -> None:
    click.echo(printable(text), err=True)


@contextmanager
def _stoppable(*, keeps_index: bool) -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that temporary folders are removed."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # only the main thread may
        before = None
    try:
        yield
    except KeyboardInterrupt:
        if keeps_index:
            raise
        click.echo("colret: interrupted; nothing was kept", err=True)
        sys.exit(128 + signal.SIGINT)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress() -> Iterator[ProgressLine]:
    progress = ProgressLine()
    try:
        yield progress
    finally:
        progress.clear()
