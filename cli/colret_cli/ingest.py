"""``colret ingest``: bring an index up to date with folders."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from colret.wording import count
from colret_cli.ingested import print_plan, print_report, print_sync
from colret_cli.opening import Storage, open_or_create
from colret_cli.options import (
    NumberRange,
    complete_files,
    device_option,
    index_option,
    json_option,
    open_store,
    storage_options,
    wait_option,
    when_free,
)
from colret_cli.output import ProgressLine
from colret_cli.stopping import stoppable

if TYPE_CHECKING:
    from colret.addresses import Place
    from colret.fleet import Fleet
    from colret.folders import Found
    from colret.location import Location
    from colret.report import IngestReport
    from colret.store import PageStore

SOME_SKIPPED = 3  # exit code


def _as_paths(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Place, ...]:
    """Return the paths and addresses; an empty one, as an unset variable gives, would be the working folder."""
    from colret.errors import DocumentError
    from colret.places import given_place

    if not all(value.strip() for value in values):
        raise click.BadParameter("a path is empty", ctx, parameter)
    try:
        return tuple(given_place(value, storage_options(ctx)) for value in values)
    except DocumentError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def _as_batch_size(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """Return the number; None, which the library takes for its own choice, for "auto"."""
    if value == "auto":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither auto nor a number from 1", ctx, parameter)
    return int(value)


def _as_passwords(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the lines of the file, in which no message ever quotes anything."""
    if value is None:
        return ()
    if value == "-" and sys.stdin is None:
        raise click.BadParameter("stdin is closed", ctx, parameter)
    try:
        with click.open_file(value, encoding="utf-8-sig") as file:
            return tuple(line for line in file.read().splitlines() if line)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{value}: not UTF-8 text", ctx, parameter) from error
    except OSError as error:
        raise click.BadParameter(f"{value}: cannot be read ({error.strerror})", ctx, parameter) from error


