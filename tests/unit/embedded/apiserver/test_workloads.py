"""ReplicaSets, StatefulSets and deployments have the pods that they say; scale, owners and lost nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from extender.embedded.apiserver import ApiError, EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import JSON_PATCH, Api, eventually, reason
from tests.support.apiserver.cluster_objects import node, pod

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(stop_delay=0.01) as cluster:
        cluster.apply(node("n1"))
        yield cluster


@pytest.fixture
def api(cluster: EmbeddedCluster) -> Iterator[Api]:
    client = Api(cluster.url, namespace=f"w{next(_numbers)}")
    yield client
    client.close()


def workload(kind: str, replicas: int, *, bound: bool = True, **spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod("x", **({"nodeName": "n1"} if bound else {}))["spec"]}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": whole}


def path(api: Api, plural: str, rest: str = "") -> str:
    return api.path(f"{plural}{rest}", "apis/apps/v1")


def create(api: Api, plural: str, body: dict[str, Any]) -> dict[str, Any]:
    response = api.post(path(api, plural), body)
    assert response.status_code == 201, response.text
    return response.json()


def ready(api: Api, plural: str, count: int) -> None:
    eventually(
        lambda: (
            api.get(path(api, plural, "/web")).json()["status"].get("readyReplicas", 0)
            == len(api.names("pods"))
            == count
        )
    )


def test_a_stateful_set_starts_its_pods_in_order(api: Api) -> None:
    create(api, "statefulsets", workload("StatefulSet", 3, bound=False, serviceName="svc"))
    eventually(lambda: api.names("pods") == ["web-0"])
    first = api.get("pods/web-0").json()
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("web-0", "svc")
    assert first["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert first["metadata"]["ownerReferences"][0]["controller"]
    api.bind("web-0", "n1")
    eventually(lambda: api.names("pods") == ["web-0", "web-1"])
    api.bind("web-1", "n1")
    eventually(lambda: api.names("pods") == ["web-0", "web-1", "web-2"])


def test_a_parallel_stateful_set_starts_all_at_once_and_counts_from_where_it_says(api: Api) -> None:
    body = workload("StatefulSet", 2, bound=False, podManagementPolicy="Parallel", ordinals={"start": 5})
    create(api, "statefulsets", body)
    eventually(lambda: api.names("pods") == ["web-5", "web-6"])


def test_a_deleted_pod_of_a_stateful_set_comes_back_under_its_name(api: Api) -> None:
    create(api, "statefulsets", workload("StatefulSet", 2))
    ready(api, "statefulsets", 2)
    before = api.get("pods/web-0").json()["metadata"]["uid"]
    api.delete("pods/web-0")
    eventually(lambda: api.get("pods/web-0").json()["metadata"].get("uid", before) != before)


def test_a_changed_template_rolls_the_pods_from_the_highest_ordinal_down(api: Api) -> None:
    create(api, "statefulsets", workload("StatefulSet", 3, updateStrategy={"rollingUpdate": {"partition": 1}}))
    ready(api, "statefulsets", 3)
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "new:2"}]
    api.patch(path(api, "statefulsets", "/web"), image, JSON_PATCH)

    def images() -> list[str]:
        return [each["spec"]["containers"][0]["image"] for each in api.get("pods").json()["items"]]

    eventually(lambda: images() == ["registry.test/app:1", "new:2", "new:2"])
    status = eventually(lambda: _status(api, "statefulsets", updatedReplicas=2, readyReplicas=3))
    assert status["currentRevision"] != status["updateRevision"]


def _status(api: Api, plural: str, **wanted: int) -> dict[str, Any]:
    status: dict[str, Any] = api.get(path(api, plural, "/web")).json()["status"]
    return status if wanted.items() <= status.items() else {}


def test_scale_is_read_and_written_for_every_workload(api: Api) -> None:
    create(api, "statefulsets", workload("StatefulSet", 1))
    ready(api, "statefulsets", 1)
    where = path(api, "statefulsets", "/web/scale")
    scale = api.get(where).json()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    assert api.put(where, {**scale, "spec": {"replicas": 3}}).json()["spec"] == {"replicas": 3}
    assert reason(api.put(where, {**scale, "spec": {"replicas": 4}})) == (409, "Conflict")
    ready(api, "statefulsets", 3)
    assert api.patch(where, {"spec": {"replicas": 1}}).status_code == 200
    ready(api, "statefulsets", 1)
    assert api.names("pods") == ["web-0"]


@pytest.mark.parametrize("replicas", ["many", True, 1.5])
def test_a_scale_that_is_no_number_is_refused(api: Api, replicas: object) -> None:
    create(api, "replicasets", workload("ReplicaSet", 0))
    refused = api.patch(path(api, "replicasets", "/web/scale"), {"spec": {"replicas": replicas}})
    assert reason(refused) == (400, "BadRequest")
    assert "spec.replicas" in refused.json()["message"]


def test_a_replica_set_keeps_the_pods_that_would_be_missed_most(api: Api) -> None:
    create(api, "replicasets", workload("ReplicaSet", 3, bound=False))
    eventually(lambda: len(api.names("pods")) == 3)
    placed = api.names("pods")[1]
    api.bind(placed, "n1")
    api.patch(path(api, "replicasets", "/web"), {"spec": {"replicas": 1}})
    eventually(lambda: api.names("pods") == [placed])


def test_a_deployment_moves_to_a_new_replica_set(api: Api) -> None:
    create(api, "deployments", workload("Deployment", 2))
    ready(api, "deployments", 2)
    labels = {"metadata": {"labels": {"app": "a", "tier": "new"}}}
    api.patch(path(api, "deployments", "/web"), {"spec": {"template": labels}})
    eventually(lambda: not api.names("pods", labelSelector="!tier"))
    eventually(lambda: len(api.names("pods", labelSelector="tier=new")) == 2)
    sets = api.get(path(api, "replicasets")).json()["items"]
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 2]


def test_what_a_deleted_workload_owned_goes_or_is_orphaned(api: Api) -> None:
    create(api, "deployments", workload("Deployment", 2))
    ready(api, "deployments", 2)
    api.delete(path(api, "deployments", "/web"), propagationPolicy="Orphan")
    (orphan,) = api.get(path(api, "replicasets")).json()["items"]
    assert not orphan["metadata"].get("ownerReferences")
    api.delete(path(api, "replicasets", f"/{orphan['metadata']['name']}"), {"propagationPolicy": "Background"})
    eventually(lambda: not api.names("pods"))


def test_pods_go_with_their_node(cluster: EmbeddedCluster, api: Api) -> None:
    cluster.apply(node("lost"))
    api.create_pod("on-it", nodeName="lost")
    api.create_pod("elsewhere", nodeName="n1")
    cluster.delete("nodes", "lost")
    eventually(lambda: api.names("pods") == ["elsewhere"])


def test_a_budgets_status_follows_its_pods(api: Api) -> None:
    create(api, "statefulsets", workload("StatefulSet", 3))
    budget = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": "34%", "selector": {"matchLabels": {"app": "a"}}}}
    where = api.path("poddisruptionbudgets", "apis/policy/v1")
    assert api.post(where, budget).status_code == 201

    def counts() -> tuple[int, ...]:
        status = api.get(f"{where}/b").json()["status"]
        return tuple(status[key] for key in ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"))

    eventually(lambda: counts() == (3, 3, 1, 2))
    api.create_pod("loose", labels={"app": "a"})
    eventually(lambda: counts() == (4, 3, 2, 1))


def test_a_template_that_the_selector_does_not_match_is_refused(api: Api) -> None:
    body = workload("StatefulSet", 1)
    body["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    refused = api.post(path(api, "statefulsets"), body)
    assert reason(refused) == (422, "Invalid")
    assert "does not match template" in refused.json()["message"]


@pytest.mark.parametrize("selector", [{"matchLabels": [1]}, {"matchExpressions": [{"key": "a"}]}, {"matchLabels": 1}])
def test_a_malformed_selector_is_refused(api: Api, selector: object) -> None:
    body = workload("StatefulSet", 1)
    body["spec"]["selector"] = selector
    budget = {"metadata": {"name": "b"}, "spec": {"selector": selector}}
    for response in (
        api.post(path(api, "statefulsets"), body),
        api.post(api.path("poddisruptionbudgets", "apis/policy/v1"), budget),
    ):
        assert reason(response) == (400, "BadRequest")
        assert "spec.selector" in response.json()["message"]


def test_a_controller_that_meets_nonsense_goes_on_with_the_rest(api: Api) -> None:
    create(api, "statefulsets", workload("StatefulSet", 1, ordinals={"start": "one"}))
    create(api, "replicasets", workload("ReplicaSet", 1))
    ready(api, "replicasets", 1)


def test_without_controllers_nothing_happens_by_itself() -> None:
    with serve_in_thread(controllers=False) as still:
        still.create(workload("ReplicaSet", 2))
        assert still.objects("pods") == []


def test_a_workload_that_may_not_create_pods_harms_nobody(cluster: EmbeddedCluster, api: Api) -> None:
    body = workload("ReplicaSet", 1)
    body["spec"]["template"]["spec"]["priorityClassName"] = "absent"
    create(api, "replicasets", body)
    api.create_pod("other")
    assert api.names("pods") == ["other"]
    with pytest.raises(ApiError):
        cluster.create(pod("x", priorityClassName="absent"))
