"""Pool and Claim objects on a real API server, by kubectl: two servers of claims look after them, under the rights and
the policies that are shipped, and scale the pool's Deployment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.claims import ClaimCluster, claim_cluster
from tests.e2e.cluster import ControlPlane
from tests.e2e.guard import guarded
from tests.e2e.hands import Object, eventually
from tests.support.kubectl import CRDS, Kubectl

HEAD = {"apiVersion": "waggle.dev/v1alpha1"}
#: Nothing stands in the configuration but that there are objects.
SERVER = {"pools": [], "custom_resources": True, "share_pools": True}
AUTOSCALER = {"maxReplicas": 30, "buffer": "one", "idleSeconds": 1, "cooldownSeconds": 1, "quietSeconds": 1}


class Cluster:
    """The pool's cluster, and kubectl in its namespace."""

    def __init__(self, c: ClaimCluster, kubectl: Kubectl) -> None:
        self.c, self.kubectl = c, kubectl

    def pool(self, **spec: Any) -> None:
        given = {"selector": {"matchLabels": {"pool": "warm"}}, "mode": self.c.mode, **spec}
        self.kubectl("apply -f -", given={**HEAD, "kind": "Pool", "metadata": {"name": "warm"}, "spec": given})

    def claims(self, *names: str, **spec: Any) -> None:
        whole = {"poolRef": {"name": "warm"}, **spec}
        items = [{**HEAD, "kind": "Claim", "metadata": {"name": name}, "spec": whole} for name in names]
        self.kubectl("apply -f -", given={"apiVersion": "v1", "kind": "List", "items": items})

    def status(self, name: str) -> Object:
        found: Object = self.kubectl.json(f"get {name}").get("status", {})
        return found

    def wait(self, name: str, condition: str = "Ready", seconds: int = 30) -> None:
        done = self.kubectl.run(f"wait --for=condition={condition} --timeout={seconds}s {name}")
        assert done.returncode == 0, f"{done.stderr}\n{yaml.safe_dump(self.status(name))}"


