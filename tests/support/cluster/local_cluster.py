"""A whole world in one process: API server, Waggle and, if wanted, a kube-scheduler, each on a socket of its own.

    with world(nodes=2) as w:
        w.pod("p", cpu="2")
        assert w.place("p") == "n0"

At its end everything comes to rest, and what must always hold is held against the API server: no pod bound twice or
where no filter answer put it, no node ever over-committed, the cache equal to the API server, no hold left, no thread
left, no counter of bugs above 0, and the recorded log replays to the same stories.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from algorithm.decoding import decode_node
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.embedded.kubescheduler.config import SchedulerConfig, from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.backoff import BackoffSettings
from extender.kube.client.kubeconfig import connect
from extender.kube.informers.reflector import Timing
from extender.scheduling.comparison import cached_state_of, compare_nodes, compare_pods
from extender.settings import ClusterSettings, Settings
from tests.support.apiserver.api import eventually
from tests.support.cluster.waggle import Waggle
from tests.support.cluster.witness import Books, Witness, requested

Object = dict[str, Any]
#: The lengths tell Waggle's watches from those of the kube-scheduler stand-in, which are 300 to 600 s: WAGGLES_WATCH.
QUICK = Timing(shortest_watch=650, longest_watch=699, backoff=BackoffSettings(shortest=0.05, longest=0.2))
WAGGLES_WATCH = r"timeoutSeconds=6[5-9]\d"


class LocalCluster:
    """What a test does and sees. `scheduler` is None where the test itself plays kube-scheduler."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path, sections: Mapping[str, Any], timing: Timing) -> None:
        self.cluster = cluster
        self.faults = cluster.faults
        self.books = Books(cluster)
        self.witness = Witness()
        self.scheduler: KubeSchedulerStandIn | None = None
        self.waggle: Waggle | None = None
        #: Owners of holds that may be left at the end; whether bugs' counters may count; who binds beside us.
        self.may_hold: set[str] = set()
        self.may_count: set[str] = set()
        self.bound_by_others: set[str] = set()
        self._folder, self._sections, self._timing = folder, dict(sections), timing
        self._runs: list[Waggle] = []
        #: What Waggle is configured with.
        self.config = folder / "waggle.yaml"
        self._port = 0

    # -- the servers ----------------------------------------------------------------------------------------------

    def start_waggle(self, *, wait: bool = True) -> Waggle:
        """Starts Waggle, at the URL that it had before if there was one."""
        given = {"server": {"port": self._port}, **self._sections}
        given["cluster"] = {"server": self.cluster.url, "compare_seconds": 0, **given.get("cluster", {})}
        given["holds"] = {"verify_seconds": 0.2, **given.get("holds", {})}
        log = self._folder / f"run-{len(self._runs)}.log"
        self.config.write_text(json.dumps(given, default=str), encoding="utf-8")
        self.waggle = Waggle(Settings.model_validate(given), self.witness, log, config=self.config, timing=self._timing)
        self._runs.append(self.waggle)
        self._port = self.waggle.client.port
        if wait:
            self.waggle.wait_ready()
        return self.waggle

    def stop_waggle(self) -> None:
        assert self.waggle is not None
        run, self.waggle = self.waggle, None
        run.stop()
        run.validate()
        run.check_replay()

    def start_scheduler(self, url: str = "", **extender: Any) -> None:
        """A kube-scheduler that calls Waggle, or whoever serves at `url`."""
        if self.waggle is not None:
            url = self.waggle.url
        api = connect(ClusterSettings(server=self.cluster.url), agent="kube-scheduler")
        self.scheduler = KubeSchedulerStandIn(api, scheduler_config(url, **extender))
        self.scheduler.start()
        assert self.scheduler.wait_synced(30)

    def stop_scheduler(self) -> None:
        if self.scheduler is not None:
            scheduler, self.scheduler = self.scheduler, None
            scheduler.stop()
            scheduler._api.close()
            assert not scheduler.crashed, scheduler.crashed

    # -- the cluster ----------------------------------------------------------------------------------------------

    def node(self, name: str, *, cpu: str = "4", pods: str = "110", **metadata: Any) -> None:
        """A node; returns when all who should have heard of it have."""
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": pods, "example.com/gpu": "8"}
        self.cluster.create({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, **metadata},
            "status": {"capacity": amounts, "allocatable": amounts},
        })  # fmt: skip
        if self.waggle is not None and self.waggle.runtime.readiness().ready:
            self.until(lambda: name in self.waggle.runtime.model.cache_snapshot().nodes)
        if self.scheduler is not None:
            self.settle()

    def pod(
        self, name: str, *, cpu: str = "1", priority: int = 0, gang: tuple[str, int] | None = None, **more: Any
    ) -> str:
        """A pod, and its UID. `more` is metadata (labels, annotations) or spec."""
        annotations = dict(more.pop("annotations", {}))
        if gang is not None:
            annotations |= {"waggle.dev/gang": gang[0], "waggle.dev/gang-min": str(gang[1])}
        containers = [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]
        spec = {"containers": containers, "terminationGracePeriodSeconds": 0, **more}
        if priority:
            self.cluster.apply({
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"p{priority}"},
                "value": priority,
            })  # fmt: skip
            spec["priorityClassName"] = f"p{priority}"
        metadata = {"name": name, "namespace": "default", "annotations": annotations}
        made = self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        uid: str = made["metadata"]["uid"]
        return uid

    def gang(self, name: str, size: int, *, minimum: int = 0, **more: Any) -> list[str]:
        """The names of its members."""
        names = [f"{name}-{i}" for i in range(size)]
        for each in names:
            self.pod(each, gang=(name, minimum or size), **more)
        return names

    def get(self, name: str) -> Object:
        found = self.cluster.get("pods", name)
        assert found is not None, f"there is no pod {name}"
        return found

    def uid(self, name: str) -> str:
        uid: str = self.get(name)["metadata"]["uid"]
        return uid

    def node_of(self, name: str) -> str:
        found = self.cluster.get("pods", name)
        return found["spec"].get("nodeName", "") if found else ""

    def places(self, names: Sequence[str]) -> list[str]:
        return [self.node_of(name) for name in names]

    def all_bound(self, names: Sequence[str]) -> bool:
        return all(self.places(names))

    def condition(self, name: str) -> Object | None:
        """The pod's PodScheduled condition, as kube-scheduler wrote it."""
        conditions = self.get(name)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), None)

    def message(self, name: str) -> str:
        found = self.condition(name)
        return found.get("message", "") if found else ""

    # -- playing kube-scheduler -----------------------------------------------------------------------------------

    def post(self, verb: str, body: Any) -> Any:
        assert self.waggle is not None
        answer = self.waggle.client.post(f"/{verb}", body)
        assert answer.status == 200, answer.text
        return answer.json

    def filter(self, name: str, nodes: Sequence[str] | None = None) -> Any:
        """The answer for the pod as the API server has it, with all nodes offered unless some are named."""
        names = [node["metadata"]["name"] for node in self.cluster.objects("nodes")] if nodes is None else list(nodes)
        return self.post("filter", {"Pod": self.get(name), "NodeNames": names})

    def bind(self, name: str, node: str, **changed: str) -> str:
        """The error that the bind is answered with, "" if there is none."""
        body = {"PodName": name, "PodNamespace": "default", "Node": node}
        uid = changed.get("PodUID") or self.uid(name)
        error: str = self.post("bind", body | {"PodUID": uid} | changed)["Error"]
        return error

    def propose(self, name: str, nodes: Sequence[str] | None = None) -> str:
        """The one node that filter passes."""
        answer = self.filter(name, nodes)
        assert answer["NodeNames"], answer
        [node] = answer["NodeNames"]
        return str(node)

    def place(self, name: str) -> str:
        """Filter and bind until it is bound, as kube-scheduler's queue would; the node."""

        def tried() -> str:
            if self.node_of(name):
                return self.node_of(name)
            passed = self.filter(name).get("NodeNames")
            return str(passed[0]) if passed and not self.bind(name, passed[0]) else ""

        return str(self.until(tried))

    # -- time -----------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], Any], *, seconds: float = 30) -> Any:
        try:
            return eventually(condition, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def told(self) -> str:
        """Everything that may explain a failure."""
        said = [self.waggle.stories()] if self.waggle else ["Waggle is down"]
        if self.scheduler is not None:
            said += [self.scheduler.crashed, *map(str, self.scheduler.records[-10:])]
        return "\n".join(said)

    def settle(self) -> None:
        """Until kube-scheduler has nothing to do."""
        if self.scheduler is not None:
            assert self.scheduler.wait_idle(30), self.told()

    # -- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything comes to rest, is compared, and ends."""
        self.faults.clear()
        self.settle()
        self.stop_scheduler()
        self._check_books()
        if self.waggle is None:
            return
        waggle = self.waggle
        self.until(lambda: not self.differences())
        self.until(lambda: not waggle.holds().keys() - self.may_hold)
        waggle.validate()
        wrong = {name: value for name, value in waggle.unexpected().items() if name.split("[")[0] not in self.may_count}
        assert not wrong, wrong
        # Both servers look only every 0.1 s whether they should end: at the same time, that is half as long.
        waggle._server._server.should_exit = self.cluster._runtime.server.should_exit = True
        self.stop_waggle()

    def differences(self) -> list[Any]:
        """What Waggle believes otherwise than the API server has it, down to the sums on each node."""
        assert self.waggle is not None
        nodes = [decode_node(json.dumps(each).encode()) for each in self.cluster.objects("nodes")]
        reader = self.waggle.runtime.reader
        pods = [
            reader.decisions.as_kept(reader.pod(json.dumps(each).encode())) for each in self.cluster.objects("pods")
        ]
        engine = self.waggle.machine
        with self.waggle.runtime.loop.paused():
            cached_state = cached_state_of(engine)
            infos = engine.state.cache.snapshot().nodes
        ours = [pod.uid for pod in pods if engine.policy.should_schedule(pod) and not pod.node_name]
        found: list[Any] = [*compare_nodes(cached_state, nodes), *compare_pods(cached_state, pods, ours)]
        for node in nodes:
            live = requested(pod for pod in pods if pod.node_name == node.name and not pod.finished)
            assumed = (
                {f"default/{pod.name}" for pod in infos[node.name].pods} & self.may_hold if node.name in infos else ()
            )
            if node.name in infos and not assumed and dict(infos[node.name].requested) != live:
                found.append((node.name, dict(infos[node.name].requested), live))
        return found

    def _check_books(self) -> None:
        assert not self.books.faults, self.books.faults
        bound = self.books.bindings
        assert len({each.uid for each in bound}) == len(bound), f"a pod was bound twice: {bound}"
        for each in bound:
            if each.pod not in self.bound_by_others:
                assert each.node in self.witness.proposed(each.uid), f"{each} was never proposed"

    def close(self) -> None:
        """After a failure: only end what runs."""
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler._api.close()
        if self.waggle is not None:
            self.waggle.stop()


def scheduler_config(url: str, *, percentage: int = 100, **extender: Any) -> SchedulerConfig:
    """As in docs/quickstart.md, with short back-offs. Keywords are fields of the extender, as in the file;
    `percentage` is percentageOfNodesToScore."""
    entry = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 1,
        "nodeCacheCapable": True,
        "httpTimeout": "20s",
    }
    return from_kube_scheduler_configuration({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": percentage,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
        "extenders": [entry | extender],
    })  # fmt: skip


