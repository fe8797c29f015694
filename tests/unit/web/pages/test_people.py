"""The pages that people, probes and Prometheus read."""

from __future__ import annotations

from contextlib import closing

import pytest

from algorithm.interface import InvalidArgument, PageNotFound
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from extender.scheduling.faults import Fault, FaultKind
from extender.server.views import Explanation, FaultsView, Metric, PodView, Readiness
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture

BUSY = reason(Code.INSUFFICIENT, resources=["cpu"])
WAITING = PodView("ns", "p", "u-1", "Waiting", "", BUSY, 3, "gang-a", 1.5, 7, tenant="red", devices=4)
BOUND = PodView("other", "q", "u-2", "Bound", "n1", None, 1, "", 60.0)


def test_alive_and_ready(client: Client):
    assert client.get("/livez").status == 200
    assert client.get("/readyz").json == {"status": "ok", "detail": ""}


def test_not_ready_says_why(client: Client, runtime: FixedRuntime):
    runtime.ready = Readiness(False, "pods have not been listed yet")

    answer = client.get("/readyz")

    assert answer.status == 503
    assert answer.json == {
        "error": "extender is not ready: pods have not been listed yet",
        "field": None,
        "code": "ServiceUnavailable",
        "retry_after": None,
    }
    assert client.get("/livez").status == 200


def test_not_alive_says_why(client: Client, runtime: FixedRuntime):
    runtime.alive = Readiness(False, "timer thread died")

    assert client.get("/livez").json["error"] == "extender is not alive: timer thread died"


def test_pods_are_listed_with_state_and_reason(client: Client, runtime: FixedRuntime):
    runtime.pod_views = [WAITING, BOUND]

    items = client.get("/v1/inspect/pods").json["items"]

    assert [item["name"] for item in items] == ["p", "q"]
    assert items[0] == {
        "namespace": "ns",
        "name": "p",
        "uid": "u-1",
        "state": "Waiting",
        "node": "",
        "reason": {"code": "InsufficientResource", "text": "insufficient cpu"},
        "attempts": 3,
        "gang": "gang-a",
        "tenant": "red",
        "devices": 4,
        "priority": 7,
        "sinceSeconds": 1.5,
        "kubeScheduler": "",
        "summary": "",
    }
    assert items[1]["reason"] is None


@pytest.mark.parametrize(
    ("query", "names"),
    [("namespace=ns", ["p"]), ("state=Bound", ["q"]), ("namespace=ns&state=Bound", []), ("namespace=", ["p", "q"])],
)
def test_pods_are_chosen_by_namespace_and_state(client: Client, runtime: FixedRuntime, query: str, names: list[str]):
    runtime.pod_views = [WAITING, BOUND]

    assert [item["name"] for item in client.get(f"/v1/inspect/pods?{query}").json["items"]] == names


def in_cache(runtime: FixedRuntime) -> None:
    runtime.cache.set_node(Node(name="n1", uid="1", labels=(("zone", "a"),), allocatable=(("cpu", 4000),)))
    runtime.cache.set_node(Node(name="n2", uid="2", labels=(("zone", "b"),), unschedulable=True, ready=False))
    runtime.cache.assume(
        Pod(namespace="ns", name="p", uid="u-1", node_name="n1", requests=(("cpu", 500),), labels=(("app", "web"),))
    )
    runtime.cache.add_pod(Pod(namespace="other", name="q", uid="u-2", node_name="gone"))


def test_nodes_show_what_is_taken_of_them(client: Client, runtime: FixedRuntime):
    in_cache(runtime)

    items = {item["name"]: item for item in client.get("/v1/inspect/nodes").json["items"]}

    assert items["n1"] == {
        "name": "n1",
        "known": True,
        "ready": True,
        "unschedulable": False,
        "labels": {"zone": "a"},
        "allocatable": {"cpu": 4000},
        "requested": {"cpu": 500, "pods": 1},
        "devices": 0,
        "pods": ["ns/p"],
    }
    assert (items["n2"]["ready"], items["n2"]["unschedulable"]) == (False, True)
    assert (items["gone"]["known"], items["gone"]["pods"]) == (False, ["other/q"])


def test_nodes_are_chosen_by_label(client: Client, runtime: FixedRuntime):
    in_cache(runtime)

    items = client.get("/v1/inspect/nodes?labelSelector=zone%20in%20(b,c)").json["items"]

    assert [item["name"] for item in items] == ["n2"]


