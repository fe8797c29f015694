"""What a caller feels of a recording, in one server: it records some calls, not the next ones, and so on.

Two servers differ by more than a recording costs: in where their memory lies, and in what the neighbours do meanwhile.
So here it is one process over HTTP, and recording is switched after each dozen of calls, in random order, with a third
kind of turn that does not record either: how far `aa` is from 0 is what this measurement cannot tell. The first calls
of a turn do not count.

Calls come one after the other, either with pauses, as those of a kube-scheduler, which has work of its own for each
pod; or at once: then whatever the server does after an answer delays the next one, too.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import count, islice
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from tests.bench.client import Connection, Process, expect_no_error
from tests.bench.record_served import OFFERS, Offer, Served, requests
from tests.bench.threads import cpu_by_thread

_US = 1e6
#: What a kube-scheduler sends of a small cluster, and of a large one unless it is told otherwise.
_OFFERS = (OFFERS[0], OFFERS[3])
#: Seconds between two calls.
_THINKS = (0.002, 0.0)
_KINDS = ("without", "aa", "recorded")
#: Calls in a turn, those of them that do not count, and turns of each kind in a round.
_CALLS, _UNCOUNTED, _TURNS = 12, 2, 25
_SAMPLES = 200


class Turn(NamedTuple):
    """Seconds of each call, and CPU seconds of the event loop's thread for a call, on the mean."""

    calls: list[float]
    cpu: float


def compare(rounds: int, nodes: int) -> None:
    """Print two rows for each offer and pause: how much more a call takes if it is recorded, and the same of aa. In
    brackets is where the difference lies in 95 of 100 samples."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        api_server = stack.enter_context(Process("tests.bench.cluster", str(nodes)))
        server = stack.enter_context(Process("tests.bench.server", api_server.url, str(Path(folder) / "log")))
        measured = _Measured(stack, server, api_server.url, nodes)
        for think in _THINKS:
            between = f"{think * 1e3:.0f} ms between calls" if think else "no pause between calls"
            print(f"\n{between:<24} {'p50 without':>12} {'more':>24}    {'loop thread':>12} {'more':>24}")
            for offer in _OFFERS:
                measured.round(offer, think)
                _show(offer, [turns for _ in range(rounds) for turns in measured.round(offer, think)])


class _Measured:
    def __init__(self, stack: ExitStack, server: Process, api_server: str, nodes: int) -> None:
        self._pid, self._nodes, self._serial, self._draws = server.pid, nodes, count(), random.Random(5)
        self._caller = stack.enter_context(closing(Connection(server.url)))
        self._cluster = stack.enter_context(closing(Connection(api_server)))
        self._served = stack.enter_context(closing(Served(server)))

    def round(self, offer: Offer, think: float) -> list[dict[str, Turn]]:
        """Turns of all kinds in random order, often; then their pods are deleted."""
        self._record(False)
        found, calls = [], _TURNS * len(_KINDS) * _CALLS
        with requests(offer, calls, self._serial, self._nodes, self._cluster, [self._served]) as all_bodies:
            bodies = iter(all_bodies)
            for _ in range(_TURNS):
                order = self._draws.sample(_KINDS, len(_KINDS))
                found.append({each: self._turn(each, [*islice(bodies, _CALLS)], think) for each in order})
        return found

    def _record(self, is_on: bool) -> None:
        self._caller.call("POST", "/floor/record", b"on" if is_on else b"off")

    def _turn(self, kind: str, bodies: Sequence[bytes], think: float) -> Turn:
        self._record(kind == "recorded")
        took, before = [], 0.0
        for number, body in enumerate(bodies):
            if number == _UNCOUNTED:
                before = self._used()
            if think:
                time.sleep(think)
            began = time.perf_counter()
            answer = self._caller.call("POST", "/filter", body)
            took.append(time.perf_counter() - began)
            expect_no_error(answer)
        if think:
            time.sleep(think)
        return Turn(took[_UNCOUNTED:], (self._used() - before) / (len(bodies) - _UNCOUNTED))

    def _used(self) -> float:
        return cpu_by_thread(self._pid)[self._pid]


def _show(offer: Offer, sets: list[dict[str, Turn]]) -> None:
    draws = random.Random(1)
    samples = [sets, *(draws.choices(sets, k=len(sets)) for _ in range(_SAMPLES))]
    for kind in _KINDS[1:]:
        cells = ""
        for figure in (_p50, _cpu):
            more = [figure(each, kind) / figure(each, _KINDS[0]) - 1 for each in samples]
            edges = quantiles(more, n=40)
            low, high = 100 * edges[0], 100 * edges[-1]
            plain = figure(sets, _KINDS[0]) * _US
            cells += f" {plain:9.0f} µs {100 * more[0]:+7.1f} % [{low:+5.1f} to {high:+5.1f}]   "
        print(f"{offer.title if kind == 'recorded' else '  aa':<24}{cells}", flush=True)


def _p50(sets: Sequence[dict[str, Turn]], kind: str) -> float:
    return median(took for each in sets for took in each[kind].calls)


def _cpu(sets: Sequence[dict[str, Turn]], kind: str) -> float:
    return median(each[kind].cpu for each in sets)
