"""What a ReplicaSet does about pods that leave it or come to it, on any API server with its controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.apiserver.api import JSON_PATCH, Api, eventually
from tests.support.apiserver.cluster_objects import pod


def sets(api: Api, rest: str = "") -> str:
    return api.path(f"replicasets{rest}", "apis/apps/v1")


def make(api: Api, replicas: int, **spec: Any) -> dict[str, Any]:
    """A ReplicaSet with so many pods, which are on no node unless `spec` of the pods says so."""
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("x", **spec)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    response = api.post(sets(api), {"metadata": {"name": "web"}, "spec": spec})
    assert response.status_code == 201, response.text
    eventually(lambda: api.get(sets(api, "/web")).json()["status"].get("replicas", 0) == replicas)
    return response.json()


def scale(api: Api, replicas: int) -> None:
    api.patch(sets(api, "/web"), {"spec": {"replicas": replicas}})


def detach(api: Api, name: str) -> None:
    """As a claim does it: owner and label go in one patch, and the mark comes."""
    steps = [
        {"op": "remove", "path": "/metadata/ownerReferences"},
        {"op": "remove", "path": "/metadata/labels/app"},
        {"op": "add", "path": "/metadata/annotations", "value": {"waggle.dev/claim": "{}"}},
    ]
    response = api.patch(f"pods/{name}", steps, JSON_PATCH)
    assert response.status_code == 200, response.text


def alive(api: Api) -> set[str]:
    listed = api.get("pods").json()["items"]
    return {each["metadata"]["name"] for each in listed if "deletionTimestamp" not in each["metadata"]}


def a_pod_that_is_taken_out_is_replaced_and_outlives_the_replica_set(api: Api) -> None:
    make(api, 2)
    taken = api.names("pods")[0]
    detach(api, taken)
    eventually(lambda: len(api.names("pods", labelSelector="app=a")) == 2)
    assert len(api.names("pods")) == 3
    api.delete(sets(api, "/web"))
    eventually(lambda: api.names("pods") == [taken])


def a_pod_whose_labels_change_is_given_up(api: Api) -> None:
    make(api, 1)
    (name,) = api.names("pods")
    api.patch(f"pods/{name}", {"metadata": {"labels": {"app": "b"}}})
    eventually(lambda: "ownerReferences" not in api.get(f"pods/{name}").json()["metadata"])
    eventually(lambda: len(api.names("pods", labelSelector="app=a")) == 1)


def a_pod_without_a_controller_is_adopted_and_may_be_surplus(api: Api) -> None:
    uid = make(api, 1)["metadata"]["uid"]
    api.create_pod("stray", labels={"app": "a"})
    eventually(lambda: len(alive(api)) == 1)
    (left,) = alive(api)
    detach(api, left)
    with api.watch("pods", fieldSelector=f"metadata.name={left}", timeoutSeconds=30) as events:
        api.patch(f"pods/{left}", {"metadata": {"labels": {"app": "a"}}})
        # Whether it or the one in its place is surplus then is another question.
        assert any(uid in str(event) for event in events), "nobody adopted it"


def pods_of_other_controllers_and_namespaces_are_not_adopted(api: Api) -> None:
    config = api.post("configmaps", {"metadata": {"name": "c"}}).json()["metadata"]
    controller = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": config["uid"], "controller": True}
    body = pod("theirs", api.namespace, labels={"app": "a"})
    body["metadata"]["ownerReferences"] = [controller]
    assert api.post("pods", body).status_code == 201
    make(api, 1)
    away = f"/api/v1/namespaces/{api.namespace}-x/pods"
    assert api.post(away, pod("away", f"{api.namespace}-x", labels={"app": "a"})).status_code == 201
    scale(api, 2)
    eventually(lambda: len(alive(api)) == 3)
    assert api.get("pods/theirs").json()["metadata"]["ownerReferences"] == [controller]
    assert "ownerReferences" not in api.get(f"{away}/away").json()["metadata"]


CHECKS: tuple[Callable[[Api], None], ...] = (
    a_pod_that_is_taken_out_is_replaced_and_outlives_the_replica_set,
    a_pod_whose_labels_change_is_given_up,
    a_pod_without_a_controller_is_adopted_and_may_be_surplus,
    pods_of_other_controllers_and_namespaces_are_not_adopted,
)