@contextmanager
def world(
    *,
    nodes: int = 0,
    cpu: str = "4",
    scheduler: bool = False,
    waggle: bool = True,
    extender: Mapping[str, Any] | None = None,
    timing: Timing = QUICK,
    prepare: Callable[[LocalCluster], object] | None = None,
    apiserver: Mapping[str, Any] | None = None,
    **sections: Any,
) -> Iterator[LocalCluster]:
    """Nodes n0, n1, ... of `cpu` each. `prepare` is called before Waggle starts; `sections` are Waggle's settings,
    `extender` fields of kube-scheduler's configuration, `apiserver` options of the API server."""
    before = set(threading.enumerate())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waggle-world-")))
        cluster = stack.enter_context(serve_in_thread(**{"stop_delay": 0.0, **(apiserver or {})}))
        made = LocalCluster(cluster, folder, sections, timing)
        for number in range(nodes):
            made.node(f"n{number}", cpu=cpu)
        try:
            if prepare is not None:
                prepare(made)
            if waggle:
                made.start_waggle()
            if scheduler:
                made.start_scheduler(**(extender or {}))
            yield made
            made.finish()
        except BaseException:
            made.close()
            raise
    _others_end(before)


def _others_end(before: set[threading.Thread], seconds: float = 10) -> None:
    """Wait until no thread is left that was not there before. Otherwise say where those were that were seen late."""
    began, seen = time.monotonic(), ""

    def are_gone() -> bool:
        nonlocal seen
        if not set(threading.enumerate()) - before:
            return True
        if time.monotonic() - began > seconds / 2 and not seen:
            seen = _stacks_of_others(before)
        return False

    eventually(are_gone, seconds=seconds, why=lambda: _stacks_of_others(before) or seen)


def _stacks_of_others(before: set[threading.Thread]) -> str:
    """Where the threads are that were not there before."""
    names = {each.ident: each.name for each in set(threading.enumerate()) - before}
    return "\n".join(
        f"{names[ident]}:\n" + "".join(traceback.format_stack(frame))
        for ident, frame in sys._current_frames().items()
        if ident in names
    )
