"""Ctrl-C and SIGTERM: a process that may be doing anything ends soon, in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, signal, sys, threading, time
from colret_cli.stopping import stoppable

def python():
    time.sleep(300)

def compiled():  # without a look at signals
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)

def cleaning_up():
    try:
        time.sleep(300)
    finally:
        time.sleep(300)

def beside_a_busy_thread():  # which an orderly end would wait for
    threading.Thread(target=compiled).start()
    time.sleep(300)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
with stoppable(lambda: WORDS):
    print("unflushed", end="")
    threading.Timer(0.5, lambda: print("ready", file=sys.stderr, flush=True)).start()
    globals()[sys.argv[1]]()
"""


def stopped(work: str, number: signal.Signals, words: str | None = "stopped: 3 pages are in") -> tuple[int, str, str]:
    """Return how a process ends that is told to stop, and what it says; one that does not end fails."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = PROGRAM.replace("WORDS", repr(words))
    process = subprocess.Popen(
        [sys.executable, "-c", program, work],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("work", ["python", "compiled", "cleaning_up", "beside_a_busy_thread"])
def test_ctrl_c_ends_whatever_is_under_way_in_one_line(work: str) -> None:
    assert stopped(work, signal.SIGINT) == (130, "unflushed", "colret: stopped: 3 pages are in\n")


def test_sigterm_does_the_same() -> None:
    assert stopped("compiled", signal.SIGTERM) == (143, "unflushed", "colret: stopped: 3 pages are in\n")


def test_with_nothing_to_say_it_is_done() -> None:
    assert stopped("python", signal.SIGINT, None) == (0, "unflushed", "")


def test_handlers_are_put_back() -> None:
    from colret_cli.stopping import stoppable

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stoppable(lambda: None):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
