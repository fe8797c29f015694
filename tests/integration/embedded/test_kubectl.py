"""kubectl against the embedded API server: what people type, and what they read.

Uses the kubectl that WAGGLE_KUBECTL names, the one on the PATH, or the one that `make e2e` has built. Without one the
tests are skipped, but not in CI.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from tests.e2e.build import find
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod

_KUBECTL = os.environ.get("WAGGLE_KUBECTL") or which("kubectl") or find("kubectl")
_ABSENT = "kubectl is not installed (Debian package kubernetes-client; elsewhere kubectl)"

WEB = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  serviceName: web
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: n1
      containers: [{name: main, image: "web:1", resources: {requests: {cpu: "1", memory: 1Gi}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"""


class Kubectl:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.config = write_kubeconfig(folder / "kubeconfig", url)

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.config)}
        command = [str(_KUBECTL), *arguments]
        return subprocess.run(
            command, check=False, input=stdin, env=environment, capture_output=True, text=True, timeout=60
        )

    def __call__(self, line: str, *more: str, stdin: str = "") -> str:
        """Words of a line, then arguments with blanks in them. Returns stdout; fails with stderr."""
        done = self.run(*line.split(), *more, stdin=stdin)
        assert done.returncode == 0, f"kubectl {line}: {done.stderr}"
        return done.stdout

    def rows(self, line: str) -> list[list[str]]:
        """A table, its header first. Columns begin where their names do; names are two blanks or more apart."""
        lines = self(line).splitlines()
        starts = [match.start() for match in re.finditer(r"\S+( \S+)*", lines[0])]
        return [
            [row[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)] for row in lines
        ]

    def json(self, line: str) -> Any:
        return json.loads(self(f"{line} -o json"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    if not _KUBECTL:
        if os.environ.get("CI") == "true":
            pytest.fail(_ABSENT)
        pytest.skip(_ABSENT)
    with serve_in_thread(stop_delay=0.05) as cluster:
        cluster.apply(node("n1"))
        yield cluster


@pytest.fixture(scope="module")
def kubectl(cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(tmp_path_factory.mktemp("kubectl"), cluster.url)


@pytest.fixture
def web(cluster: EmbeddedCluster, kubectl: Kubectl) -> Iterator[Kubectl]:
    kubectl("apply -f -", stdin=WEB)
    _all_ready(cluster, 2)
    yield kubectl
    kubectl("delete statefulset,pdb web --ignore-not-found")
    eventually(lambda: not _web_pods(cluster))


def _web_pods(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    return [each for each in cluster.objects("pods") if each["metadata"].get("labels", {}).get("app") == "web"]


def _all_ready(cluster: EmbeddedCluster, count: int) -> None:
    def ready() -> bool:
        sets, budget = cluster.get("statefulsets", "web"), cluster.get("pdb", "web")
        running = sets["status"].get("readyReplicas") == len(_web_pods(cluster)) == count
        return running and budget["status"].get("currentHealthy") == count

    eventually(ready)


def test_it_says_what_it_is(kubectl: Kubectl) -> None:
    assert "+embedded" in kubectl("version")
    assert "is running at" in kubectl("cluster-info")
    assert kubectl("get --raw /readyz") == "ok"
    served = kubectl("api-resources")
    for name in ("pods", "statefulsets", "storageclasses", "resourceclaims", "poddisruptionbudgets"):
        assert f"\n{name} " in served


def test_pods_are_listed_as_everywhere(cluster: EmbeddedCluster, kubectl: Kubectl) -> None:
    cluster.apply(pod("runs", nodeName="n1", labels={"app": "a"}))
    cluster.apply(pod("waits", labels={"app": "b"}))
    cluster.apply(pod("gated", schedulingGates=[{"name": "g"}]))
    eventually(lambda: cluster.get("pods", "runs")["status"]["phase"] == "Running")
    header, *rows = kubectl.rows("get pods")
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    shown = {row[0]: row[1:4] for row in rows}
    assert shown["runs"] == ["1/1", "Running", "0"]
    assert shown["waits"] == ["0/1", "Pending", "0"]
    assert shown["gated"] == ["0/1", "SchedulingGated", "0"]
    assert kubectl.rows("get pod runs -o wide")[1][6] == "n1"
    assert kubectl("get pods -l app=b -o name") == "pod/waits\n"
    assert kubectl("get pods --field-selector spec.nodeName=n1 -o name") == "pod/runs\n"
    assert kubectl("get pod runs -o yaml").startswith("apiVersion: v1\nkind: Pod\n")
    assert kubectl.json("get pod runs")["spec"]["nodeName"] == "n1"
    kubectl("delete pod runs waits gated")
    assert not cluster.objects("pods")


def test_a_watch_prints_a_line_for_each_change(cluster: EmbeddedCluster, kubectl: Kubectl) -> None:
    environment = {**os.environ, "HOME": str(kubectl.folder), "KUBECONFIG": str(kubectl.config)}
    command = [str(_KUBECTL), "get", "configmaps", "-w", "--no-headers"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}})
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}, "data": {"a": "b"}})
        line = ""
        while line.split()[:2] != ["seen", "1"]:
            line = watching.stdout.readline()
            assert line, "the watch ended"
        watching.terminate()
        watching.stdout.read()


