from __future__ import annotations

from typing import Any

import pytest

from tests.support.apiserver.api import Api, reason
from tests.support.apiserver.cluster_objects import binding, pod


def test_a_binding_sets_node_condition_labels_and_annotations_in_one_write(api: Api) -> None:
    created = api.create_pod("a", annotations={"keep": "1"})
    version = int(created["metadata"]["resourceVersion"])
    answer = api.bind("a", "n1", annotations={"waggle.dev/device": "0"}, labels={"rack": "r1"})
    assert answer.status_code == 201
    assert (answer.json()["kind"], answer.json()["status"]) == ("Status", "Success")
    bound = api.get("pods/a").json()
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"keep": "1", "waggle.dev/device": "0"}
    assert bound["metadata"]["labels"] == {"rack": "r1"}
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    with api.watch("pods", resourceVersion=version, timeoutSeconds=1) as events:
        assert len(list(events)) == 1


def test_the_node_need_not_exist_and_the_uid_may_be_given(api: Api) -> None:
    uid = api.create_pod("a")["metadata"]["uid"]
    assert api.bind("a", "never-seen", uid=uid).status_code == 201


def test_a_binding_clears_the_nomination(api: Api) -> None:
    api.create_pod("a")
    api.patch("pods/a/status", {"status": {"nominatedNodeName": "n2"}})
    api.bind("a", "n1")
    assert "nominatedNodeName" not in api.get("pods/a").json()["status"]


def refused(response: Any, text: str) -> None:
    assert reason(response) == (409, "Conflict")
    assert text in response.json()["message"]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_bound_pod_stays_where_it_is(api: Api, node: str) -> None:
    api.create_pod("a")
    api.bind("a", "n1")
    refused(api.bind("a", node, annotations={"late": "1"}), 'pod a is already assigned to node "n1"')
    assert "annotations" not in api.get("pods/a").json()["metadata"]


def test_another_pod_of_the_same_name_is_not_bound(api: Api) -> None:
    old = api.create_pod("a")["metadata"]["uid"]
    api.delete("pods/a")
    new = api.create_pod("a")["metadata"]["uid"]
    text = f"Precondition failed: UID in precondition: {old}, UID in object meta: {new}"
    refused(api.bind("a", uid=old), text)
    assert "nodeName" not in api.get("pods/a").json()["spec"]


def test_a_gated_pod_is_not_bound(api: Api) -> None:
    api.create_pod("a", schedulingGates=[{"name": "wait"}])
    refused(api.bind("a"), "pod a has non-empty .spec.schedulingGates")


def test_a_terminating_pod_is_not_bound(api: Api) -> None:
    api.create_pod("a", finalizers=["waggle.dev/test"])
    api.delete("pods/a")
    refused(api.bind("a"), "pod a is being deleted, cannot be assigned to a host")


def test_a_pod_that_is_gone_is_not_found(api: Api) -> None:
    assert reason(api.bind("a")) == (404, "NotFound")


def test_a_pod_created_on_a_node_cannot_be_bound(api: Api) -> None:
    assert api.post("pods", pod("a", api.namespace, nodeName="n1")).status_code == 201
    refused(api.bind("a", "n1"), "already assigned")


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ({"kind": "Pod"}, 400, "not a Binding object"),
        (binding("b", "n1"), 400, "name in URL does not match name in Binding object"),
        (binding("a", ""), 422, "target.name: Required value"),
        ({**binding("a", "n1"), "target": {"kind": "Pod", "name": "x"}}, 422, "target.kind: Unsupported value"),
        ({**binding("a", "n1"), "target": "n1"}, 400, "target must be an object"),
        (binding("a", "n1", namespace="elsewhere"), 400, "namespace"),
        (binding("a", "n1", annotations={"x": 1}), 400, "metadata.annotations[x] must be a string"),
    ],
)
def test_malformed_bindings_are_refused(api: Api, body: Any, code: int, text: str) -> None:
    api.create_pod("a")
    response = api.post("pods/a/binding", body)
    assert response.status_code == code
    assert text in response.json()["message"]
    assert "nodeName" not in api.get("pods/a").json()["spec"]