def test_the_cache_shows_who_takes_room(client: Client, runtime: FixedRuntime):
    in_cache(runtime)

    found = client.get("/v1/inspect/cache").json

    assert found["counts"] == {"nodes": 2, "pods": 2, "assumed": 1, "expired": 0}
    assert {item["uid"]: item["node"] for item in found["items"]} == {"u-1": "n1", "u-2": "gone"}


@pytest.mark.parametrize("query", ["namespace=ns", "node=n1", "labelSelector=app%3Dweb"])
def test_cached_pods_are_chosen(client: Client, runtime: FixedRuntime, query: str):
    in_cache(runtime)

    assert [item["name"] for item in client.get(f"/v1/inspect/cache?{query}").json["items"]] == ["p"]


def test_the_algorithm_shows_what_it_likes(client: Client, runtime: FixedRuntime):
    runtime.state = {"cells": [{"level": 1, "of": BOUND.state}]}

    shown = client.get("/v1/inspect/algorithm").json
    assert shown == {
        "state": {"cells": [{"level": 1, "of": "Bound"}]},
        "faults": 0,
        "lastFault": None,
        "faultCounts": {"raised": 0, "broke_contract": 0, "unsteady_reason": 0, "slow": 0},
        "lastOfEachKind": [],
        "unknownNodes": [],
    }


def test_the_algorithms_last_fault_is_shown(client: Client, runtime: FixedRuntime):
    fault = Fault("add_node", "ValueError: no label", "node n1", count=3, at=90.0, number=7)
    slow = Fault("schedule", "took 2.0 s", "pod ns/p", at=95.0, kind=FaultKind.SLOW, number=9)
    kinds = {FaultKind.RAISED: fault, FaultKind.SLOW: slow}
    runtime.faults = FaultsView(5, fault, 100.0, ("n1",), {FaultKind.RAISED: 5, FaultKind.SLOW: 2}, kinds)
    shown = client.get("/v1/inspect/algorithm").json
    runtime.faults = FaultsView(0, None, 0.0, ())
    last = {
        "kind": "raised",
        "call": "add_node",
        "subject": "node n1",
        "text": "ValueError: no label",
        "count": 3,
        "secondsAgo": 10.0,
        "event": 7,
        "replay": "not recorded; `waggle serve --record FOLDER` records",
    }
    assert (shown["faults"], shown["lastFault"], shown["unknownNodes"]) == (5, last, ["n1"])
    assert shown["faultCounts"] == {"raised": 5, "broke_contract": 0, "unsteady_reason": 0, "slow": 2}
    assert [(each["kind"], each["event"]) for each in shown["lastOfEachKind"]] == [("slow", 9), ("raised", 7)]


def test_a_pod_is_explained(client: Client, runtime: FixedRuntime):
    runtime.explanations["ns", "p"] = Explanation(WAITING, BUSY, {"n1": BUSY}, ["n1"], ["came", "waits"])

    found = client.get("/v1/explain/ns/p").json

    assert found["pod"]["uid"] == "u-1"
    assert found["reason"]["code"] == "InsufficientResource"
    assert found["nodes"] == {"n1": {"code": "InsufficientResource", "text": "insufficient cpu"}}
    assert (found["nearest"], found["story"]) == (["n1"], ["came", "waits"])


def test_an_unknown_pod_is_a_404_that_says_how_to_list(client: Client):
    answer = client.get("/v1/explain/ns/nobody")

    assert answer.status == 404
    assert "no pod ns/nobody" in answer.json["error"]
    assert "/v1/inspect/pods?namespace=ns" in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/inspect/pods?state=waiting", "state"),
        ("/v1/inspect/pods?labelSelector=a", "labelSelector"),
        ("/v1/inspect/nodes?labelselector=a", "labelselector"),
        ("/v1/inspect/nodes?labelSelector=a%3D%3D%3D", "labelSelector"),
        ("/v1/inspect/cache?labelSelector=(", "labelSelector"),
        ("/v1/inspect/algorithm?verbose=1", "verbose"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, path: str, field: str):
    answer = client.get(path)

    assert answer.status == 400
    assert answer.json["field"] == field
    assert answer.json["error"].startswith(f"{field}: ")


