"""Searches of many clients share calls of the index, and nobody's answer depends on whose it shares with.

``python -m tests.test_service_batching INDEX FOLDER SECONDS`` ingests one document after another meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from colret.ingest import ingest
from colret.service.batching import Batcher, BusyError
from colret.service.findings import Found, How
from colret.service.library import Library
from colret.service.limits import Limits
from colret.store import PageStore
from tests.folders import WORDS, numpy_encoder, pdf, sentence
from tests.processes import ROOT, environment
from tests.services import API, PATIENCE, client, serving

CLIENTS = 64
SECONDS, LONG_SECONDS = 3, 60
SOON = 10.0


class Doubling:
    """Doubles numbers, slowly enough for others to come, and remembers what it was asked together."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], int]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def answer(self, texts: Sequence[str], how: int) -> list[int]:
        """Return them, when it may."""
        self.calls.append((tuple(texts), how))
        assert self.may_go_on.wait(SOON)
        return [int(text) * how for text in texts]


def batcher(library: Doubling, *, most: int = 64, length: int = 256) -> Batcher[int, int]:
    return Batcher(library.answer, most=most, most_characters=100, gather_seconds=0.02, length=length)


def test_what_is_asked_alike_at_the_same_time_is_asked_together() -> None:
    library = Doubling()
    asked = batcher(library)

    async def ask() -> list[int]:
        return await asyncio.gather(*(asked.ask(str(i), 2 + i % 2) for i in range(10)))

    assert asyncio.run(ask()) == [i * (2 + i % 2) for i in range(10)]
    assert library.calls == [(("0", "2", "4", "6", "8"), 2), (("1", "3", "5", "7", "9"), 3)]
    asked.close()


def test_no_call_has_more_than_it_may() -> None:
    library = Doubling()
    asked = batcher(library, most=4)

    async def ask() -> list[int]:
        return await asyncio.gather(*(asked.ask(str(i), 1) for i in range(10)))

    assert asyncio.run(ask()) == list(range(10))
    assert [len(texts) for texts, _ in library.calls] == [4, 4, 2]

    async def ask_long() -> list[int]:
        return await asyncio.gather(*(asked.ask(f"{i:060}", 1) for i in range(4)))

    assert asyncio.run(ask_long()) == list(range(4))
    assert [len(texts) for texts, _ in library.calls[3:]] == [2, 2]  # of 100 characters, about
    asked.close()


def test_a_failure_is_that_of_whoever_asked_for_it() -> None:
    asked = batcher(Doubling())

    async def ask() -> list[int | BaseException]:
        waiting = [asked.ask("1", 1), asked.ask("no number", 1), asked.ask("3", 1), asked.call(lambda: 4)]
        return await asyncio.gather(*waiting, return_exceptions=True)

    one, failure, three, four = asyncio.run(ask())
    assert (one, three, four) == (1, 3, 4)
    assert isinstance(failure, ValueError)
    asked.close()


def test_a_failure_of_the_index_is_told_to_all_at_once() -> None:
    calls: list[int] = []

    def fail(texts: Sequence[str], how: int) -> list[int]:
        calls.append(len(texts))
        raise OSError("no answer")

    asked = Batcher(fail, most=64, most_characters=99, gather_seconds=0.05, length=64)

    async def ask() -> list[BaseException | int]:
        return await asyncio.gather(*(asked.ask(str(i), 1) for i in range(10)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(ask())] == ["no answer"] * 10
    assert calls == [10]
    asked.close()


def test_what_nobody_waits_for_is_not_asked_and_too_much_is_refused() -> None:
    library = Doubling()
    library.may_go_on.clear()
    asked = batcher(library, most=1, length=2)

    async def ask() -> int:
        first = asyncio.create_task(asked.ask("1", 1))
        while not library.calls:
            await asyncio.sleep(0.01)
        leaving, waiting = (asyncio.create_task(asked.ask(text, 1)) for text in ("2", "3"))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await asked.ask("4", 1)
        leaving.cancel()
        await asyncio.sleep(0)
        library.may_go_on.set()
        return await first + await waiting

    assert asyncio.run(ask()) == 4
    assert [texts for texts, _ in library.calls] == [("1",), ("3",)]
    asked.close()


def test_whoever_waits_at_the_end_is_told() -> None:
    library = Doubling()
    library.may_go_on.clear()
    asked = batcher(library, most=1)

    async def ask() -> tuple[int, BaseException | int]:
        first, waiting = (asyncio.create_task(asked.ask(text, 1)) for text in ("1", "2"))
        while not library.calls:
            await asyncio.sleep(0.01)
        closing = asyncio.get_running_loop().run_in_executor(None, asked.close)
        await asyncio.sleep(0.05)
        library.may_go_on.set()
        await closing
        return await first, (await asyncio.gather(waiting, return_exceptions=True))[0]

    first, waiting = asyncio.run(ask())
    assert first == 1
    assert isinstance(waiting, asyncio.CancelledError)


def test_answers_that_were_found_together_are_those_found_alone(example_index: Path) -> None:
    texts = [f"{first} {second} and benefits" for first in WORDS[:6] for second in ("health", "fitness")]
    asks: list[dict[str, str | int]] = [{"text": text, "k": 2 + i % 2} for i, text in enumerate(texts)]
    with serving(example_index, limits=Limits(gather_seconds=0.2)) as address, client(address) as asking:
        alone = [asking.get(f"{API}/search", params=params).json() for params in asks]
        before = batches(asking)
        with ThreadPoolExecutor(len(asks)) as pool:
            together = list(pool.map(lambda params: asking.get(f"{API}/search", params=params).json(), asks))
        assert together == alone
        assert batches(asking) - before < len(asks)


def batches(asking: httpx.Client) -> int:
    lines = asking.get("/metrics").text.splitlines()
    return int(next(float(line.split()[1]) for line in lines if line.startswith("colret_batch_queries_count ")))


def test_a_full_queue_and_a_slow_answer_are_told(example_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Library.search

    def slow(library: Library, texts: Sequence[str], how: How) -> list[Found]:
        time.sleep(1.0)
        return search(library, texts, how)

    monkeypatch.setattr(Library, "search", slow)
    limits = Limits(seconds=0.3, queue=2, gather_seconds=0.0)  # else one batch may take them all
    with serving(example_index, limits=limits) as address, client(address) as asking:
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda i: asking.get(f"{API}/search", params={"text": "x", "k": i + 1}), range(8)))
        codes = Counter(response.status_code for response in told)
        assert codes.keys() == {503, 504}
        assert all(response.headers["retry-after"] == "1" for response in told if response.status_code == 503)
        assert "with a longer --timeout" in next(response for response in told if response.status_code == 504).text
        assert asking.get("/healthz").status_code == 200


