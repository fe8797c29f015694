"""kubectl as a function, and what Pools and Claims must look like through it, on any API server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
Object = dict[str, Any]
POOL: Object = {
    "apiVersion": "waggle.dev/v1alpha1",
    "kind": "Pool",
    "metadata": {"name": "warm"},
    "spec": {"selector": {"matchLabels": {"app": "warm"}}, "limits": {"maxPending": 10}},
}
CLAIM: Object = {
    "apiVersion": "waggle.dev/v1alpha1",
    "kind": "Claim",
    "metadata": {"name": "mine"},
    "spec": {"poolRef": {"name": "warm"}, "requires": {"gpu": "a"}},
}


class Kubectl:
    """kubectl with one kubeconfig. Words of a line, then arguments with blanks in them."""

    def __init__(self, program: str | Path, kubeconfig: Path, home: Path, namespace: str = "default") -> None:
        self._command = [str(program), "--kubeconfig", str(kubeconfig), "--namespace", namespace]
        self._environment = {**os.environ, "HOME": str(home)}

    def run(self, line: str, *more: str, given: object = None) -> subprocess.CompletedProcess[str]:
        text = "" if given is None else yaml.safe_dump(given)
        return subprocess.run(
            [*self._command, *line.split(), *more],
            input=text,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def __call__(self, line: str, *more: str, given: object = None) -> str:
        done = self.run(line, *more, given=given)
        assert done.returncode == 0, f"kubectl {line}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, line: str) -> Any:
        return json.loads(self(f"{line} -o json"))


def install(kubectl: Kubectl) -> None:
    """The definitions of manifests/crds, and a Pool."""
    kubectl("apply -k", str(CRDS))
    kubectl("wait --for=condition=Established --timeout=30s crd/pools.waggle.dev crd/claims.waggle.dev")
    kubectl("apply -f -", given=POOL)


def _a_pool_has_its_defaults_and_columns(kubectl: Kubectl) -> None:
    spec = kubectl.json("get pool warm")["spec"]
    assert (spec["mode"], spec["order"], spec["replicas"]) == ("detach", "fifo", 0)
    assert spec["limits"]["maxPending"] == 10
    assert spec["limits"]["maxPodsPerClaim"] == 64
    assert spec["defaults"] == {"leaseSeconds": 3600, "waitSeconds": 30}
    header, row = kubectl("get pools").splitlines()
    assert header.split() == ["NAME", "MODE", "IDLE", "CLAIMED", "STARTING", "PENDING", "READY", "AGE"]
    assert row.split()[:2] == ["warm", "detach"]
    assert "pool.waggle.dev/warm" in kubectl("get waggle -o name")


def _what_was_applied_is_unchanged(kubectl: Kubectl) -> None:
    assert "unchanged" in kubectl("apply -f -", given=POOL)
    assert "unchanged" in kubectl("apply -k", str(CRDS))


def _a_claim_can_be_waited_for(kubectl: Kubectl) -> None:
    kubectl("apply -f -", given=CLAIM)
    assert kubectl.run("wait --for=condition=Ready --timeout=1s claim/mine").returncode != 0
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-23T00:00:00Z", "reason": "Claimed"}
    pods = [{"name": "warm-1", "uid": "u", "node": "n1", "addresses": ["10.0.0.1"]}]
    status = {"phase": "Claimed", "conditions": [condition], "pods": pods, "leaseExpires": "2026-11-23T01:00:00Z"}
    kubectl("patch claim mine --subresource=status --type=merge -p", json.dumps({"status": status}))
    assert "condition met" in kubectl("wait --for=condition=Ready --timeout=20s claim/mine")
    header, row = kubectl("get claims -o wide").splitlines()
    assert header.split() == ["NAME", "POOL", "PHASE", "POD", "READY", "REASON", "NODE", "EXPIRES", "AGE"]
    assert row.split()[:5] == ["mine", "warm", "Claimed", "warm-1", "True"]
    header = kubectl("get claims").splitlines()[0]
    assert header.split() == ["NAME", "POOL", "PHASE", "POD", "READY", "REASON", "AGE"]
    found = kubectl.json("get claim mine")
    assert (found["metadata"]["generation"], found["spec"]["count"]) == (1, 1)
    kubectl("delete claim mine")


def _a_pool_can_be_scaled(kubectl: Kubectl) -> None:
    status = {"replicas": 2, "selector": "app=warm"}
    kubectl("patch pool warm --subresource=status --type=merge -p", json.dumps({"status": status}))
    kubectl("scale pool/warm --replicas=3")
    assert kubectl.json("get pool warm")["spec"]["replicas"] == 3
    assert kubectl.run("scale pool/warm --replicas=100001").returncode != 0
    kubectl("scale pool/warm --replicas=0")


def _a_misspelt_field_is_refused(kubectl: Kubectl) -> None:
    wrong = {**POOL, "spec": {**POOL["spec"], "limitz": {}}}
    assert 'unknown field "spec.limitz"' in kubectl.run("apply --validate=strict -f -", given=wrong).stderr


def _a_wrong_value_is_refused_and_the_field_named(kubectl: Kubectl) -> None:
    for spec, text in (
        ({"mode": "keep"}, 'spec.mode: Unsupported value: "keep"'),
        ({"selector": {"matchLabels": {}}}, "spec.selector.matchLabels"),
        ({"limits": {"maxPending": 0}}, "spec.limits.maxPending"),
        ({"autoscaler": {"buffer": "one"}}, "spec.autoscaler.maxReplicas: Required value"),
    ):
        done = kubectl.run("create -f -", given={**POOL, "metadata": {"name": "x"}, "spec": {**POOL["spec"], **spec}})
        assert done.returncode != 0
        assert text in done.stderr, done.stderr


def _fields_are_explained(kubectl: Kubectl) -> None:
    assert "Requests that may wait, of all tenants." in kubectl("explain pool.spec.limits.maxPending")
    assert "waggle.dev" in kubectl("explain claim")


CHECKS: tuple[Callable[[Kubectl], None], ...] = (
    _a_pool_has_its_defaults_and_columns,
    _what_was_applied_is_unchanged,
    _a_claim_can_be_waited_for,
    _a_pool_can_be_scaled,
    _a_misspelt_field_is_refused,
    _a_wrong_value_is_refused_and_the_field_named,
    _fields_are_explained,
)