@pytest.mark.parametrize(
    ("what", "columns"),
    [
        ("nodes", ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]),
        ("namespaces", ["NAME", "STATUS", "AGE"]),
        ("statefulsets", ["NAME", "READY", "AGE"]),
        ("pdb", ["NAME", "MIN AVAILABLE", "MAX UNAVAILABLE", "ALLOWED DISRUPTIONS", "AGE"]),
        ("priorityclasses", None),
    ],
)
def test_other_kinds_have_their_columns(web: Kubectl, what: str, columns: list[str] | None) -> None:
    header, *rows = web.rows(f"get {what}")
    assert columns is None or header == columns
    assert rows


def test_events_and_leases_have_their_columns(cluster: EmbeddedCluster, kubectl: Kubectl) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    event = {"involvedObject": about, "reason": "Why", "message": "because", "type": "Warning"}
    cluster.apply({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, **event})
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    cluster.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    header, row = kubectl.rows("get events")
    assert header == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[1:] == ["Warning", "Why", "pod/p", "because"]
    assert kubectl.rows("get leases")[1][:2] == ["l", "me"]


def test_describe_shows_a_pod_with_its_events(cluster: EmbeddedCluster, kubectl: Kubectl) -> None:
    made = cluster.apply(pod("told", requests={"cpu": "2"}, nodeName="n1"))
    about = {"kind": "Pod", "namespace": "default", "name": "told", "uid": made["metadata"]["uid"]}
    event = {"involvedObject": about, "reason": "Because", "message": "said so", "type": "Normal"}
    cluster.apply({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "told.1"}, **event})
    shown = kubectl("describe pod told")
    assert "Because" in shown
    assert "said so" in shown
    described = kubectl("describe node n1")
    assert "told" in described
    assert "Ready" in described
    kubectl("delete pod told --now")


def test_apply_creates_changes_and_leaves_alone(cluster: EmbeddedCluster, web: Kubectl) -> None:
    before = cluster.get("statefulsets", "web")["metadata"]["resourceVersion"]
    assert "statefulset.apps/web unchanged" in web("apply -f -", stdin=WEB)
    assert cluster.get("statefulsets", "web")["metadata"]["resourceVersion"] == before
    assert "statefulset.apps/web configured" in web(
        "apply -f -", stdin=WEB.replace("web:1", "web:2").replace("1Gi", "2048Mi")
    )
    web("rollout status statefulset/web --timeout=30s")
    assert {each["spec"]["containers"][0]["image"] for each in _web_pods(cluster)} == {"web:2"}
    requests = cluster.get("statefulsets", "web")["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1", "memory": "2Gi"}


