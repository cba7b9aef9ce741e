"""A process that reads documents, as its owner sees it: one life, from its start to its death."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple

import psutil

from colret.errors import ColretError
from colret.readers.events import Limits
from colret.readers.messages import Answer, Job, JobDone, Setup, receive, send
from colret.readers.meter import Meter

Excess = Literal["render_timeout", "render_memory"]


class Death(NamedTuple):
    """What a process died of."""

    excess: Excess | None  # of which it died, or for which it was killed
    status: int  # of its exit, or minus the signal


_START_SECONDS = 120.0  # to import PDFium and NumPy on a busy machine
_PATIENCE = 5  # times as long by the clock: the machine is busy, or the file is far away
_OUT_OF_MEMORY: Final = -signal.SIGABRT  # how PDFium ends where memory is refused
_THREADS: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class ReaderProcess:
    """A process of ``readers.child``. One thread asks it; others may ``check`` and ``kill`` it.

    Args:
        limits: Of one page.
        passwords: To try on documents that need one.
        folder: For its temporary files: those of a process that is killed stay there.

    Raises:
        ColretError: It cannot be started.
    """

    def __init__(self, limits: Limits, passwords: tuple[str, ...], folder: Path) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._n_answers = 0
        self._seconds: float | None = _START_SECONDS  # that its next answer may take, if it owes one
        self._killed: tuple[int, Excess | None] | None = None  # after how many answers, and for what
        try:
            self._process = _spawn(folder)
        except OSError as error:
            raise _does_not_start(str(error), "free some memory, or end other programs, and run it again") from error
        self._meter = Meter(self._process.pid)
        self._requests, self._answers, self._complaints = _pipes(self._process)
        with contextlib.suppress(EOFError):
            self._send(Setup(limits.seconds, limits.conversion_seconds, limits.bytes, passwords, folder))

    def wait_until_ready(self) -> None:
        """Wait for the first message.

        Raises:
            ColretError: It died before.
        """
        try:
            self._receive()
        except EOFError as error:
            self.kill()
            lines = self._complaints.read().decode(errors="replace").split("\n")
            cause = next((line for line in reversed(lines) if line.strip()), "it died")
            raise _does_not_start(cause, "install colret again") from error
        self._expect(None)

    def ask(self, job: Job) -> Iterator[Answer]:
        """Yield the answers to ``job``, the last a ``JobDone``.

        Raises:
            EOFError: The process died; ``bury`` it.
        """
        self._expect(job.opening_seconds)
        self._send(job)
        while not isinstance(answer := self._receive(), JobDone):
            self._expect(self._limits.seconds)
            yield answer
        self._expect(None)
        yield answer

    def check(self, seconds: float) -> None:
        """Kill the process if it exceeds its limits; to be called every few hundredths of a second.

        Args:
            seconds: Since the last check.
        """
        with self._lock:
            if self._seconds is None or self._killed:
                return
            usage = self._meter.read(seconds)
            # By processor time, what a page costs does not depend on what else the machine does.
            if usage.cpu > self._seconds or usage.waited > _PATIENCE * self._seconds:
                self._kill("render_timeout")
            elif self._n_answers and usage.bytes > self._limits.bytes:
                self._kill("render_memory")

    def kill(self) -> None:
        """End the process and its children, whatever they are at."""
        with self._lock:
            self._kill(None)

    @property
    def usable(self) -> bool:
        """Whether it can be asked: it lives, and does not hold so much that an innocent page would be blamed."""
        swollen = self._meter.resident() > self._limits.bytes // 2
        return self._killed is None and self._process.poll() is None and not swollen

    def bury(self) -> Death | None:
        """Free what is left of the process; return what it died of, if that is the fault of the page it was at."""
        killed = self._killed
        self.kill()
        status = self._process.wait()
        for stream in (self._requests, self._answers, self._complaints):
            with contextlib.suppress(OSError):  # what was still to be sent
                stream.close()
        if killed is None:
            return Death("render_memory" if status == _OUT_OF_MEMORY else None, status)
        n_answers, excess = killed
        late = n_answers < self._n_answers  # the answer was on its way as the process was killed for its lack
        return None if excess is None or late else Death(excess, status)

    def _kill(self, excess: Excess | None) -> None:
        if self._killed is None:
            self._killed = self._n_answers, excess
        _kill_tree(self._process)

    def _expect(self, seconds: float | None) -> None:
        with self._lock:
            self._seconds = seconds
            self._meter.reset()

    def _send(self, message: Setup | Job) -> None:
        try:
            send(self._requests, message)
        except (OSError, ValueError) as error:
            raise EOFError from error

    def _receive(self) -> Answer:
        answer: Answer = receive(self._answers)
        with self._lock:
            self._n_answers += 1
            self._seconds = None
        return answer


def _spawn(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process where a terminal's Ctrl-C does not reach it, with this one's modules to import."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    variables = {**os.environ, **_THREADS, "PYTHONPATH": paths, "TMPDIR": str(folder), "TEMP": str(folder)}
    return subprocess.Popen(
        # -P: the folder one happens to be in is no place to import from.
        [sys.executable, "-P", "-m", "colret.readers.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started, those in groups of their own too."""
    if process.returncode is not None:
        return
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _does_not_start(cause: str, remedy: str) -> ColretError:
    return ColretError(sys.executable, f"the process that reads documents does not start ({cause})", remedy)
