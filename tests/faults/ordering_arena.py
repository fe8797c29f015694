"""A server of start-up ordering on real sockets, in which pairs of operation and fault are tried one after the other.

    OrderingArena(Waggle, API server that binds pods without gates by itself)
      try_one(pair):  pods wait --> arm the fault --> make Waggle call --> it strikes --> none is released
                      --> what they wait for comes --> all at rest --> check

After each pair: every pod whose dependencies are met is released and runs, none was before they were, nothing is held
back, no write is in flight, and the engine's invariants hold.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from unittest import mock

from extender.embedded.apiserver.faults import Fault as Rule
from extender.ordering import releasing
from extender.server.ordering import sources
from extender.server.ordering.sources import Sources
from tests.faults.arena import TIMING
from tests.faults.noting import WAGGLE, Noting, armed
from tests.faults.table import Pair
from tests.support.apiserver.api import eventually
from tests.support.cluster.ordering_world import OrderingWorld, definition, ordering_world

#: APIs of which one is drawn for each pair: the objects that are there, and one that nobody serves.
_SERVED = {
    "jobs": "/apis/batch/v1/jobs",
    "deployments": "/apis/apps/v1/deployments",
    "jobsets": "/apis/jobset[.]x-k8s[.]io/v1alpha2/jobsets",
}
_NOT_SERVED = "/apis/batch[.]volcano[.]sh/v1alpha1/jobs"
_TIMEOUT = 0.5
#: Seconds in which a watch should show what was written; then it is read.
_PATIENCE = 0.4
_LOST = ("event swallowed", "event late")
_POD = {"containers": [{"name": "main", "image": "main:1"}]}


class OrderingArena:
    """One world. `chance` decides how often a fault strikes, in which event of a watch, and of which kind."""

    def __init__(self, w: OrderingWorld, chance: random.Random) -> None:
        self.w = w
        self.chance = chance
        self.survived: Counter[tuple[str, str]] = Counter()
        assert isinstance(w.cluster.faults, Noting)
        self._faults = w.cluster.faults
        self._rule: Rule | None = None
        self._turn = 0
        #: The kind that the pair at hand is about.
        self._plural = "jobs"
        self._provoke: dict[str, Callable[[], None]] = {
            "list ordered pods": self._list_pods,
            "watch ordered pods": lambda: self._until_struck(self._change_pod),
            "list targets": self._list_targets,
            "watch targets": lambda: self._until_struck(self._change_target),
            "ask if served": self._start_again,
            "remove gate": self._release,
            "mark met": self._meet_one,
            "read released pod": self._refused_release,
        }

    @property
    def _sources(self) -> Sources:
        return self.w.server.ordering.sources

    # -- one pair -------------------------------------------------------------------------------------------------

    def try_one(self, pair: Pair) -> None:
        """Raises AssertionError, naming the pair, if anything does not hold."""
        try:
            self._turn += 1
            first, job, second = self._name("a"), self._name("j"), self._name("c")
            self._chain(first, job, second)
            self._strike(pair)
            self._check_held(self._name("b"), second)
            struck = self._struck()
            self.w.pod(first)
            self.w.finish(job)
            self._faults.clear()
            if pair.fault.name in _LOST:  # what no watch has shown is put right by the next list, as every five minutes
                self.w.server.ordering.informers.relist()
            self._check_at_rest()
        except AssertionError as error:
            raise AssertionError(f"{pair}: {error}") from error
        self.survived[pair.operation.name, pair.fault.name] += struck

    def _strike(self, pair: Pair) -> None:
        self._rule = armed(self._faults, self._narrowed(pair), self.chance)
        for _ in range(3):
            self._provoke[pair.operation.name]()
            with suppress(AssertionError):
                eventually(self._struck, seconds=5)
                return
        raise AssertionError("the fault has not struck")

    def _narrowed(self, pair: Pair) -> Pair:
        """The pair for one kind of targets."""
        operation = pair.operation
        if operation.name not in ("list targets", "watch targets", "ask if served"):
            return pair
        self._plural = self.chance.choice(sorted(_SERVED))
        path = _SERVED[self._plural]
        if operation.name == "ask if served":
            tail = r"\?limit=1"
            if self.chance.random() < 0.5:
                operation, path = replace(operation, method="GET"), _NOT_SERVED
        elif operation.name == "watch targets":
            tail = r"\?watch=true&.*"
        else:
            tail = r"(\?limit=500.*|\?continue=.*)?"
        return Pair(replace(operation, path=path + tail), pair.fault)

    def _struck(self) -> int:
        return self._faults.fired(self._rule)

    def _name(self, part: str) -> str:
        return f"{part}{self._turn}"

    def _chain(self, first: str, job: str, second: str) -> None:
        """A pod waits for another, and one for a Job and for that pod."""
        self.w.job(job)
        self._dependant(self._name("b"), first)
        self.w.witness.needs[second] = {self._name("b")}
        self.w.pod(second, f"[{{kind: Job, name: {job}, state: Complete}}, {{kind: Pod, name: {self._name('b')}}}]")

    def _dependant(self, name: str, first: str) -> None:
        self.w.witness.needs[name] = {first}
        self.w.pod(name, f"[{{kind: Pod, name: {first}}}]")

    # -- what makes Waggle call -----------------------------------------------------------------------------------

    def _list_pods(self) -> None:
        self._sources.pods.relist()

    def _list_targets(self) -> None:
        """List the kind again, with several objects, so that there are pages."""
        next(each for each in self._sources.workloads if each.name.startswith(self._plural)).relist()

    def _change_pod(self) -> None:
        """More events than the latest that a fault waits for."""
        for _ in range(4):
            self._touch("pods", self._name("b"))

    def _change_target(self) -> None:
        for _ in range(4):
            self._touch(self._plural, "stays-0")

    def _touch(self, plural: str, name: str) -> None:
        # A new owner is a change that Waggle reads; of labels it reads none.
        annotations = {"waggle.dev/startup-group": f"g{self.chance.random()}", "turn": str(self.chance.random())}
        self.w.cluster.patch(plural, name, {"metadata": {"annotations": annotations}})

    def _start_again(self) -> None:
        """Another server takes over."""
        self.w.end(self.w.server)
        begun = self.w.serve(wait=False).ordering.sources
        begun._ask_again = 0.2
        begun._look.set()

    def _release(self) -> None:
        """A pod comes that another one waits for."""
        extra = f"{self._turn}-{self.chance.randrange(10**9)}"
        self._dependant(f"y{extra}", f"x{extra}")
        self.w.pod(f"x{extra}")

    def _meet_one(self) -> None:
        """A Job is complete, and a pod still waits for something else."""
        extra = f"{self._turn}-{self.chance.randrange(10**9)}"
        self.w.job(f"k{extra}")
        self.w.witness.needs[f"z{extra}"] = {self._name("a")}
        self.w.pod(
            f"z{extra}", f"[{{kind: Job, name: k{extra}, state: Complete}}, {{kind: Pod, name: {self._name('a')}}}]"
        )
        self.w.waits(f"z{extra}")
        self.w.finish(f"k{extra}")

    def _refused_release(self) -> None:
        self._faults.inject("status", status=500, method="PATCH", path="/pods/y", agent=WAGGLE, times=1)
        self._release()

    def _until_struck(self, change: Callable[[], None]) -> None:
        """End the watches, and have something change in the next ones, until the fault has struck."""

        def struck() -> bool:
            self.w.cluster.end_watches(WAGGLE)
            change()
            with suppress(AssertionError):
                eventually(self._struck, seconds=0.3)
            return bool(self._struck())

        with suppress(AssertionError):
            eventually(struck, seconds=10)

    # -- what must hold -------------------------------------------------------------------------------------------

    def _check_held(self, *names: str) -> None:
        for name in names:
            assert self.w.gates(name), f"{name} was released too early"

    def _check_at_rest(self) -> None:
        try:
            eventually(lambda: not self._difference(), seconds=10)
        except AssertionError:  # what no informer could notice is put right by the next list, as every five minutes
            self.w.server.ordering.informers.relist()
            eventually(lambda: not self._difference(), seconds=30, why=self._difference)
        self.w.validate()
        assert not self._faults.unknown, self._faults.unknown
        self._clean()

    def _difference(self) -> str:
        """What is not as it should be; "" if all is."""
        ready = self.w.server.ordering.readiness()
        if not ready.ready:
            return ready.detail
        waiting = [each["metadata"]["name"] for each in self.w.cluster.objects("pods") if not _runs(each)]
        if waiting:
            return f"{waiting} do not run: {self.w.reasons()}"
        if held := self.w.reasons():
            return f"held: {held}"
        if self.w.server.metric("waggle_ordering_writes_in_flight"):
            return "writes are in flight"
        return ""

    def _clean(self) -> None:
        """Delete what this turn has made."""
        for pod in self.w.cluster.objects("pods"):
            self.w.cluster.delete("pods", pod["metadata"]["name"])
        for job in self.w.cluster.objects("jobs"):
            if not job["metadata"]["name"].startswith("stays"):
                self.w.cluster.delete("jobs", job["metadata"]["name"])


def _runs(pod: dict[str, dict[str, object]]) -> bool:
    return bool(pod["spec"].get("nodeName")) and not pod["spec"].get("schedulingGates")


@contextmanager
def ordering_arena(seed: int) -> Iterator[OrderingArena]:
    """Objects of three kinds stay; JobSets are a CustomResourceDefinition, and Volcano's Jobs are not served."""
    with (
        mock.patch.object(releasing, "PATIENCE", _PATIENCE),
        mock.patch.object(sources, "_TIMEOUT", _TIMEOUT),
        ordering_world(
            serve=False,
            apiserver={"bookmark_seconds": 0.3},
            sections={"cluster": {"request_timeout_seconds": _TIMEOUT}},
            timing=TIMING,
        ) as w,
    ):
        w.cluster._runtime.app.faults = Noting()
        w.cluster.create(definition("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"))
        for number in range(2):
            _add_targets(w, f"stays-{number}")
        w.serve()
        yield OrderingArena(w, random.Random(seed))


def _add_targets(w: OrderingWorld, name: str) -> None:
    """An object of each kind that pairs are tried with."""
    metadata = {"name": name, "namespace": "default"}
    w.job(name)
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _POD}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    w.cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    w.cluster.create({**jobset, "spec": {"replicatedJobs": []}})
