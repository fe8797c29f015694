"""What an operator applies, held against a real API server: it is accepted, and it allows what it should and no more.

Custom resources of cert-manager and the Prometheus operator are known by stand-ins without rules; everything else is
checked by the API server as it would be in a cluster, unknown and doubled fields included.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.apiserver.rbac import grants
from tests.support.manifests import MANIFESTS, OVERLAYS, ROOT, dangling, documents, insecure, render, unmatched

CRDS = ROOT / "tests" / "fixtures" / "manifests" / "crds.yaml"
WAGGLE = "system:serviceaccount:waggle-system:waggle"
NAMESPACE = "waggle-system"
COMPONENTS = sorted(path.parent.name for path in MANIFESTS.glob("components/*/kustomization.yaml"))
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "guarded", "labels": {"app": "theirs"}, "annotations": {"note": "theirs"}},
    # Nobody shall schedule it.
    "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "registry.test/app:1"}]},
}


class Kubectl:
    """kubectl as administrator of one cluster."""

    def __init__(self, kubeconfig: Path, program: Path) -> None:
        self.program = str(program)
        self._command = [self.program, "--kubeconfig", str(kubeconfig)]

    def __call__(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments], input=given, capture_output=True, text=True, check=False, timeout=120
        )

    def must(self, *arguments: str, given: str = "") -> str:
        done = self(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def apply(self, objects: list[dict[str, object]], *more: str) -> str:
        return self.must(
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=strict",
            "--filename=-",
            *more,
            given=yaml.safe_dump_all(objects),
        )


@pytest.fixture(scope="module")
def kubectl(request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """An API server that knows the namespace and the custom resources.

    That of the run; or one that is running, by WAGGLE_E2E_KUBECONFIG and WAGGLE_KUBECTL.
    """
    given = os.environ.get("WAGGLE_E2E_KUBECONFIG")
    if given:
        made = Kubectl(Path(given), Path(os.environ["WAGGLE_KUBECTL"]))
    else:
        plane, programs = request.getfixturevalue("plane"), request.getfixturevalue("programs")
        made = Kubectl(plane.kubeconfig("admin"), programs["kubectl"])
    made.must("apply", "--filename", str(CRDS))
    made.must("wait", "--for=condition=Established", "--timeout=60s", "--filename", str(CRDS))
    made.apply(documents(MANIFESTS / "base" / "namespace.yaml")[:1])
    yield made
    made.must("delete", "--filename", str(CRDS), "--ignore-not-found")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_server_accepts_every_overlay(kubectl: Kubectl, overlay: str) -> None:
    objects = render(overlay, kubectl.program)
    answer = kubectl.apply(objects, "--dry-run=server")
    assert len(answer.splitlines()) == len(objects)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_fits_together(kubectl: Kubectl, overlay: str) -> None:
    objects = render(overlay, kubectl.program)
    assert dangling(objects) + unmatched(objects) + insecure(objects) == []


def test_all_components_at_once_are_accepted(kubectl: Kubectl, tmp_path: Path) -> None:
    everything = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
        "components": [os.path.relpath(MANIFESTS / "components" / name, tmp_path) for name in COMPONENTS],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(everything), encoding="utf-8")
    objects = list(yaml.safe_load_all(kubectl.must("kustomize", str(tmp_path))))
    kubectl.apply(objects, "--dry-run=server")
    assert dangling(objects) + unmatched(objects) + insecure(objects) == []


# -- rights -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rights(kubectl: Kubectl) -> None:
    objects = documents(MANIFESTS / "base" / "rbac.yaml")
    for item in objects:
        if "Cluster" not in item["kind"]:
            item["metadata"]["namespace"] = NAMESPACE
    kubectl.apply(objects)


def may(kubectl: Kubectl, verb: str, resource: str, *more: str) -> bool:
    """Whether Waggle's service account may do it, in the words of `kubectl auth can-i`."""
    return kubectl("auth", "can-i", verb, resource, f"--as={WAGGLE}", *more).stdout.strip() == "yes"


