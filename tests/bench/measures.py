"""What is measured: /filter against its floor, quiet and beside load, and decisions a second.

Calls and their floors take turns within a round (A B A B), so that whatever else the machine does hits both. Every
round ends as it began: what was proposed is bound, confirmed by the API server's watch, and deleted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from statistics import fmean

from tests.bench.client import Binders, Cluster, Connection, Decider, expect_no_error, proposed
from tests.bench.report import Decisions, Filter
from tests.bench.world import Requests, Scale

EVENTS_PER_SECOND, BINDS_PER_SECOND = 500, 100
#: Seconds between two calls: kube-scheduler has work of its own for each pod.
_THINK = 0.002
#: Pods that fit nowhere and are tried again and again, of three different sizes.
_REFUSED = 8
#: Nodes offered for the pods that are bound as load: what kube-scheduler itself takes as its sample of 5,000.
_SAMPLE = 500


class Bench:
    """A running extender and a running API server, measured from this process."""

    def __init__(self, extender: str, api_server: str, scale: Scale, say: Callable[[str], None]) -> None:
        self._scale = scale
        self._say = say
        self._extender = extender
        self._caller = Connection(extender)
        self._binders = Binders(extender)
        self._cluster = Cluster(api_server, extender)
        self._sample = Requests(scale, min(_SAMPLE, scale.nodes))
        self._longest_round: dict[Requests, float] = {}
        self._serial = count()
        self._event_rate = 0.0
        self._bind_rates: list[float] = []

    def close(self) -> None:
        self._binders.close()
        self._caller.close()
        self._cluster.close()

    def run(self) -> tuple[list[Filter], list[Decisions]]:
        offers = [Requests(self._scale, size) for size in self._scale.names]
        offers.append(Requests(self._scale, self._scale.items, items=True))
        self._round(offers[0])  # warms up
        filters = [each for offer in offers for each in self._filter(offer)]
        with self._churn():
            filters += [each for offer in offers for each in self._filter(offer, load=True)]
        return filters, [self._decisions(offer) for offer in (self._sample, offers[-2])]

    @contextmanager
    def pods(self, number: int) -> Iterator[list[str]]:
        """So many pods that fit, by name; at the end all of them are gone."""
        names = self._names("placed", number)
        self._cluster.make(names)
        yield names
        self._cluster.clear()

    def rates(self) -> tuple[float, float]:
        """Events and binds a second that the load really had."""
        return self._event_rate, fmean(self._bind_rates)

    # -- filter against the floor ---------------------------------------------------------------------------------

    def _filter(self, offer: Requests, *, load: bool = False) -> Iterator[Filter]:
        results = {
            kind: Filter(kind=kind, offered=offer.count, items=offer.items, load=load) for kind in ("placed", "refused")
        }
        self._say(f"{results['placed'].offer}{', beside load' if load else ''}")
        for _ in range(self._scale.rounds_beside_load if load else self._scale.rounds):
            taken = self._round(offer, load=load)
            for kind, result in results.items():
                result.rounds.append((taken[kind], taken[f"floor of {kind}"]))
        yield from results.values()

    def _round(self, offer: Requests, *, load: bool = False) -> dict[str, list[float]]:
        """Milliseconds of each call, by kind."""
        placed = self._names("placed", self._scale.calls)
        extra = self._names("load", self._load_of_a_round(offer) if load else 0)
        refused = self._names("refused", _REFUSED)
        self._cluster.make(placed + extra + refused)
        places = {name: self._place(name) for name in extra}
        taken: dict[str, list[float]] = {}
        nodes = {}
        began = time.monotonic()
        with self._binding(places):
            for turn, name in enumerate(placed):
                nodes[name] = self._time(taken, "placed", "/filter", offer.body(name))
                self._time(taken, "floor of placed", "/floor/placed", offer.body(name))
                body = offer.body(refused[turn % _REFUSED])
                self._time(taken, "refused", "/filter", body)
                self._time(taken, "floor of refused", "/floor/refused", body)
        self._longest_round[offer] = max(self._longest_round.get(offer, 0.0), time.monotonic() - began)
        for name, answer in nodes.items():
            self._binders.bind(name, proposed(answer))
        self._binders.wait()
        self._cluster.clear()
        return taken

    def _time(self, taken: dict[str, list[float]], kind: str, path: str, body: bytes) -> bytes:
        time.sleep(_THINK)
        began = time.perf_counter()
        answer = self._caller.call("POST", path, body)
        taken.setdefault(kind, []).append((time.perf_counter() - began) * 1e3)
        expect_no_error(answer)
        return answer

    def _names(self, kind: str, number: int) -> list[str]:
        return [f"{kind}-{next(self._serial)}" for _ in range(number)]

    def _place(self, name: str) -> str:
        return proposed(self._caller.call("POST", "/filter", self._sample.body(name)))

    # -- load -----------------------------------------------------------------------------------------------------

    def _load_of_a_round(self, offer: Requests) -> int:
        """More binds than a round will last for: load makes it longer."""
        return int(2 * self._longest_round[offer] * BINDS_PER_SECOND) + 10

    @contextmanager
    def _churn(self) -> Iterator[None]:
        before, began = self._cluster.churn(EVENTS_PER_SECOND), time.monotonic()
        yield
        seconds = time.monotonic() - began
        self._event_rate = (self._cluster.churn(0) - before) / seconds

    @contextmanager
    def _binding(self, places: dict[str, str]) -> Iterator[None]:
        """Meanwhile these pods, which are proposed, are bound at the load's rate; what is left is bound at the end."""
        if not places:
            yield
            return
        left = list(places.items())
        stop = threading.Event()
        pacer = threading.Thread(target=self._pace, args=(left, stop), daemon=True)
        began = time.monotonic()
        pacer.start()
        try:
            yield
        finally:
            stop.set()
            pacer.join()
        self._bind_rates.append((len(places) - len(left)) / (time.monotonic() - began))
        for each in left:
            self._binders.bind(*each)

    def _pace(self, left: list[tuple[str, str]], stop: threading.Event) -> None:
        due = time.monotonic()
        while left and not stop.wait(max(0.0, due - time.monotonic())):
            due += 1 / BINDS_PER_SECOND
            self._binders.bind(*left.pop())

    # -- decisions ------------------------------------------------------------------------------------------------

    def _decisions(self, offer: Requests) -> Decisions:
        """One filter after the other, each bind beside them, until all are bound; nothing is waited for in between."""
        self._say(f"decisions a second, {offer.count} NodeNames")
        result = Decisions(offered=offer.count)
        for _ in range(self._scale.repeats):
            names = self._names("placed", self._scale.decisions)
            bodies = [offer.body(name) for name in names]  # what the caller does itself shares the cores
            self._cluster.make(names)
            # Connected now, since the extender closes connections that are idle for long.
            with closing(Decider(self._extender)) as decider:
                began = time.monotonic()
                decider.decide(names, bodies)
                result.rates.append(len(names) / (time.monotonic() - began))
            self._cluster.clear()
        return result
