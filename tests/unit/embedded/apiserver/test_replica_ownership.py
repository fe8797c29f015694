"""ReplicaSets give pods up and adopt them; what they see late, they kill: the traps of pods that are taken out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.cluster_objects import node
from tests.support.apiserver.ownership import CHECKS, alive, detach, make, scale, sets

_numbers = itertools.count(1)
LAG = 0.3
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY: dict[str, Any] = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]},
        ]
    },
    "matchConditions": [
        {
            "name": "by-replicasets",
            "expression": 'request.userInfo.username == "system:serviceaccount:kube-system:replicaset-controller"',
        }
    ],
    "validations": [{"expression": '!("waggle.dev/claim" in oldObject.metadata.?annotations.orValue({}))'}],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(stop_delay=0.01) as cluster:
        cluster.apply(node("n1"))
        yield cluster


@pytest.fixture(scope="module")
def lagging() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(stop_delay=0.01, pod_lag=LAG) as cluster:
        cluster.apply(node("n1"))
        yield cluster


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    chosen: EmbeddedCluster = request.getfixturevalue(getattr(request, "param", "cluster"))
    client = Api(chosen.url, namespace=f"r{next(_numbers)}")
    yield client
    client.delete(sets(client, "/web"))
    client.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_ownership(api: Api, check: Callable[[Api], None]) -> None:
    check(api)


def test_the_newest_pod_goes_first_however_late_others_were_changed(api: Api) -> None:
    make(api, 1)
    (oldest,) = api.names("pods")
    scale(api, 3)
    eventually(lambda: api.get(sets(api, "/web")).json()["status"].get("replicas", 0) == 3)
    api.patch(f"pods/{oldest}", {"metadata": {"annotations": {"changed": "last"}}})
    scale(api, 1)
    eventually(lambda: alive(api) == {oldest})


@pytest.mark.parametrize("api", ["lagging"], indirect=True)
def test_a_replica_set_that_sees_late_kills_what_is_not_its_own_any_more(api: Api) -> None:
    make(api, 2, nodeName="n1")
    taken = api.names("pods")
    for name in taken:
        detach(api, name)
    scale(api, 0)
    eventually(lambda: not alive(api))


@pytest.mark.parametrize("api", ["lagging"], indirect=True)
def test_a_policy_keeps_it_from_doing_so(api: Api) -> None:
    binding = {"policyName": "claims", "validationActions": ["Deny"]}
    api.post(f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "claims"}, "spec": POLICY})
    api.post(f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "claims"}, "spec": binding})
    make(api, 3, nodeName="n1")
    kept, *taken = api.names("pods")
    for name in taken:
        detach(api, name)
    scale(api, 0)
    # It tries all of them, is refused two, and sees later that they are not its own.
    eventually(lambda: kept not in alive(api))
    eventually(lambda: api.get(sets(api, "/web")).json()["status"]["replicas"] == 0)
    assert alive(api) == set(taken)
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        api.delete(f"{ADMISSION}/{kind}/claims")


@pytest.mark.parametrize("api", ["lagging"], indirect=True)
def test_it_counts_its_own_writes_at_once(api: Api) -> None:
    make(api, 3, nodeName="n1")
    scale(api, 5)
    eventually(lambda: len(alive(api)) == 5)
    scale(api, 1)
    eventually(lambda: len(alive(api)) == 1)
    eventually(lambda: api.get(sets(api, "/web")).json()["status"].get("readyReplicas") == 1)
    eventually(lambda: len(api.names("pods")) == 1)
