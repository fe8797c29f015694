"""The face with the real runtime behind it, over a socket: what a real kube-scheduler sent is really decided.

Only the API server is a stand-in: it reports every binding as written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from algorithm.decoding import decode_pod
from algorithm.model import Node, Pod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import BindFinished, Command, EvictFinished, PodRead, ReadPod, WriteBinding
from extender.scheduling.events import NodeSeen, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.http.fixed_runtime import Client, capture, exchange

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u-1"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


class House:
    """A runtime with its face, and the API server's part played by `written` and a thread."""

    def __init__(self) -> None:
        self.algorithm = PlainAlgorithm()
        self.machine = SchedulerStateMachine(self.algorithm)
        self.runtime = Runtime(self.machine, self._carry_out)
        self.written: list[WriteBinding] = []
        self._committer = ThreadPoolExecutor(1)

    def _carry_out(self, command: Command) -> None:
        self._committer.submit(self._report, command)

    def _report(self, command: Command) -> None:
        if isinstance(command, WriteBinding):
            self.written.append(command)
            self.runtime.handle(BindFinished(command.token, Outcome(OutcomeKind.DONE)))
        elif isinstance(command, ReadPod):
            self.runtime.handle(PodRead(command.token, Outcome(OutcomeKind.UNKNOWN)))
        elif hasattr(command, "token"):
            self.runtime.handle(EvictFinished(command.token, Outcome(OutcomeKind.DONE)))

    def close(self) -> None:
        self.runtime.stop()
        self._committer.shutdown()
        self.machine.validate()
        assert not self.algorithm.broken, self.algorithm.broken

    def knows(self, *nodes: str, cpu: int = 8000) -> None:
        seen = [NodeSeen(Node(name=name, uid=f"node-{name}", allocatable=(("cpu", cpu),))) for name in nodes]
        self.runtime.handle(*seen)

    def runs(self, *pods: Pod) -> None:
        self.runtime.handle(*[PodSeen(pod) for pod in pods])

    def synced(self) -> None:
        self.runtime.handle(Synced())


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    made.runtime.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    wanted = Settings(server=ServerSettings(port=0, max_body_mib=1))
    with serve_in_thread(create_app(house.runtime, wanted), wanted) as server:
        yield Client(server.url)


def offered(body: bytes) -> list[str]:
    request = json.loads(body)
    if request["NodeNames"] is not None:
        return request["NodeNames"]
    return [item["metadata"]["name"] for item in request["Nodes"]["items"]]