@pytest.fixture(scope="module")
def installed(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The definitions and the policies; a home for kubectl."""
    home = tmp_path_factory.mktemp("home")
    kubectl = Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home)
    kubectl("apply -k", str(CRDS))
    kubectl("wait --for=condition=Established --timeout=30s crd/pools.waggle.dev crd/claims.waggle.dev")
    with guarded(plane):
        yield home
    kubectl("delete --ignore-not-found -k", str(CRDS))


@pytest.fixture
def w(
    installed: Path, plane: ControlPlane, programs: Mapping[str, Path], request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    with claim_cluster(plane, request.param) as c:
        c.bind("waggle-claims-autoscaler")
        made = Cluster(c, Kubectl(programs["kubectl"], plane.kubeconfig("admin"), installed, c.namespace))
        try:
            yield made
        finally:
            for name, server in c.servers.items():
                if not server.alive:
                    c.serve(name)  # only a server removes the finalizers of claims
            made.kubectl("delete claims,pools --all --timeout=60s")


@pytest.mark.parametrize("w", ["detach", "recycle"], indirect=True)
def test_kubectl_waits_for_a_claim_renews_it_and_gives_it_back(w: Cluster) -> None:
    w.c.deploy(3)
    w.pool()
    w.c.serve("a", claims=SERVER)
    w.wait("pool/warm")
    w.claims("mine", leaseSeconds=600, labels={"team": "a"})
    w.wait("claim/mine")
    status = w.status("claim/mine")
    (pod,) = status["pods"]
    assert w.c.claimed() == {pod["uid"]: status["claim"]}
    row = w.kubectl("get claims --no-headers").split()
    assert row[:5] == ["mine", "warm", "Claimed", pod["name"], "True"]
    assert w.kubectl.json(f"get pod {pod['name']}")["metadata"]["labels"]["team"] == "a"
    time.sleep(1.1)  # the ends of leases are whole seconds
    w.kubectl("annotate claim/mine waggle.dev/renew=now")
    eventually(lambda: w.status("claim/mine")["leaseExpires"] > status["leaseExpires"], "the lease is longer")
    w.kubectl("wait --for=jsonpath={.status.claimed}=1 --timeout=10s pool/warm")
    w.kubectl("delete claim mine --timeout=20s")
    assert not w.c.claimed()
    w.c.idle(3)


@pytest.mark.parametrize("w", ["detach"], indirect=True)
def test_claims_outlive_a_killed_server_and_end_when_they_are_deleted(w: Cluster) -> None:
    """Two servers look after the same objects; one of them is killed, and the pods of claims are theirs still. What is
    deleted while nobody serves is given back as soon as somebody does."""
    names = [f"n{number}" for number in range(12)]
    w.c.deploy(20)
    w.pool()
    w.c.serve("a", claims=SERVER)
    w.c.serve("b", claims=SERVER)
    w.wait("pool/warm")
    w.claims(*names)
    w.c.servers["b"].kill()
    for name in names:
        w.wait(f"claim/{name}", seconds=60)
    told = {
        pod["uid"]: status["claim"]
        for name in names
        for status in [w.status(f"claim/{name}")]
        for pod in status["pods"]
    }
    assert len(told) == len(names)
    eventually(lambda: w.c.claimed() == told, "what no object names is given back", seconds=30)
    w.c.servers["a"].kill()
    w.kubectl("delete claims n0 n1 --wait=false")
    assert w.c.claimed() == told
    w.c.serve("a")
    w.kubectl("wait --for=delete --timeout=30s claim/n0 claim/n1")
    eventually(lambda: len(w.c.claimed()) == len(names) - 2, "their pods are given back")
    assert w.c.claimed().items() <= told.items()


@pytest.mark.parametrize("w", ["recycle"], indirect=True)
def test_a_pool_is_scaled_from_zero_for_claims_and_to_zero_after_them(w: Cluster) -> None:
    """By one of two servers. What is claimed is not deleted by it, although the Deployment shrinks meanwhile."""
    w.c.deploy(0)
    w.pool(workload={"name": "warm"}, autoscaler=AUTOSCALER)
    w.c.serve("a", claims=SERVER)
    w.c.serve("b", claims=SERVER)
    w.wait("pool/warm")
    names = [f"n{number}" for number in range(8)]
    w.claims(*names, waitSeconds=60)
    for name in names:
        w.wait(f"claim/{name}", seconds=60)
    told = w.c.claimed()
    assert len(told) == len(names)
    least = 0 if w.c.mode == "detach" else len(names)
    eventually(lambda: w.c.wanted() <= least + 2, lambda: f"{w.c.wanted()} replicas", seconds=60)
    assert w.c.alive(told) == told
    w.kubectl("scale pool/warm --replicas=12")
    eventually(lambda: w.c.ready() >= 12, lambda: f"{w.c.ready()} ready of {w.c.wanted()}", seconds=60)
    w.kubectl("scale pool/warm --replicas=0")
    w.kubectl("delete claims --all --timeout=30s")
    eventually(lambda: w.c.wanted() == 0 and not w.c.list("Pod"), lambda: f"{w.c.wanted()} replicas", seconds=90)
    w.kubectl("wait --for=jsonpath={.status.idle}=0 --timeout=20s pool/warm")


@pytest.mark.parametrize("w", ["detach"], indirect=True)
def test_callers_are_served_from_zero_and_the_pool_ends_at_zero(
    w: Cluster, record_property: pytest.RecordProperty
) -> None:
    """Over HTTP, with the pool in the configuration; the server that scales is killed in the middle."""
    c = w.c
    c.deploy(0)
    rules = {"max_replicas": 30, "buffer": "one", "idle_seconds": 1, "cooldown_seconds": 1, "quiet_seconds": 1}
    pool = {"workload": {"name": "warm"}, "autoscaler": rules}
    c.serve("a", claims={"share_pools": True}, **pool)
    c.serve("b", claims={"share_pools": True}, **pool)
    with c.callers(20, lease_seconds=600) as calls:
        c.middle(calls, 5)
        leading = eventually(lambda: next(filter(c.scales, c.servers), None), "one of them scales")
        c.servers[leading].kill()
    told = calls.claimed()
    assert len(told) == 20, calls.failed()
    assert c.alive(told) == told
    other = next(name for name in c.servers if name != leading)
    c.rest()
    c.release(set(c.claimed().values()), other)  # also one whose answer was lost
    eventually(lambda: c.wanted() == 0 and not c.list("Pod"), lambda: f"{c.wanted()} replicas", seconds=90)
    record_property(
        "measured", f"20 claims from a {c.mode} pool of no pods: p50 {calls.p(50):.1f} s, p99 {calls.p(99):.1f} s"
    )