@pytest.mark.usefixtures("rights")
def test_waggle_may_do_what_its_role_says_everywhere(kubectl: Kubectl) -> None:
    (role,) = (item for item in documents(MANIFESTS / "base" / "rbac.yaml") if item["kind"] == "ClusterRole")
    refused = []
    for verb, _, resource in grants(role["rules"]):
        name, _, sub = resource.partition("/")
        if not may(kubectl, verb, name, *([f"--subresource={sub}"] if sub else []), "--namespace=anywhere"):
            refused.append((verb, resource))
    assert refused == []


@pytest.mark.usefixtures("rights")
@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("delete", "pods"),
        ("create", "pods"),
        ("update", "pods"),
        ("create", "pods/exec"),
        ("patch", "pods/status"),
        ("patch", "nodes"),
        ("get", "secrets"),
        ("list", "configmaps"),
        ("create", "serviceaccounts/token"),
        ("create", "leases.coordination.k8s.io"),
        ("update", "leases.coordination.k8s.io/waggle"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("*", "*"),
    ],
)
def test_waggle_may_do_nothing_else(kubectl: Kubectl, verb: str, resource: str) -> None:
    name, _, sub = resource.partition("/")
    more = [f"--subresource={sub}"] if sub and not name.startswith("leases") else []
    asked = resource if name.startswith("leases") else name
    assert not may(kubectl, verb, asked, *more, "--namespace=default")


@pytest.mark.usefixtures("rights")
def test_the_lease_is_waggles_by_its_name_only(kubectl: Kubectl) -> None:
    here = f"--namespace={NAMESPACE}"
    assert may(kubectl, "create", "leases.coordination.k8s.io", here)
    assert may(kubectl, "update", "leases.coordination.k8s.io/waggle", here)
    assert not may(kubectl, "update", "leases.coordination.k8s.io/another", here)
    assert not may(kubectl, "delete", "leases.coordination.k8s.io/waggle", here)


# -- the guard ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(kubectl: Kubectl, rights: None) -> Iterator[Kubectl]:
    """A pod of somebody else, and the policy in force."""
    policy = documents(MANIFESTS / "components" / "pod-guard" / "policy.yaml")
    kubectl.must("create", "namespace", "guarded")
    kubectl.must("create", "--namespace=guarded", "--filename=-", given=yaml.safe_dump(POD))
    kubectl.apply(policy)
    _wait_until_in_force(kubectl)
    yield kubectl
    kubectl.must("delete", "--filename=-", given=yaml.safe_dump_all(policy))
    kubectl.must("delete", "namespace", "guarded", "--wait=false")


def patch(kubectl: Kubectl, change: dict[str, object], *more: str) -> str:
    """What the API server says to this merge patch; "" if it accepts it."""
    done = kubectl(
        "patch", "pod", "guarded", "--namespace=guarded", "--type=merge", f"--patch={json.dumps(change)}", *more
    )
    return done.stderr if done.returncode else ""


def _wait_until_in_force(kubectl: Kubectl) -> None:
    """The API server takes a second to read a new policy."""
    for _ in range(300):
        if patch(kubectl, {"metadata": {"labels": {"app": "x"}}}, f"--as={WAGGLE}", "--dry-run=server"):
            return
    raise AssertionError("the policy never came into force")


def test_the_guard_lets_through_what_waggle_does(guarded: Kubectl) -> None:
    as_waggle = f"--as={WAGGLE}"
    for value in ("1", None):
        assert patch(guarded, {"metadata": {"annotations": {"waggle.dev/nudge": value}}}, as_waggle) == ""
        assert patch(guarded, {"metadata": {"labels": {"waggle.dev/leads": value}}}, as_waggle) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "ours"}}},
        {"metadata": {"labels": {"app": None}}},
        {"metadata": {"labels": {"new": "one"}}},
        {"metadata": {"annotations": {"note": None}}},
        {"metadata": {"finalizers": ["waggle.dev/for-ever"]}},
        {"spec": {"containers": [{"name": "main", "image": "registry.test/evil:1"}]}},
        {"spec": {"activeDeadlineSeconds": 1}},
    ],
    ids=str,
)
def test_the_guard_refuses_everything_else(guarded: Kubectl, change: dict[str, object]) -> None:
    assert "waggle-pod-guard" in patch(guarded, change, f"--as={WAGGLE}")


