"""kube-scheduler stand-in, API server stand-in and a tiny extender, over real sockets."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.embedded.kubescheduler.config import ExtenderConfig, SchedulerConfig
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.support.kubescheduler.objects import ScriptedServer, node_json, pod_json

PATIENCE = 30.0
Args = dict[str, Any]


class TinyExtender:
    """Accepts, agrees and binds, unless a test sets another answer. `asked` holds (verb, pod, node names)."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.asked: list[tuple[str, str, list[str]]] = []
        self.on_filter: Callable[[Args], Any] = lambda args: {"NodeNames": args["NodeNames"]}
        self.on_preempt: Callable[[Args], Any] = lambda args: args
        self.on_bind: Callable[[Args], Any] = self.bind

    def reply(self, path: str, body: bytes) -> tuple[int, bytes, Mapping[str, str]]:
        verb, args = path.strip("/"), json.loads(body)
        pod = args["PodName"] if verb == "bind" else args["Pod"]["metadata"]["name"]
        nodes = args.get("NodeNames") or sorted(args.get("NodeNameToMetaVictims") or {}) or [args.get("Node")]
        self.asked.append((verb, pod, nodes))
        return 200, json.dumps(getattr(self, f"on_{verb}")(args)).encode(), {}

    def bind(self, args: Args) -> Any:
        binding = {
            "metadata": {"name": args["PodName"], "uid": args["PodUID"], "annotations": {"bound-by": "tiny"}},
            "target": {"kind": "Node", "name": args["Node"]},
        }
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        response = self._api.request("POST", path, body=json.dumps(binding).encode())
        return {"Error": "" if response.ok else response.message}


class StandIns:
    def __init__(self, cluster: EmbeddedCluster, extender: TinyExtender, scheduler: KubeSchedulerStandIn) -> None:
        self.cluster, self.extender, self.scheduler = cluster, extender, scheduler

    def node(self, name: str, **given: Any) -> None:
        """A node that the scheduler knows: a pod that it saw before the first node would wait for a second."""
        self.cluster.create({"apiVersion": "v1", "kind": "Node", **_unstored(node_json(name, **given))})
        self.settle()

    def pod(self, name: str, **given: Any) -> str:
        pod = _unstored(pod_json(name, **given))
        pod["spec"]["containers"][0]["image"] = "pause"
        uid: str = self.cluster.create({"apiVersion": "v1", "kind": "Pod", **pod})["metadata"]["uid"]
        return uid

    def get(self, name: str) -> Any:
        return self.cluster.get("pods", name)

    def node_of(self, name: str) -> str | None:
        pod = self.get(name)
        return pod["spec"].get("nodeName") if pod else None

    def condition(self, name: str) -> Any:
        conditions = self.get(name)["status"].get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), None)

    def events(self, name: str, reason: str) -> list[Any]:
        events = self.cluster.objects("events")
        return [e for e in events if e["reason"] == reason and e["involvedObject"]["name"] == name]

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.scheduler.records
            time.sleep(0.01)

    def settle(self) -> None:
        assert self.scheduler.wait_idle(PATIENCE), (self.scheduler.crashed, self.scheduler.records)

    def asked(self, verb: str) -> list[tuple[str, list[str]]]:
        return [(pod, sorted(nodes)) for asked, pod, nodes in self.extender.asked if asked == verb]


def _unstored(obj: dict[str, Any]) -> dict[str, Any]:
    for key in ("uid", "resourceVersion"):
        del obj["metadata"][key]
    return obj