def _as_ray_address(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the address; what is none is mostly a path that was meant for itself."""
    if value is None or value in ("local", "auto") or re.fullmatch(r"[^/\s]+:\d+", value):
        return value
    problem = f"{value!r} is no address; where a PATH follows, write --ray=local"
    raise click.BadParameter(problem, ctx, parameter)


@click.command()
@click.argument("paths", nargs=-1, required=True, callback=_as_paths, metavar="PATH...", shell_complete=complete_files)
@index_option
@click.option(
    "--model", help="embedded, colpali, a checkpoint folder or a hub name.  [default: what the machine suits]"
)
@click.option("--revision", help="Branch, tag or commit of a model on the hub.")
@device_option
@click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16.")
@click.option(
    "--batch-size",
    default="auto",
    show_default=True,
    callback=_as_batch_size,
    help="Pages that a vision model encodes together: a number, or auto for what suits the device.",
)
@click.option(
    "--codec",
    type=click.Choice(["float16", "int8", "int4", "binary"]),
    help="How vectors are stored in a new index: 2, 1, 1/2 or 1/8 bytes a dimension.  "
    "[default: int4 from 256 dimensions on, else int8]",
)
@click.option(
    "--dim",
    type=click.IntRange(min=1),
    help="Dimensions to store in a new index, by a projection fitted to its first documents.  [default: all]",
)
@click.option(
    "--pool",
    type=click.IntRange(min=1),
    help="Vectors of a page that a new index merges into one, the most alike ones.  [default: 1]",
)
@click.option(
    "--image-tokens-only",
    is_flag=True,
    help="Leave the vectors of a vision model's prompt out of a new index.",
)
@click.option("--prune", is_flag=True, help="Drop files from the index that have vanished from the folders.")
@click.option("--retry-failed", is_flag=True, help="Read documents again that could not be used before.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@click.option("--watch", is_flag=True, help="Go on, and follow changes of the folders until Ctrl-C.")
@click.option(
    "--password-file",
    "passwords",
    callback=_as_passwords,
    metavar="FILE",
    help="Passwords to try on locked documents, one a line; - is stdin.",
)
@click.option(
    "--page-seconds",
    type=NumberRange(min=0, min_open=True, max=1_000_000),  # the system waits for no infinity
    default=60.0,
    show_default=True,
    metavar="N",
    help="Give a page up after so many seconds of processor time, or 5 times as long by the clock.",
)
@click.option(
    "--page-memory",
    type=click.IntRange(min=100),
    default=2000,
    show_default=True,
    metavar="MB",
    help="Give a page up that needs more memory.",
)
@click.option(
    "--commit-pages",
    type=click.IntRange(min=1),
    metavar="N",
    help="Pages written together. Each takes about 1 MB of memory; more make a very large ingest faster.  "
    "[default: 64]",
)
@click.option(
    "--ray",
    is_flag=False,
    flag_value="local",
    callback=_as_ray_address,
    metavar="[ADDRESS]",
    help="Read and encode on a Ray cluster: auto, or HOST:PORT of its head; without ADDRESS, on a Ray of this "
    "machine's own.",
)
@click.option(
    "--ray-encoders",
    type=click.IntRange(min=1),
    metavar="N",
    help="Workers of the cluster that encode.  [default: one a GPU, or as many as suit the CPUs]",
)
@wait_option
@json_option
def ingest(
    paths: tuple[Place, ...], index_path: Location, dry_run: bool, watch: bool, as_json: bool, **options: Any
) -> None:
    """Index the documents below each PATH: PDFs, images, Office files and HTML.

    A PATH is a file, a folder, or an address in object storage such as s3://bucket/reports.

    Again, it is a sync: files that have not changed are not read, changed ones replace what was
    there, and what was interrupted goes on. Exit code 3 means that some files or pages were
    skipped; they are listed.

    \b
    Example:
      colret ingest ~/reports
      colret ingest scans/ deck.pdf --index archive --model colqwen2
      colret ingest ~/reports --prune --watch
      colret ingest s3://bucket/reports --index s3://bucket/index --commit-pages 1024
      colret ingest ~/reports --ray
    """
    session = _Session(paths, index_path, options, as_json=as_json)
    if dry_run and watch:
        raise click.UsageError("give --dry-run or --watch")
    if dry_run:
        session.show_plan()
        return
    with stoppable(session.last_words), session:
        if watch:
            session.watch()
        elif session.sync_once().skipped:
            sys.exit(SOME_SKIPPED)


class _Session:
    """One run of the command: its options, and what it has open.

    Args:
        paths: Files and folders.
        index_path: The index.
        options: As click gives them; those that are not taken here are the encoder's.
        as_json: Print for programs.
    """

    def __init__(
        self, paths: tuple[Place, ...], index_path: Location, options: dict[str, Any], *, as_json: bool
    ) -> None:
        self._paths = paths
        self._index_path = index_path
        self._as_json = as_json
        self._wait = options.pop("wait")
        self._storage = Storage(*(options.pop(name) for name in Storage._fields))
        self._limits = options.pop("page_seconds"), options.pop("page_memory") * 1_000_000
        self._sync = {name: options.pop(name) for name in ("prune", "retry_failed", "passwords", "commit_pages")}
        self._fleet = _fleet(options.pop("ray"), options.pop("ray_encoders"))
        self._encoder_options = options
        self._progress = ProgressLine()
        self._rests = False  # nothing is being done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster, unless there is no time for it: it sees the end of this process."""
        if self._fleet is not None and kind is not KeyboardInterrupt:
            self._fleet.close()

    def show_plan(self) -> None:
        """Print what would be done; this loads no model and writes nothing."""
        from colret.folders import find_documents
        from colret.planning import make_plan, passed_reasons
        from colret.store import PageStore

        found = find_documents(self._paths, self._index_path.options)
        _refuse_nothing(found, self._index_path)
        store = open_store(self._index_path) if PageStore.exists(self._index_path) else None
        plan = make_plan(
            found,
            store.documents() if store else [],
            retry_failed=self._sync["retry_failed"],
            retry=passed_reasons(passwords=bool(self._sync["passwords"])),
            prune=self._sync["prune"],
        )
        print_plan(plan, prune=self._sync["prune"], as_json=self._as_json)

    def sync_once(self) -> IngestReport:
        """Bring the index up to date, and print what was done."""
        from colret.folders import find_documents

        started = time.monotonic()
        found = find_documents(self._paths, self._index_path.options)
        _refuse_nothing(found, self._index_path)
        sync, store = self._open()
        fresh = [found]  # after a wait it is out of date
        report = when_free(lambda: sync(fresh.pop() if fresh else self._paths), self._wait)
        self._print(report, store, started)
        return report

    def watch(self) -> None:
        """Bring the index up to date whenever the folders change, until the process is told to stop."""
        from colret.planning import passed_reasons
        from colret.watching import follow

        folders = []
        for path in self._paths:
            if not isinstance(path, Path):
                raise click.UsageError(f"--watch follows folders of this machine; run it without again for {path}")
            if not path.is_dir():
                raise click.UsageError(f"--watch follows folders, and {path} is none")
            folders.append(path)
        started = time.monotonic()
        sync, store = self._open()
        last: IngestReport | None = None

        def sync_now() -> bool:
            nonlocal last
            self._rests = False
            report = when_free(lambda: sync(self._paths), math.inf)
            self._rests = True  # before that is told, as whoever reads it may stop the process
            if last is None:
                self._print(report, store, started)
            else:
                print_sync(report, last, f"{datetime.now():%H:%M:%S}", as_json=self._as_json)
            last = report
            # Once was asked for, not at each change; and no password is new.
            self._sync |= {"retry_failed": False, "retry": passed_reasons(passwords=False)}
            return any(item.reason == "changed_while_read" for item in report.skipped)

        follow(folders, sync_now, ignore=self._index_path.folder)

    def last_words(self) -> str | None:
        """Return what is said when the process is told to stop; None while it watches and has nothing to do."""
        self._progress.clear()
        if self._rests:
            return None
        last = self._progress.last
        if not last or not last.n_documents_in:
            return "stopped; the index is consistent, the same command goes on"
        pages, documents = count(last.n_pages_in, "page"), count(last.n_documents_in, "document")
        return f"stopped: {pages} of {documents} are in; the same command goes on"

    def _open(self) -> tuple[Callable[[tuple[Place, ...] | Found], IngestReport], PageStore]:
        """Return what brings the index up to date with paths, or what was found there, and the index."""
        from colret.ingest import ingest as run
        from colret.readers import DEFAULT_LIMITS

        seconds, n_bytes = self._limits
        limits = DEFAULT_LIMITS._replace(seconds=seconds, bytes=n_bytes)
        fleet = self._fleet
        load = fleet.load_encoder if fleet else None
        store, encoder = open_or_create(self._index_path, self._storage, self._encoder_options, self._wait, load)

        def sync(paths: tuple[Place, ...] | Found) -> IngestReport:
            self._progress = ProgressLine()
            try:
                return run(paths, store, encoder, limits=limits, engine=fleet, on_progress=self._progress, **self._sync)
            finally:
                self._progress.clear()

        return sync, store

    def _print(self, report: IngestReport, store: PageStore, started: float) -> None:
        from colret.search import fresh

        seconds, info = time.monotonic() - started, fresh(store, store.info)  # another ingest may have begun
        print_report(report, info, self._index_path, seconds, prune=self._sync["prune"], as_json=self._as_json)


def _fleet(address: str | None, n_encoders: int | None) -> Fleet | None:
    """Return the cluster that ``--ray`` asks for; nothing is started yet."""
    if address is None:
        if n_encoders is not None:
            raise click.UsageError("--ray-encoders needs --ray")
        return None
    from colret.fleet import Fleet

    return Fleet(None if address == "local" else address, n_encoders=n_encoders)


def _refuse_nothing(found: Found, index_path: Location) -> None:
    """Refuse paths without a single document, now or known, before a model is loaded or an index made."""
    from colret.errors import DocumentError
    from colret.folders import is_below
    from colret.places import place_of
    from colret.store import PageStore

    if found.sources:
        return
    records = open_store(index_path).documents() if PageStore.exists(index_path) else []
    known = (place_of(file.path) for record in records for file in record.files)
    if any(is_below(path, found.roots) for path in known):
        return
    for error in (*found.problems, *found.unusable.values()):
        raise error
    raise DocumentError(found.roots[0], "no documents in it", "name a folder that holds some", reason="missing")