@pytest.mark.parametrize(
    "captured",
    [
        "filter-nodenames",
        "filter-nodes",
        "filter-gang-member",
        "filter-mtls",
        "filter-managed-ignored-by-scheduler",
        "filter-second-attempt-with-condition",
    ],
)
def test_a_captured_pod_is_proposed_and_bound(house: House, client: Client, captured: str):
    sent = capture(captured)
    first, pod = sorted(offered(sent))[0], json.loads(sent)["Pod"]["metadata"]
    house.knows(*offered(sent))
    house.synced()

    answer = client.post("/filter", sent).json
    bound = client.post(
        "/bind",
        {"PodName": pod["name"], "PodNamespace": pod["namespace"], "PodUID": pod["uid"], "Node": first},
    )

    passed = answer["NodeNames"] or [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    assert (passed, answer["Error"]) == ([first], "")
    assert bound.json == {"Error": ""}
    assert [(each.uid, each.node) for each in house.written] == [(pod["uid"], first)]


def test_a_node_that_came_in_full_goes_back_whole(house: House, client: Client):
    sent = capture("filter-nodes")
    house.knows(*offered(sent))
    house.synced()

    [kept] = client.post("/filter", sent).json["Nodes"]["items"]

    assert kept in json.loads(sent)["Nodes"]["items"]


def test_a_captured_bind_of_what_was_never_proposed_is_refused(house: House, client: Client):
    house.knows("n0")
    house.synced()

    answer = client.post("/bind", capture("bind"))

    assert (answer.status, house.written) == (200, [])
    assert "n0" in answer.json["Error"]


def test_the_captured_second_attempt_gets_the_very_same_text(house: House, client: Client):
    second = json.loads(capture("filter-second-attempt-with-condition"))
    first = second | {"Pod": second["Pod"] | {"status": {"phase": "Pending"}}}
    house.knows(*second["NodeNames"], cpu=1)
    house.synced()

    answers = [client.post("/filter", body).json for body in (first, second)]

    assert answers[0] == answers[1]
    assert answers[0]["FailedNodes"] == dict.fromkeys(second["NodeNames"], "insufficient cpu")


@pytest.mark.parametrize("captured", ["prioritize-nodenames", "prioritize-nodes"])
def test_a_captured_prioritize_scores_every_node(house: House, client: Client, captured: str):
    house.synced()

    answer = client.post("/prioritize", capture(captured)).json

    assert [each["Host"] for each in answer] == offered(capture(captured))


@pytest.mark.parametrize("captured", ["preempt-meta-victims", "preempt-victims"])
def test_a_captured_preempt_is_answered_with_victims_by_uid(house: House, client: Client, captured: str):
    sent = json.loads(capture(captured))
    candidates = _victims(sent)
    house.knows(*candidates, cpu=2000)
    house.runs(*[_running(node, uid) for node, uids in candidates.items() for uid in uids])
    house.synced()

    answer = client.post("/preempt", sent).json

    first = sorted(candidates)[0]
    chosen = answer["NodeNameToMetaVictims"]
    assert list(answer) == ["NodeNameToMetaVictims"]
    assert {node: {pod["UID"] for pod in each["Pods"]} for node, each in chosen.items()} == {first: candidates[first]}


def _victims(sent: Any) -> dict[str, set[str]]:
    if sent["NodeNameToMetaVictims"] is not None:
        return {node: {pod["UID"] for pod in v["Pods"]} for node, v in sent["NodeNameToMetaVictims"].items()}
    return {node: {pod["metadata"]["uid"] for pod in v["Pods"]} for node, v in sent["NodeNameToVictims"].items()}


def _running(node: str, uid: str) -> Pod:
    spec = {"nodeName": node, "priority": 1, "containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    return decode_pod(
        json.dumps({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}).encode()
    )


def test_before_it_is_synced_the_extender_says_so(house: House, client: Client):
    assert client.get("/readyz").status == 503
    for verb, captured in (("filter", "filter-nodenames"), ("bind", "bind")):
        answer = client.post(f"/{verb}", capture(captured))
        assert answer.status == 200
        assert answer.json["Error"].startswith("extender is not ready: ")

    house.synced()

    assert client.get("/readyz").status == 200


def test_a_refused_pod_is_explained_with_what_kube_scheduler_was_told(house: House, client: Client):
    house.knows("a", cpu=1)
    house.synced()
    told = client.post("/filter", {"Pod": POD, "NodeNames": ["a", "never seen"]}).json["FailedNodes"]

    found = client.get("/v1/explain/ns/p").json
    [listed] = client.get("/v1/inspect/pods?state=Waiting").json["items"]

    assert told == {"a": found["nodes"]["a"]["text"], "never seen": found["reason"]["text"]}
    assert listed["reason"] == found["reason"]
    assert found["nearest"] == ["a: lacks 999m cpu"]
    assert found["story"]


def test_a_proposed_pod_takes_room_on_every_page(house: House, client: Client):
    house.knows("a")
    house.synced()
    client.post("/filter", {"Pod": POD, "NodeNames": ["a"]})

    [node] = client.get("/v1/inspect/nodes").json["items"]

    assert (node["requested"]["cpu"], node["pods"]) == (1000, ["ns/p"])
    assert client.get("/v1/inspect/cache").json["counts"]["assumed"] == 1
    assert client.get("/v1/inspect/pods?state=Binding").json["items"][0]["node"] == "a"
    assert 'waggle_cache_size{type="assumed_pods"} 1.0' in client.get("/metrics").text


def test_duplicate_and_unknown_names_do_no_harm(house: House, client: Client):
    house.knows("a")
    house.synced()

    answer = client.post("/filter", {"Pod": POD, "NodeNames": ["zzz", "a", "a"]}).json

    assert answer["NodeNames"] == ["a"]


def test_bad_requests_change_nothing(house: House, client: Client):
    house.knows("a")
    house.synced()
    before = client.get("/v1/inspect/cache").json

    wrong = {"Pod": POD, "NodeNames": 1, "NodeNameToMetaVictims": 1, "PodUID": 1}
    for verb in ("filter", "prioritize", "preempt", "bind"):
        for body in (b"", b"{", b"[]", b"\xff", b'{"Pod":{}}', json.dumps(wrong).encode()):
            client.post(f"/{verb}", body)

    assert client.get("/v1/inspect/cache").json == before
    assert client.get("/v1/inspect/pods").json == {"items": []}


_UID = st.sampled_from(["u-1", "u-2", "u-3"])
_NODE = st.sampled_from(["a", "b", "zzz"])
_ODD = st.none() | st.integers(-2, 2) | st.just("x") | st.just([]) | st.just({})
_POD = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": _UID, "namespace": st.just("ns"), "uid": _UID | _ODD})},
    optional={"spec": st.sampled_from([POD["spec"], {"nodeName": "a"}, {"priority": 9}]) | _ODD},
)
_META_VICTIMS = st.dictionaries(
    _NODE, st.fixed_dictionaries({"Pods": st.lists(st.fixed_dictionaries({"UID": _UID}), max_size=2)}) | _ODD
)
_CALL = st.one_of(
    st.tuples(
        st.sampled_from(["filter", "prioritize"]),
        st.fixed_dictionaries({"Pod": _POD | _ODD, "NodeNames": st.lists(_NODE, max_size=3) | _ODD}),
    ),
    st.tuples(st.just("preempt"), st.fixed_dictionaries({"Pod": _POD, "NodeNameToMetaVictims": _META_VICTIMS | _ODD})),
    st.tuples(
        st.just("bind"),
        st.fixed_dictionaries({"PodName": _UID, "PodNamespace": st.just("ns"), "PodUID": _UID, "Node": _NODE | _ODD}),
    ),
)


def test_no_sequence_of_calls_makes_a_verb_fail(house: House, client: Client):
    house.knows("a", "b", cpu=2000)
    house.synced()
    with closing(client.connect()) as connection:

        @settings(
            max_examples=100,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(st.lists(_CALL, max_size=5))
        def check(calls: list[tuple[str, Any]]) -> None:
            for verb, body in calls:
                answer = exchange(connection, "POST", f"/{verb}", json.dumps(body).encode())
                allowed = (200, 400, 503) if verb == "preempt" else (200, 400)
                assert answer.status in allowed, (verb, body, answer)
                assert "failed to serve" not in answer.text, (verb, body, answer)

        check()
    assert client.get("/livez").status == 200
