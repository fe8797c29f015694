"""The API server of the simulation, as Waggle's own client code sees it: the same calls, in one thread, on one clock.

    Reflector, Comparer, Elector, committer --exchange--> draw a fault --> the embedded API server's verbs --> answer

`SimApi` stands where `extender.kube.client.api.ApiServer` stands. Which operation a request is, and what may go wrong
with it, says the table that the suite on real sockets goes by (`tests.faults.table`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from types import TracebackType
from typing import Any

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.errors import ApiError as Refusal
from extender.embedded.apiserver.faults import GARBAGE, Plan
from extender.embedded.apiserver.faults import Fault as Rule
from extender.embedded.apiserver.objects import encode
from extender.embedded.apiserver.requests import Answer, Request, answer
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.watch import Watcher, WatchOptions, error_line
from extender.kube.client.api import ApiServer, Interrupted, Response, Unreachable
from extender.kube.client.api import Request as Asked
from extender.kube.client.transport import Endpoint
from tests.faults.table import LATE, Fault, Operation, Pair, operation_of, simulated

#: What can go wrong with the calls of kube-scheduler, which are not the API server's to spoil.
CALLS: Mapping[str, tuple[str, ...]] = {"filter": ("refused", "answer lost"), "bind call": ("answer lost",)}
#: The most that a client waits for an answer, seconds: nothing else of its replica moves meanwhile.
LONGEST = 2.5
#: An operation and a fault by their names.
Name = tuple[str, str]
#: What has to go wrong now and then for an operation to happen at all.
CAUSES: Mapping[str, Name] = {
    "read pod": ("bind", "dropped before"),
    "nudge": ("bind", "403 Forbidden"),
    "event": ("bind", "403 Forbidden"),
    "count event": ("bind", "403 Forbidden"),
    "heal node": ("watch nodes", "event swallowed"),
    "heal pod": ("watch pods", "event swallowed"),
    "read lease": ("renew lease", "409 Conflict"),
}


def every_pair() -> list[Name]:
    """Every pair of the table, and kube-scheduler's calls."""
    table = [(pair.operation.name, pair.fault.name) for pair in simulated()]
    return table + [(call, fault) for call, faults in CALLS.items() for fault in faults]


class Draws:
    """Draws what goes wrong, and counts it. `rate` is how often something does; `only` one operation and fault."""

    def __init__(self, rng: Random, rate: float, only: Name | None = None) -> None:
        self.rng = rng
        self.rate = rate
        self.only = only
        self.counts: Counter[Name] = Counter()
        self._faults: dict[str, list[Fault]] = {}
        for pair in simulated():
            self._faults.setdefault(pair.operation.name, []).append(pair.fault)

    def strikes(self, operation: Operation) -> Fault | None:
        """The fault that strikes a call of Waggle's."""
        by_name = {fault.name: fault for fault in self._faults[operation.name]}
        name = self._draw(operation.name, list(by_name))
        return by_name.get(name)

    def call(self, name: str) -> str:
        """The fault that strikes a call of kube-scheduler, "" if none does."""
        return self._draw(name, CALLS[name])

    def _draw(self, operation: str, faults: Any) -> str:
        if self.rng.random() >= self.rate:
            return ""
        if self.only is None:
            fault = self.rng.choice(faults)
        else:
            fault = dict((CAUSES.get(self.only[0], self.only), self.only)).get(operation, "")
        self.counts[operation, fault] += bool(fault)
        return fault