def test_server_side_apply_merges_lists_by_their_keys(cluster: EmbeddedCluster, kubectl: Kubectl) -> None:
    both = "apiVersion: v1\nkind: Pod\nmetadata: {name: ssa}\nspec: {containers: [{name: a, image: 'a:1'}]}"
    assert "serverside-applied" in kubectl("apply --server-side -f -", stdin=both)
    changed = both.replace("a:1", "a:2").replace("{name: ssa}", "{name: ssa, labels: {x: z}}")
    kubectl("apply --server-side -f -", stdin=changed)
    applied = cluster.get("pods", "ssa")
    assert [each["image"] for each in applied["spec"]["containers"]] == ["a:2"]
    assert applied["metadata"]["labels"] == {"x": "z"}
    assert applied["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    kubectl("delete pod ssa")


def test_create_label_annotate_and_patch(cluster: EmbeddedCluster, kubectl: Kubectl) -> None:
    manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
    assert "created" in kubectl("create -f -", stdin=manifest)
    assert "AlreadyExists" in kubectl.run("create", "-f", "-", stdin=manifest).stderr
    kubectl("label configmap c tier=one")
    kubectl("annotate configmap c note=this")
    kubectl("patch configmap c --type merge -p", '{"data":{"b":"2"}}')
    kubectl("patch configmap c --type json -p", '[{"op":"remove","path":"/data/a"}]')
    found = cluster.get("configmaps", "c")
    assert found["data"] == {"b": "2"}
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]) == ({"tier": "one"}, {"note": "this"})


def test_scale_adds_the_highest_ordinals_and_takes_them_away(cluster: EmbeddedCluster, web: Kubectl) -> None:
    web("scale statefulset web --replicas=4")
    _all_ready(cluster, 4)
    web("wait --for=condition=Ready pod/web-3 --timeout=30s")
    web("scale statefulset web --replicas=1 --current-replicas=4")
    eventually(lambda: [each["metadata"]["name"] for each in _web_pods(cluster)] == ["web-0"])


@pytest.mark.slow
def test_cordon_and_drain_respect_the_budget(cluster: EmbeddedCluster, web: Kubectl) -> None:
    web("cordon n1")
    assert web.rows("get node n1")[1][1] == "Ready,SchedulingDisabled"
    refused = web.run("drain", "n1", "--ignore-daemonsets", "--force", "--timeout=1s")
    assert refused.returncode != 0
    assert "would violate the pod's disruption budget" in refused.stderr
    web("patch pdb web --type merge -p", '{"spec":{"minAvailable":0}}')
    before = {each["metadata"]["uid"] for each in _web_pods(cluster)}
    assert "drained" in web("drain n1 --ignore-daemonsets --force --timeout=30s") or _drained(cluster, before)
    web("uncordon n1")
    assert web.rows("get node n1")[1][1] == "Ready"


def _drained(cluster: EmbeddedCluster, before: set[str]) -> bool:
    """Old kubectls say only "evicted"."""
    return not before & {each["metadata"]["uid"] for each in _web_pods(cluster)}


def test_deleting_a_workload_takes_its_pods_along_unless_they_are_orphaned(
    cluster: EmbeddedCluster, web: Kubectl
) -> None:
    web("delete statefulset web --cascade=orphan")
    assert [each["metadata"].get("ownerReferences", []) for each in _web_pods(cluster)] == [[], []]
    web("delete pods -l app=web")
    eventually(lambda: not _web_pods(cluster))
    web("apply -f -", stdin=WEB)
    _all_ready(cluster, 2)
    web("delete statefulset web")
    eventually(lambda: not _web_pods(cluster))


def test_flags_that_old_kubectls_send_as_protobuf_are_refused_politely(kubectl: Kubectl) -> None:
    done = kubectl.run("create", "namespace", "typed")
    assert done.returncode == 0 or "application/json" in done.stderr