def test_counters_are_told_while_too_many_wait(example_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    search = Library.search

    def held_up(library: Library, texts: Sequence[str], how: How) -> list[Found]:
        begun.set()
        assert may_go_on.wait(PATIENCE)
        return search(library, texts, how)

    limits = Limits(queue=2, gather_seconds=0.0, seconds=PATIENCE)
    with serving(example_index, limits=limits) as address, client(address) as asking, ThreadPoolExecutor(3) as pool:
        assert "colret_index_pages 29.0" in asking.get("/metrics").text
        monkeypatch.setattr(Library, "search", held_up)

        def answered() -> int:
            while (response := asking.get(f"{API}/search?text=x")).status_code == 503:
                time.sleep(0.05)  # the counters, which have to look at the index too, came first
            return response.status_code

        told = [pool.submit(answered)]
        assert begun.wait(PATIENCE)
        told += [pool.submit(answered) for _ in range(2)]
        end = time.monotonic() + PATIENCE
        while "colret_queue_length 2.0" not in (counters := asking.get("/metrics").text):
            assert time.monotonic() < end
        assert "colret_index_pages 29.0" in counters  # as it was; what looks it up would have to wait too
        assert asking.get("/readyz").status_code == 503
        may_go_on.set()
        assert [each.result() for each in told] == [200] * 3


@pytest.mark.prove
def test_64_clients_are_answered_while_the_index_grows(proving: bool, tmp_path: Path) -> None:
    seconds = LONG_SECONDS if proving else SECONDS
    index, folder = tmp_path / "index", tmp_path / "documents"
    folder.mkdir()
    made = subprocess.run([*grower(index, folder, 0)], cwd=ROOT, env=environment(), check=True, capture_output=True)
    assert not made.stderr
    with serving(index, limits=Limits(seconds=PATIENCE)) as address, client(address) as asking:
        before = asking.get("/readyz").json()
        growing = subprocess.Popen(grower(index, folder, seconds), cwd=ROOT, env=environment(), stderr=subprocess.PIPE)
        told = asyncio.run(ask_for(address, seconds))
        _, complaint = growing.communicate(timeout=PATIENCE)
        assert growing.returncode == 0, complaint
        after = asking.get("/readyz").json()
        n_batches = batches(asking)
    times = sorted(took for _, took in told)
    codes = Counter(code for code, _ in told)
    p50, p95 = times[len(times) // 2], times[len(times) * 95 // 100]
    print(
        f"{CLIENTS} clients, {seconds} s: {len(told)} answers, {len(told) / seconds:.0f} a second, p50 {p50:.2f} s, "
        f"p95 {p95:.2f} s, errors {len(told) - codes[200]}; {n_batches} calls of the index, "
        f"which grew from {before['n_pages']} to {after['n_pages']} pages"
    )
    assert codes.keys() == {200}
    assert after["n_pages"] > before["n_pages"]
    assert n_batches < len(told)


async def ask_for(address: str, seconds: float) -> list[tuple[int, float]]:
    """Have clients ask one question after another; return the status and the seconds of each."""
    told = []
    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False, limits=limits) as asking:
        end = time.monotonic() + seconds

        async def keep_asking(seed: int) -> None:
            rng = random.Random(seed)
            while time.monotonic() < end:
                began = time.monotonic()
                response = await asking.get(
                    f"{API}/search", params={"text": sentence(rng, 5), "k": rng.choice([5, 10])}
                )
                told.append((response.status_code, time.monotonic() - began))

        await asyncio.gather(*(keep_asking(seed) for seed in range(CLIENTS)))
    return told


def grower(index: Path, folder: Path, seconds: float) -> list[str]:
    """Return the command of a process that ingests for so long, and one document at least."""
    return [sys.executable, "-m", "tests.test_service_batching", str(index), str(folder), str(seconds)]


def _main(index: Path, folder: Path, seconds: float) -> None:
    from colret.settings import settings_for

    new = not PageStore.exists(index)
    store = PageStore.create(index, settings_for(numpy_encoder().info)) if new else PageStore.open(index)
    end, rng = time.monotonic() + seconds, random.Random(seconds)
    while True:
        number = len(list(folder.iterdir()))
        (folder / f"{number}.pdf").write_bytes(pdf(*(sentence(rng) for _ in range(40 if new else 3))))
        ingest([folder], store, numpy_encoder())
        if time.monotonic() >= end:
            return
        time.sleep(0.2)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