@contextmanager
def running(*, kubelet: bool = True, **extender: Any) -> Iterator[StandIns]:
    with ExitStack() as stack:
        cluster = stack.enter_context(serve_in_thread(kubelet=kubelet, seed=1))
        api = connect(ClusterSettings(server=cluster.url))
        stack.callback(api.close)
        tiny = TinyExtender(api)
        server = stack.enter_context(ScriptedServer(tiny.reply))
        verbs = {"filter_verb": "filter", "preempt_verb": "preempt", "bind_verb": "bind"}
        given = {"url_prefix": server.url, "node_cache_capable": True, **verbs, **extender}
        scheduler = KubeSchedulerStandIn(api, SchedulerConfig(extenders=[ExtenderConfig(**given)]))
        stack.callback(scheduler.stop)
        scheduler.start()
        assert scheduler.wait_synced(PATIENCE)
        yield StandIns(cluster, tiny, scheduler)


@pytest.fixture
def world() -> Iterator[StandIns]:
    with running() as world:
        yield world


def test_single_pods_are_bound_by_the_extender(world: StandIns):
    world.node("a")
    world.node("b")
    for index in range(6):
        world.pod(f"p{index}", cpu="1")
    world.settle()
    assert [world.node_of(f"p{index}") for index in range(6)].count("a") == 3
    assert world.get("p0")["metadata"]["annotations"]["bound-by"] == "tiny"
    assert [bind.error for bind in world.scheduler.binds()] == [None] * 6
    world.until(lambda: world.events("p0", "Scheduled"))
    note = world.events("p0", "Scheduled")[0]["message"]
    assert note == f"Successfully assigned default/p0 to {world.node_of('p0')}"


def test_a_refused_pod_is_filtered_exactly_twice_and_then_rests(world: StandIns):
    world.extender.on_filter = lambda args: {"NodeNames": [], "FailedNodes": {"a": "busy", "b": "dead"}}
    world.node("a")
    world.node("b")
    world.settle()
    world.pod("p")
    world.settle()
    assert world.asked("filter") == [("p", ["a", "b"])] * 2
    condition = world.condition("p")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 1 busy, 1 dead. no new claims to deallocate, ")
    attempts = world.scheduler.attempts("default/p")
    assert [attempt.result for attempt in attempts] == ["unschedulable"] * 2
    assert [call.kind for call in attempts[0].calls] == ["filter"]
    world.until(lambda: len(world.events("p", "FailedScheduling")) == 2)


def test_an_event_about_the_same_version_of_a_pod_is_counted(world: StandIns):
    world.extender.on_filter = lambda args: {"NodeNames": [], "FailedNodes": {"a": "busy"}}
    world.node("a")
    world.pod("p")
    world.settle()
    world.cluster.patch("nodes", "a", {"metadata": {"annotations": {"nudge": "1"}}})
    world.settle()
    assert len(world.asked("filter")) == 3
    world.until(lambda: any(e.get("series", {}).get("count") == 2 for e in world.events("p", "FailedScheduling")))
    assert len(world.events("p", "FailedScheduling")) == 2


def test_a_rejected_pod_is_tried_when_a_node_is_annotated(world: StandIns):
    world.extender.on_filter = lambda args: {"NodeNames": []}
    world.node("a")
    world.pod("p")
    world.settle()
    world.extender.on_filter = lambda args: {"NodeNames": args["NodeNames"]}
    world.cluster.patch("nodes", "a", {"metadata": {"annotations": {"nudge": "1"}}})
    world.until(lambda: world.node_of("p") == "a")


def test_a_pod_that_the_extender_is_not_interested_in_is_bound_by_default():
    with running(managed_resources=[{"name": "example.com/gpu"}]) as world:
        world.node("a")
        world.pod("p")
        world.settle()
        assert world.node_of("p") == "a"
        assert world.extender.asked == []
        assert [bind.by for bind in world.scheduler.binds()] == [""]


def test_an_ignorable_extender_that_refuses_a_bind_is_passed_by():
    with running(ignorable=True) as world:
        world.extender.on_bind = lambda args: {"Error": "for cause"}
        world.node("a")
        world.pod("p")
        world.settle()
        assert world.node_of("p") == "a"