def test_an_unknown_parameter_is_told_the_known_ones(client: Client):
    text = client.get("/v1/inspect/pods?stat=Waiting").json["error"]
    assert text == "stat: there is no such parameter; there are: namespace, state; did you mean state?"
    text = client.get("/v1/inspect/pods?namepsace=ns").json["error"]
    assert text.endswith("; did you mean namespace?")
    text = client.get("/v1/inspect/pods?zzz=1").json["error"]
    assert text.endswith("there are: namespace, state")


def test_an_unknown_page_is_told_its_neighbours(client: Client):
    answer = client.get("/v1/inspect/pod")

    assert answer.status == 404
    assert answer.json["error"].startswith("no page /v1/inspect/pod; try: /v1/inspect/pods")


def test_a_page_that_does_not_take_the_argument_is_a_400_with_the_text_of_the_algorithm(
    client: Client, runtime: FixedRuntime
):
    runtime.page_failure = InvalidArgument("VC nobody not found")

    answer = client.get("/v1/inspect/clusterstatus/virtualclusters/nobody")

    assert (answer.status, answer.json) == (
        400,
        {"error": "VC nobody not found", "field": None, "code": "BadRequest", "retry_after": None},
    )


def test_a_page_that_the_algorithm_does_not_have_is_a_404_with_the_text_of_the_algorithm(
    client: Client, runtime: FixedRuntime
):
    runtime.page_failure = PageNotFound("cells/3", "there is only the page cells")

    answer = client.get("/v1/inspect/cells/3")

    assert (answer.status, answer.json["error"]) == (404, "there is only the page cells")


def test_a_defect_behind_a_page_is_a_500_of_the_one_shape(client: Client, runtime: FixedRuntime):
    runtime.failure = KeyError("secret detail")

    answer = client.get("/v1/inspect/pods")

    assert answer.status == 500
    assert answer.json == {
        "error": "/v1/inspect/pods failed: KeyError; the log says more",
        "field": None,
        "code": "InternalError",
        "retry_after": None,
    }


def test_the_front_page_links_to_every_page(client: Client):
    index = client.get("/").json

    assert index["verbs"] == ["/filter", "/prioritize", "/preempt", "/bind"]
    for path in index["pages"]:
        if "{" not in path:
            assert client.get(path).status == 200, path


def test_openapi_describes_verbs_and_pages(client: Client):
    described = client.get("/openapi.json").json

    filter_verb = described["paths"]["/filter"]["post"]
    asked = filter_verb["requestBody"]["content"]["application/json"]["schema"]
    answered = filter_verb["responses"]["200"]["content"]["application/json"]["schema"]
    assert {"Pod", "NodeNames", "Nodes"} == asked["properties"].keys()
    assert answered == {"$ref": "#/components/schemas/ExtenderFilterResult"}
    assert "422" not in str(described["paths"])
    identifiers = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert len(set(identifiers)) == len(identifiers)


def test_metrics_show_verbs_and_the_runtimes_numbers(client: Client, runtime: FixedRuntime):
    runtime.metrics = [
        Metric("waggle_scheduling_attempts_total", "counter", "By result.", [({"result": "scheduled"}, 2.0)]),
        Metric("waggle_cache_size", "gauge", "By type.", [({"type": "nodes"}, 3.0), ({"type": "pods"}, 4.0)]),
        Metric("waggle_nudges", "counter", "No labels.", [({}, 1.0)]),
    ]
    client.post("/filter", capture("filter-nodenames"))
    client.post("/preempt", b"")

    text = client.get("/metrics").text

    assert 'waggle_scheduling_attempts_total{result="scheduled"} 2.0' in text
    assert 'waggle_cache_size{type="pods"} 4.0' in text
    assert "waggle_nudges_total 1.0" in text
    assert 'waggle_extender_duration_seconds_count{code="200",verb="filter"}' in text
    assert 'waggle_extender_duration_seconds_count{code="400",verb="preempt"}' in text
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("version", ["x", "", "1.x", "-1", "1" * 5000])
@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
def test_metrics_are_shown_whatever_format_is_asked_for(client: Client, kind: str, version: str):
    with closing(client.connect()) as connection:
        connection.request("GET", "/metrics", headers={"accept": f"{kind};version={version};escaping=none"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"waggle_extender_duration_seconds" in answer.read()


def test_metrics_count_the_log_lines_that_were_left_out(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("extender.web.pages.metrics.suppressed_lines", lambda: {"bad_request": 7})
    assert 'waggle_log_lines_suppressed_total{event="bad_request"} 7.0' in client.get("/metrics").text