def test_the_guard_lets_waggle_remove_its_own_gate_and_nothing_beside(guarded: Kubectl) -> None:
    spec = {**POD["spec"], "schedulingGates": [{"name": "waggle.dev/after"}, {"name": "test/gate"}]}
    pod = {**POD, "metadata": {"name": "gated"}, "spec": spec}
    guarded.must("create", "--namespace=guarded", "--filename=-", given=yaml.safe_dump(pod))

    def remove(*operations: dict[str, object]) -> str:
        done = guarded(
            *("patch", "pod", "gated", "--namespace=guarded", "--type=json", f"--patch={json.dumps(operations)}"),
            f"--as={WAGGLE}",
        )
        return done.stderr if done.returncode else ""

    ours: dict[str, object] = {"op": "remove", "path": "/spec/schedulingGates/0"}
    image: dict[str, object] = {"op": "replace", "path": "/spec/containers/0/image", "value": "registry.test/evil:1"}
    selector: dict[str, object] = {"op": "add", "path": "/spec/nodeSelector", "value": {"disk": "ssd"}}
    assert "waggle-pod-guard" in remove({"op": "remove", "path": "/spec/schedulingGates/1"})
    assert "waggle-pod-guard" in remove({"op": "remove", "path": "/spec/schedulingGates"})
    assert "waggle-pod-guard" in remove(ours, image)
    assert "waggle-pod-guard" in remove(ours, selector)
    assert remove(ours) == ""


def test_the_guard_minds_nobody_elses_business(guarded: Kubectl) -> None:
    assert patch(guarded, {"metadata": {"labels": {"app": "mine"}}}) == ""


# -- decisions ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decided(guarded: Kubectl) -> Iterator[Kubectl]:
    """The same pod, with the policy about decisions in force, too."""
    policy, kubectl = documents(MANIFESTS / "components" / "pod-guard" / "decisions.yaml"), guarded
    kubectl.apply(policy)
    forged = {"metadata": {"annotations": {"waggle.dev/gang-plan": "forged"}}}
    for _ in range(300):
        if patch(kubectl, forged, "--dry-run=server"):
            break
    else:
        raise AssertionError("the policy never came into force")
    yield kubectl
    kubectl.must("delete", "--filename=-", given=yaml.safe_dump_all(policy))


def test_only_waggle_writes_its_decisions(decided: Kubectl) -> None:
    for value in ("1", "2", None):
        change = {"metadata": {"annotations": {"waggle.dev/preemption": value}}}
        assert "waggle-decision-guard" in patch(decided, change) or value is None
        assert patch(decided, change, f"--as={WAGGLE}") == ""


def test_an_update_of_the_status_writes_no_decision(decided: Kubectl) -> None:
    forged = {"metadata": {"annotations": {"waggle.dev/gang-plan": "forged"}}}
    assert "waggle-decision-guard" in patch(decided, forged, "--subresource=status")
    assert patch(decided, {"status": {"message": "busy"}}, "--subresource=status") == ""


def test_a_pod_with_a_decision_of_somebody_else_is_not_created(decided: Kubectl) -> None:
    pod = {**POD, "metadata": {"name": "forged", "annotations": {"hivedscheduler.microsoft.com/pod-bind-info": "x"}}}
    done = decided("create", "--namespace=guarded", "--filename=-", given=yaml.safe_dump(pod))
    assert "waggle-decision-guard" in done.stderr


def test_whatever_else_people_write_on_pods_is_theirs(decided: Kubectl) -> None:
    assert patch(decided, {"metadata": {"annotations": {"waggle.dev/gang": "g", "note": "mine"}}}) == ""
    pod = {**POD, "metadata": {"name": "bare"}}
    decided.must("create", "--namespace=guarded", "--filename=-", given=yaml.safe_dump(pod))
