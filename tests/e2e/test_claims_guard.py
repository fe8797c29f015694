"""The policies of components/claims-guard in force on a real API server: what they refuse, to whom, and what they let
through. A request that nobody should make is made for real, in the name of the account that is to be refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from extender.claims.writes.names import CLAIM_ANNOTATION, CLAIM_LABEL, SURPLUS_ANNOTATION
from tests.e2e.claims import ClaimCluster, claim_cluster
from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.guard import CLAIMS, COLLECTOR, REPLICASETS, acting_as, guarded
from tests.e2e.hands import Object, eventually

#: Also where claims are served beside the extender.
BESIDE = "system:serviceaccount:waggle-system:waggle"
MARK = {CLAIM_ANNOTATION: '{"claim":"forged","pool":"warm"}'}
FORGED = {"annotations": MARK, "labels": {CLAIM_LABEL: "forged"}}
EVERYBODY = (REPLICASETS, COLLECTOR, "system:kube-scheduler", "system:serviceaccount:default:somebody", "")


@pytest.fixture(scope="module", params=["detach", "recycle"])
def c(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ClaimCluster]:
    """A pool and a server, with the policies in force."""
    with guarded(plane), claim_cluster(plane, request.param) as made:
        made.deploy(4)
        made.serve("a")
        made.idle(4)
        yield made


@pytest.fixture
def claimed(c: ClaimCluster) -> Iterator[str]:
    """The name of a pod that has just been claimed, and is not again before the test is over."""
    c.idle(1)
    with c.callers(1, keys=False) as calls:
        pass
    (uid,) = calls.claimed()
    yield next(pod["metadata"]["name"] for pod in c.list("Pod") if pod["metadata"]["uid"] == uid)
    for _, answer in calls.answers:
        assert answer is not None
        c.ask("a", f"/v1/claims/{answer.json()['id']}", "DELETE")


def idle(c: ClaimCluster) -> str:
    """The name of a pod that is."""
    c.idle(1)
    name: str = next(pod["metadata"]["name"] for pod in c.idle_pods() if pod["status"]["phase"] == "Running")
    return name


def patch(c: ClaimCluster, pod: str, body: Mapping[str, Any], account: str = "", part: str = "") -> httpx.Response:
    path = f"/api/v1/namespaces/{c.namespace}/pods/{pod}{f'/{part}' if part else ''}"
    kind = "application/strategic-merge-patch+json"
    return c.http.patch(path, content=json.dumps(body), headers={"content-type": kind, **acting_as(account)})


def refusal(answer: httpx.Response) -> str:
    """The policy that refused it; "" if it was done."""
    if answer.is_success:
        return ""
    found = re.search(r"ValidatingAdmissionPolicy '([^']+)'", answer.text)
    assert answer.status_code == 422, answer.text
    assert found, answer.text
    return found[1]


def lives(c: ClaimCluster, name: str) -> bool:
    pod = c.get(name)
    return pod is not None and "deletionTimestamp" not in pod["metadata"]


# -- replicasets.yaml -------------------------------------------------------------------------------------------------


def test_the_replicaset_controller_is_denied_what_was_just_claimed(c: ClaimCluster, claimed: str) -> None:
    assert c.deletes(claimed, REPLICASETS) == 422
    assert lives(c, claimed)
    free = idle(c)
    assert c.deletes(free, REPLICASETS) == 200
    assert not lives(c, free)


def test_the_garbage_collector_is_denied_what_has_no_owner_any_more(c: ClaimCluster, claimed: str) -> None:
    """Where pods recycle, one of a deleted ReplicaSet is garbage, claimed or not."""
    assert c.deletes(claimed, COLLECTOR) == (422 if c.mode == "detach" else 200)
    assert lives(c, claimed) is (c.mode == "detach")
    assert c.deletes(idle(c), COLLECTOR) == 200


@pytest.mark.parametrize(
    "account",
    [
        "",
        "system:node:n0",
        "system:serviceaccount:kube-system:pod-garbage-collector",
        "system:serviceaccount:a:someone",
    ],
)
def test_everybody_else_deletes_claimed_pods(c: ClaimCluster, claimed: str, account: str) -> None:
    """The kubelet that has ended one, the controller that removes those of lost nodes, people."""
    assert c.deletes(claimed, account) == 200


def test_a_claimed_pod_is_evicted(c: ClaimCluster, claimed: str) -> None:
    """`kubectl drain`."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": claimed}}
    answer = c.http.post(f"/api/v1/namespaces/{c.namespace}/pods/{claimed}/eviction", json=body)
    assert answer.status_code == 201, answer.text
    assert not lives(c, claimed)


# -- marks.yaml -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "status"])
def test_nobody_but_waggle_claims_a_pod_by_writing_it_on_it(c: ClaimCluster, part: str) -> None:
    free = idle(c)
    for account in EVERYBODY:
        for metadata in (FORGED, {"annotations": MARK}, {"labels": FORGED["labels"]}):
            assert refusal(patch(c, free, {"metadata": metadata}, account, part)) == "waggle-claim-marks"
    assert (
        CLAIM_LABEL not in describe(c.http.get(f"/api/v1/namespaces/{c.namespace}/pods/{free}"))["metadata"]["labels"]
    )


@pytest.mark.parametrize("part", ["", "status"])
def test_nobody_but_waggle_takes_a_claim_off_a_pod_or_makes_it_another(
    c: ClaimCluster, claimed: str, part: str
) -> None:
    for account in EVERYBODY:
        for metadata in (
            FORGED,
            {"annotations": {CLAIM_ANNOTATION: None}},
            {"labels": {CLAIM_LABEL: None}},
            {"labels": None, "annotations": None},
        ):
            assert refusal(patch(c, claimed, {"metadata": metadata}, account, part)) == "waggle-claim-marks"