def test_a_failed_bind_begins_a_new_cycle_after_its_backoff(world: StandIns):
    answers = iter([{"Error": "not now"}])
    world.extender.on_bind = lambda args: next(answers, None) or world.extender.bind(args)
    world.node("a")
    world.pod("p")
    world.until(lambda: world.scheduler.binds() and world.condition("p"))
    assert (world.condition("p")["reason"], world.condition("p")["message"]) == ("SchedulerError", "not now")
    world.until(lambda: world.node_of("p"))
    assert [asked[0] for asked in world.extender.asked] == ["filter", "bind"] * 2


def test_a_bind_without_binding_leaves_the_pod_assumed_until_it_is_deleted(world: StandIns):
    world.extender.on_bind = lambda args: {}
    world.node("a", cpu="2")
    world.pod("p", cpu="2")
    world.settle()
    world.pod("q", cpu="2")
    world.settle()
    assert (world.node_of("p"), world.condition("p")) == (None, None)
    assert "Insufficient cpu" in world.condition("q")["message"]
    world.extender.on_bind = world.extender.bind
    world.cluster.delete("pods", "p")
    world.until(lambda: world.node_of("q") == "a")


def test_preemption_from_end_to_end(world: StandIns):
    for node in ("a", "b"):
        world.node(node, cpu="2")
        world.pod(f"low-{node}", cpu="2", node=node)
    world.settle()
    world.cluster.create({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    })  # fmt: skip
    world.extender.on_preempt = lambda args: {
        "NodeNameToMetaVictims": {"b": args["NodeNameToMetaVictims"]["b"]},
    }
    world.pod("hi", cpu="2", spec={"priorityClassName": "high", "priority": 1000})
    world.until(lambda: world.node_of("hi"))
    world.settle()
    assert world.node_of("hi") == "b"
    assert world.node_of("low-a") == "a"
    assert world.get("low-b") is None
    assert world.asked("preempt") == [("hi", ["a", "b"])]
    assert world.asked("filter")[-1] == ("hi", ["b"]), "the nominated node alone"
    assert [pod for pod, _ in world.asked("filter")] == ["hi"]
    first, *others = world.scheduler.attempts("default/hi")
    assert (first.node, len(first.victims)) == ("b", 1)
    assert others[-1].result == "chosen"
    assert "nominatedNodeName" not in world.get("hi")["status"]
    world.until(lambda: world.events("low-b", "Preempted"))


def test_a_null_in_an_answer_to_preempt_ends_the_scheduler(world: StandIns):
    world.node("a", cpu="2")
    world.pod("low", cpu="2", node="a")
    world.extender.on_preempt = lambda args: {"NodeNameToMetaVictims": {"a": None}}
    world.settle()
    world.pod("hi", cpu="2", priority=0, spec={"priorityClassName": "system-node-critical", "priority": 2000001000})
    world.until(lambda: world.scheduler.crashed)
    assert "panic" in world.scheduler.crashed
    assert not world.scheduler.wait_idle(0.1)


def test_a_hot_loop_can_be_seen(world: StandIns):
    world.node("a")
    world.settle()
    tries = iter(range(15))
    world.extender.on_filter = lambda args: {"NodeNames": [], "FailedNodes": {"a": f"{next(tries, 'many')} tries"}}
    world.pod("p")
    world.until(lambda: len(world.asked("filter")) >= 15)


@pytest.mark.slow
def test_the_process_says_ready_and_ends_at_a_signal(tmp_path: Path):
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    with serve_in_thread() as cluster, _process("--server", cluster.url, "--config", str(config)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_the_process_refuses_a_bad_configuration(tmp_path: Path):
    config = tmp_path / "config.yaml"
    config.write_text("kind: Policy\n")
    with _process("--server", "http://127.0.0.1:1", "--config", str(config)) as process:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "KubeSchedulerConfiguration" in errors


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "extender.embedded.kubescheduler", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
