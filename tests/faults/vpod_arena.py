"""A server of vpods on real sockets, in which pairs of operation and fault are tried one after the other.

    VPodArena(Waggle, API server with its StatefulSet controller; set `fleet` that stays, set `grow` that is scaled)
      try_one(pair):  arm the fault --> make Waggle call --> it strikes --> vpods change --> all at rest --> check

After each pair: every vpod has as many vreplicas as it wants, on pods of its set; `grow` has as many pods as its vpods
need; the status of each VPodSet is that of its present specification; no pod ever held more than its capacity; and the
engine's invariants hold.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from unittest import mock

from extender.embedded.apiserver.faults import Fault as Rule
from extender.vpods import writing
from tests.faults.arena import TIMING
from tests.faults.noting import WAGGLE, Noting, armed
from tests.faults.table import Pair
from tests.support.apiserver.api import eventually
from tests.support.apiserver.custom import definition, version, widget
from tests.support.cluster.vpod_world import SETS, VPODS, VPodWorld, add_set, set_status, vpod_world

GROUP = "placed.test"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
#: Pods of the set that stays, and the capacity of its pods.
PODS, CAPACITY = 3, 20
#: Vpods of each kind, and how many vreplicas one of them wants at most.
CROWD, MOST = 3, 6
_TIMEOUT = 0.5
#: Seconds in which a watch should show what was written; then it is read.
_PATIENCE = 0.4
_LOST = ("event swallowed", "event late")


class VPodArena:
    """One world. `chance` decides how often a fault strikes, in which event of a watch, and what vpods want."""

    def __init__(self, w: VPodWorld, chance: random.Random) -> None:
        self.w = w
        self.chance = chance
        self.survived: Counter[tuple[str, str]] = Counter()
        assert isinstance(w.cluster.faults, Noting)
        self._faults = w.cluster.faults
        self._rule: Rule | None = None
        self._vpods = w.server.vpods
        #: What each vpod wants, by its path.
        self._wanted: dict[str, int] = {}
        self._turn = 0
        for number in range(CROWD):
            w.add_vpod(f"v{number}", 1)
            self._wanted[f"{VPODS}/v{number}"] = 1
            made = w.api.post(WIDGETS, widget(GROUP, f"w{number}", spec={"replicas": 1}))
            assert made.status_code == 201, made.text
            self._wanted[f"{WIDGETS}/w{number}"] = 1
        w.add_vpod("g", 1, set="grow")
        self._wanted[f"{VPODS}/g"] = 1
        sets = self._vpods.sets
        assert sets.informer is not None
        vpods, placed = self._vpods.sources.all
        workloads, hosts = sets.hosts.all
        self._provoke: dict[str, Callable[[], None]] = {
            "list vpods": vpods.relist,
            "watch vpods": lambda: self._until_struck(lambda: self._want_another(VPODS)),
            "list vpodsets": sets.informer.relist,
            "watch vpodsets": lambda: self._until_struck(self._change_set),
            "list host pods": hosts.relist,
            "watch host pods": lambda: self._until_struck(self._change_pods),
            "list stateful sets": workloads.relist,
            "watch stateful sets": lambda: self._until_struck(self._change_workloads),
            "list placed": placed.relist,
            "watch placed": lambda: self._until_struck(lambda: self._want_another(WIDGETS)),
            "write placements": lambda: self._want_another(VPODS),
            "write placed": lambda: self._want_another(WIDGETS),
            "read vpod": lambda: self._unseen_write(VPODS),
            "read placed": lambda: self._unseen_write(WIDGETS),
            "scale set": self._grow,
            "vpodset status": self._change_set,
        }

    # -- one pair -------------------------------------------------------------------------------------------------

    def try_one(self, pair: Pair) -> None:
        """Raises AssertionError, naming the pair, if anything does not hold."""
        try:
            self._rule = armed(self._faults, pair, self.chance)
            for _ in range(3):
                self._provoke[pair.operation.name]()
                with suppress(AssertionError):
                    eventually(self._struck, seconds=10)
                    break
            assert self._struck(), "the fault has not struck"
            self._want_another(VPODS)
            struck = self._struck()
            self._faults.clear()
            if pair.fault.name in _LOST:  # what no watch has shown is put right by the next list, as every five minutes
                self._vpods.informers.relist()
            self._check_at_rest()
        except AssertionError as error:
            raise AssertionError(f"{pair}: {error}") from error
        self.survived[pair.operation.name, pair.fault.name] += struck

    def _struck(self) -> int:
        return self._faults.fired(self._rule)

    # -- what makes Waggle call -----------------------------------------------------------------------------------

    def _want(self, path: str, number: int) -> None:
        field = "vreplicas" if path.startswith(VPODS) else "replicas"
        done = self.w.api.patch(path, {"spec": {field: number}})
        assert done.status_code == 200, done.text
        self._wanted[path] = number

    def _want_another(self, collection: str) -> None:
        """One vpod wants another number than before."""
        name = f"v{self.chance.randrange(CROWD)}" if collection == VPODS else f"w{self.chance.randrange(CROWD)}"
        path = f"{collection}/{name}"
        self._want(path, self.chance.choice([n for n in range(MOST + 1) if n != self._wanted[path]]))

    def _grow(self) -> None:
        """The set `grow`, whose pods hold one vreplica each, needs another number of pods."""
        path = f"{VPODS}/g"
        self._want(path, 3 if self._wanted[path] == 1 else 1)

    def _unseen_write(self, collection: str) -> None:
        """A watch does not show what was written."""
        plural = collection.rpartition("/")[2]
        self._faults.inject("watch-swallow", method="WATCH", path=rf"/{plural}\?watch", agent=WAGGLE, after=2)
        self.w.cluster.end_watches(WAGGLE)
        self._want_another(collection)

    def _change_set(self) -> None:
        self._turn += 1
        changed = self.w.api.patch(f"{SETS}/fleet", {"spec": {"maxMoves": 16 + self._turn % 2}})
        assert changed.status_code == 200, changed.text

    def _change_pods(self) -> None:
        """More events than the latest that a fault waits for."""
        for turn in range(4):
            labels = {"turn": f"{turn}-{self.chance.random()}"}
            self.w.cluster.patch("pods", "fleet-0", {"metadata": {"labels": labels}})

    def _change_workloads(self) -> None:
        for turn in range(4):
            labels = {"turn": f"{turn}-{self.chance.random()}"}
            self.w.cluster.patch("statefulsets", "fleet", {"metadata": {"labels": labels}})

    def _until_struck(self, change: Callable[[], None]) -> None:
        """End the watches, and have something change in the next ones, until the fault has struck."""

        def struck() -> bool:
            self.w.cluster.end_watches(WAGGLE)
            change()
            with suppress(AssertionError):
                eventually(self._struck, seconds=0.3)
            return bool(self._struck())

        eventually(struck, seconds=10)

    # -- what must hold -------------------------------------------------------------------------------------------

    def _check_at_rest(self) -> None:
        try:
            eventually(lambda: not self._difference(), seconds=10)
        except AssertionError:  # what no informer could notice is put right by the next list, as every five minutes
            self._vpods.informers.relist()
            eventually(lambda: not self._difference(), seconds=30, why=self._difference)
        self.w.validate()
        assert not self._faults.unknown, self._faults.unknown

    def _difference(self) -> str:
        """What is not as it should be; "" if all is."""
        for path, wanted in self._wanted.items():
            found = self.w.api.get(path).json()
            entries = found.get("status", {}).get("placements", [])
            host = "grow" if path.endswith("/g") else "fleet"
            if sum(each["vreplicas"] for each in entries) != wanted:
                return f"{path} wants {wanted}, has {entries}"
            if any(not each["podName"].startswith(f"{host}-") for each in entries):
                return f"{path} is elsewhere: {entries}"
        replicas = {name: self.w.replicas(name) for name in ("fleet", "grow")}
        if replicas != {"fleet": PODS, "grow": self._wanted[f"{VPODS}/g"]}:
            return f"replicas: {replicas}"
        return self._status_difference()

    def _status_difference(self) -> str:
        for name in ("fleet", "grow"):
            generation = self.w.api.get(f"{SETS}/{name}").json()["metadata"]["generation"]
            status = set_status(self.w, name)
            if status.get("observedGeneration") != generation:
                return f"status of {name}: {status}, generation {generation}"
        return ""


@contextmanager
def vpod_arena(seed: int) -> Iterator[VPodArena]:
    """A set `fleet` whose pods stay, a set `grow` whose pods hold one vreplica each, and widgets as vpods."""
    resource = {"name": "widgets", "group": GROUP, "version": "v1", "resource": "widgets", "set": "default/fleet"}
    with (
        mock.patch.object(writing, "PATIENCE", _PATIENCE),
        vpod_world(
            replicas=PODS,
            capacity=CAPACITY,
            vpods={"sets": [], "resources": [resource]},
            apiserver={"bookmark_seconds": 0.3},
            sections={"cluster": {"request_timeout_seconds": _TIMEOUT}},
            prepare=_prepare,
            timing=TIMING,
        ) as w,
    ):
        place = VPodArena(w, random.Random(seed))
        eventually(lambda: not place._difference(), why=place._difference)
        yield place


def _prepare(w: VPodWorld) -> None:
    w.cluster._runtime.app.faults = Noting()
    given = version("v1", spec={"replicas": {"type": "integer"}}, subresources={"status": {}})
    w.cluster.create(definition(GROUP, given))
    w.deploy("grow", 1)
    add_set(w, "fleet", minReplicas=PODS)
    add_set(w, "grow", capacity=1, maxReplicas=5)