def test_the_other_sub_resources_of_a_pod_write_no_claim(c: ClaimCluster) -> None:
    free = idle(c)
    for part in ("ephemeralcontainers", "resize"):
        patch(c, free, {"metadata": FORGED}, part=part)
    pod = c.get(free)
    assert pod is not None
    assert CLAIM_LABEL not in pod["metadata"]["labels"]
    assert CLAIM_ANNOTATION not in pod["metadata"].get("annotations", {})


def test_no_binding_writes_a_claim(c: ClaimCluster) -> None:
    """The API server copies a binding's annotations and labels to the pod."""
    c.pod("unbound", schedulerName="nobody")
    here = f"/api/v1/namespaces/{c.namespace}"
    binding: Object = {"metadata": {"name": "unbound"}, "target": {"kind": "Node", "name": "n0"}}
    for path in (f"{here}/pods/unbound/binding", f"{here}/bindings"):
        assert (
            refusal(c.http.post(path, json={**binding, "metadata": {"name": "unbound", **FORGED}}))
            == "waggle-claim-marks"
        )
    assert refusal(c.http.post(f"{here}/pods/unbound/binding", json=binding)) == ""
    c.delete("unbound", grace=0)


def test_no_pod_is_created_with_a_claim(c: ClaimCluster) -> None:
    spec = c.pod_spec(schedulerName="nobody")
    for metadata in (FORGED, {"annotations": MARK}, {"labels": FORGED["labels"]}):
        body = {"metadata": {"name": "forged", **metadata}, "spec": spec}
        assert refusal(c.http.post(f"/api/v1/namespaces/{c.namespace}/pods", json=body)) == "waggle-claim-marks"
    template = {"metadata": {"labels": {"app": "x", CLAIM_LABEL: "forged"}}, "spec": spec}
    more = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    c.create({"kind": "ReplicaSet", "metadata": {"name": "forger"}, "spec": more})
    try:
        refused = eventually(lambda: c.get("forger", "ReplicaSet")["status"].get("conditions"), "it fails")  # type: ignore[index]
        assert "waggle-claim-marks" in refused[0]["message"]
    finally:
        c.delete("forger", "ReplicaSet")


def test_everything_else_on_a_claimed_pod_is_everybodys(c: ClaimCluster, claimed: str) -> None:
    """Labels and annotations, also those of the pool and of the scale-down; and what kubelets report."""
    for account in EVERYBODY:
        for metadata in (
            {"labels": {"team": "a"}, "annotations": {"note": "mine", SURPLUS_ANNOTATION: None}},
            {"labels": {"team": None}},
            {"finalizers": ["example.test/x"]},
            {"$deleteFromPrimitiveList/finalizers": ["example.test/x"]},
        ):
            assert refusal(patch(c, claimed, {"metadata": metadata}, account)) == ""
        assert refusal(patch(c, claimed, {"status": {"message": "busy"}}, account, "status")) == ""


# -- writes.yaml ------------------------------------------------------------------------------------------------------

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
TOLERATION = {"key": "any", "operator": "Exists"}


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "ours"}}},
        {"metadata": {"annotations": {"note": "ours"}}},
        {"metadata": {"ownerReferences": [{"$patch": "replace"}]}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"containers": [{"name": "main", "image": "registry.test/evil:1"}]}},
    ],
    ids=str,
)
def test_the_account_of_claims_changes_no_pod_without_a_claim(c: ClaimCluster, change: Mapping[str, Any]) -> None:
    assert refusal(patch(c, idle(c), change, CLAIMS)) == "waggle-claim-writes"


@pytest.mark.parametrize("account", [CLAIMS, BESIDE])
@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"tolerations": [TOLERATION]}},
        {"metadata": {"finalizers": ["waggle.dev/for-ever"]}},
        {"metadata": {"ownerReferences": [OWNER]}},
    ],
    ids=str,
)
def test_nor_does_it_change_more_of_a_claimed_one_than_a_claim_does(
    c: ClaimCluster, claimed: str, change: dict[str, Any], account: str
) -> None:
    if "tolerations" in change.get("spec", {}):  # the API server only lets add some, and the patch replaces the list
        pod = c.get(claimed)
        assert pod is not None
        change = {"spec": {"tolerations": [*pod["spec"].get("tolerations", ()), TOLERATION]}}
    assert refusal(patch(c, claimed, change, account)) == "waggle-claim-writes"


@pytest.mark.parametrize("account", [CLAIMS, BESIDE])
def test_what_claims_do_is_let_through(c: ClaimCluster, claimed: str, account: str) -> None:
    """Beside what the servers of these tests do all the time: images, marks of pods that may go, and their end."""
    images = {"spec": {"containers": [{"name": "main", "image": "registry.test/other:1"}]}}
    assert refusal(patch(c, claimed, images, account)) == ""
    free = idle(c)
    cost = "controller.kubernetes.io/pod-deletion-cost"
    for marks in ({SURPLUS_ANNOTATION: "1", cost: "-2147483648"}, {SURPLUS_ANNOTATION: None, cost: None}):
        assert refusal(patch(c, free, {"metadata": {"annotations": marks}}, account)) == ""
    assert refusal(patch(c, free, {"metadata": {"annotations": MARK, "labels": {CLAIM_LABEL: "c"}}}, account)) == ""
    assert c.deletes(free, account) == 200