class SimApi(ApiServer):
    """The API server for one part of Waggle (`by`). `later` does something after some seconds, `sleep` lets them pass.

    `lateness` is how long a write whose client has given up may yet take to arrive.
    """

    def __init__(
        self,
        cluster: Cluster,
        draws: Draws,
        by: str,
        *,
        sleep: Callable[[float], None],
        later: Callable[[float, Callable[[], object]], None],
        lateness: Callable[[], float],
        cut: Callable[[], bool],
    ) -> None:
        super().__init__(Endpoint("simulated", 1), timeout=2.5)
        self.cluster, self.draws, self.by = cluster, draws, by
        self.rng = draws.rng
        self.sleep, self.later, self.lateness, self.cut = sleep, later, lateness, cut
        #: The next page of a list that was begun will find its token expired.
        self.expiring = False
        self.past: list[bytes] = []

    def exchange(
        self,
        request: Asked,
        *,
        timeout: float | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> Any:
        return SimExchange(self, request, min(timeout or self.timeout, LONGEST), may_send)


class SimExchange:
    """One request, done on entering."""

    def __init__(self, api: SimApi, asked: Asked, patience: float, may_send: Callable[[], bool]) -> None:
        self._api = api
        self._patience = patience
        self._may_send = may_send
        query = {name: str(value) for name, value in (asked.query or {}).items()}
        target = asked.path + ("?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else "")
        self._request = Request(
            asked.method, asked.path, target, query, asked.content_type, asked.body or b"", agent="waggle"
        )
        self._response = Response(0)
        self._lines: list[bytes] = []
        #: How the answer ends: "", "drop" or "stall".
        self._ending = ""

    # -- what Waggle's client code does with it -------------------------------------------------------------------

    def __enter__(self) -> SimExchange:
        if not self._may_send():
            raise Unreachable("not permitted any more, nothing was sent")
        if self._api.cut():
            self._end("stall" if self._api.rng.random() < 0.5 else "drop")
        self._perform()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is kept."""

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    def read(self) -> bytes:
        self._end(self._ending)
        return self._response.body

    def response(self) -> Response:
        return Response(self.status, self.read(), self.headers)

    def __iter__(self) -> Iterator[bytes]:
        body = b"".join(self._lines)
        middle = self._api.rng.randint(0, len(body))
        yield from filter(None, (body[:middle], body[middle:]))
        self._end(self._ending)

    def extend(self, seconds: float) -> None:
        """Nothing comes late here: it comes, or never."""

    def interrupt(self) -> None:
        """Nobody waits in another thread."""

    def _end(self, ending: str) -> None:
        if ending == "stall":
            self._api.sleep(self._patience)
        if ending:
            raise Interrupted(f"simulated {ending}", timed_out=ending == "stall")

    # -- what the API server does ---------------------------------------------------------------------------------

    def _perform(self) -> None:
        api = self._api
        methods = self._request.methods(api.cluster.table)
        operation = operation_of(methods, self._request.full_path, api.by)
        if "continue" in self._request.query and api.expiring:
            api.expiring = False
            self._response = _refused(Rule(action="status", status=410))
            return
        rules = self._rules(operation)
        action = rules[0].action if rules else ""
        if action == "status":
            self._response = _refused(rules[0])
        elif action == "drop-before":
            self._end("drop")
        elif action == "delay":
            self._delay(rules[0].seconds, Plan(rules))
        else:
            self._answer(Plan(rules), action)

    def _rules(self, operation: Operation) -> tuple[Rule, ...]:
        fault = self._api.draws.strikes(operation)
        if fault is None:
            return ()
        given = dict(fault.rule)
        if given.pop("path", ""):  # the page token: this page is short, and the next one finds its token expired
            self._api.expiring = True
            return (Rule(action="page", after=1),)
        if "after" in given:
            given["after"] = self._api.rng.randint(1, 3)
        return (Rule(**given),)

    def _delay(self, seconds: float, plan: Plan) -> None:
        if seconds < LATE:
            self._api.sleep(seconds)
            self._answer(plan, "")
            return
        self._api.later(self._api.lateness(), lambda: self._answer(plan, ""))
        self._end("stall")

    def _answer(self, plan: Plan, action: str) -> None:
        """What is done and said; `action` is what goes wrong with the answer."""
        cluster = self._api.cluster
        target = cluster.table.resolve(self._request.path)
        assert target is not None
        try:
            result = self._done(target, plan)
        except Refusal as error:
            self._response = Response(error.code, encode(error.body))
        else:
            if isinstance(result, WatchOptions):
                self._watch(result, plan)
            else:
                self._response = Response(result.status, result.body, result.headers)
        if action == "garbage":
            self._response, self._lines = Response(200, GARBAGE), [GARBAGE]
        elif action in ("drop-after", "silence"):
            self._end("stall" if action == "silence" else "drop")
        elif action == "cut":
            self._ending = "drop"

    def _done(self, target: Target, plan: Plan) -> Answer | WatchOptions:
        """What is stale is an older state of an object, and never that it does not exist: no API server says that."""
        try:
            return answer(self._api.cluster, target, self._request, behind=plan.behind, page=plan.page)
        except Refusal:
            if not plan.behind:
                raise
            return answer(self._api.cluster, target, self._request)

    def _watch(self, options: WatchOptions, plan: Plan) -> None:
        """Some of what is to be told, perhaps a bookmark; then the watch ends, and Waggle opens the next."""
        watcher, store, faults = Watcher(options), self._api.cluster.store, plan.on_watch()
        self._response = Response(200)
        try:
            watcher.start(store.collection(options.resource), store.revision)
        except Refusal as error:
            self._lines = [error_line(error)]
            return
        pending = list(watcher._pending)
        lines = pending[: self._api.rng.randint(1, 6)]
        spoilt = faults.spoil(lines)
        if faults.ending in ("", "close") and len(lines) == len(pending) and self._api.rng.random() < 0.3:
            spoilt.append(_bookmark(options, store.revision))
        if plan.has("watch-duplicate"):
            spoilt += self._api.rng.sample(self._api.past, min(1, len(self._api.past)))
        self._api.past = [*self._api.past, *lines][-20:]
        self._lines = spoilt + faults.farewell()
        self._ending = faults.ending if faults.ending in ("drop", "stall") else ""


def _bookmark(options: WatchOptions, revision: int) -> bytes:
    watcher = Watcher(options)
    watcher.bookmark(revision)
    return watcher._pending[0]


def _refused(rule: Rule) -> Response:
    refusal = Plan((rule,)).refusal()
    assert refusal is not None
    error, headers = refusal
    return Response(error.code, encode(error.body), {name.lower(): value for name, value in headers.items()})


__all__ = ["CALLS", "Draws", "Name", "Pair", "SimApi", "every_pair"]
