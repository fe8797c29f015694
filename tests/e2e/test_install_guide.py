"""docs/install.md, followed to the letter: its commands are run as they stand there, in their order, in a copy of the
repository's manifests, against a real control plane with Deployments and Services.

What cannot be is stood in for: the registry (docker, kind), the way to a node (ssh), and what needs a kubelet
(port-forward, logs). The Deployments' pods run here as processes (kubelets.py), Waggle under a token of its own service
account and with the policy of pod-guard in force.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.hands import Hands, eventually
from tests.e2e.kubelets import Kubelets, run_while
from tests.e2e.processes import Process, free_port
from tests.e2e.scheduler_config import write
from tests.support.manifests import ROOT

GUIDE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
NAMESPACE = "waggle-system"
#: Which commands of the guide are not run as they are, and what is run instead.
STUBS = {
    "docker": 'echo "docker $*" >> "$SITE/pushed"',
    "kind": 'echo "kind $*" >> "$SITE/pushed"',
    # The node is a folder.
    "ssh": 'shift; test "$1" = sudo && shift; exec "${@/#\\/etc\\/kubernetes/$SITE/etc/kubernetes}"',
    "helm": 'exec "$HELM" "$@"',
    "kubectl": 'case " $* " in *" port-forward "*|*" logs "*) exit 0;; esac; exec "$KUBECTL" "$@"',
    "curl": 'exec "$PYTHON" -c "$FETCH" "$(cat "$SITE/metrics")" "$2"',
    "waggle": 'exec env PYTHONPATH="$ROOT" "$PYTHON" -m extender.cli "$@"',
}
_FETCH = "import sys, httpx; print(httpx.get(sys.argv[2].replace('localhost', 'http://' + sys.argv[1])).text)"


def commands(heading: str) -> list[str]:
    """The commands in the shell blocks under one heading, one by one; a continued line is one with the next."""
    sections = re.split(r"^#{2,3} (.+)$", GUIDE, flags=re.MULTILINE)
    under = dict(zip(sections[1::2], sections[2::2], strict=True))[heading]
    blocks = re.findall(r"^```sh\n(.*?)^```", under, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


class Site:
    """Somebody at a terminal with the guide in hand, on a cluster with a kube-scheduler of its own."""

    def __init__(self, plane: ControlPlane, programs: Mapping[str, Path], folder: Path) -> None:
        self.plane, self.programs, self.folder = plane, programs, folder
        self.hands = Hands(plane)
        shutil.copytree(ROOT / "manifests", folder / "manifests")
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        for name, script in STUBS.items():
            (bin_folder / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
            (bin_folder / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(plane.kubeconfig("admin")),
            "KUBECTL": str(programs["kubectl"]),
            "HELM": str(programs.get("helm", "helm")),
            "PYTHON": sys.executable,
            "ROOT": str(ROOT),
            "SITE": str(folder),
            "FETCH": _FETCH,
        }
        (folder / "pods").mkdir()
        runners = {"waggle": _run_waggle, "kube-scheduler": self._run_scheduler}
        self.kubelets = Kubelets(plane, folder / "pods", NAMESPACE, runners, _adapt)
        self.scheduler = self.start_scheduler(write(folder / "own.yaml", kubeconfig=self._scheduler_conf, url=""))

    @property
    def _scheduler_conf(self) -> Path:
        return self.plane.kubeconfig("kube-scheduler")

    def start_scheduler(self, config: Path) -> Process:
        """The cluster's own kube-scheduler."""
        flags = ["--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={self.folder}"]
        proxy = {"HTTPS_PROXY": self.kubelets.services.url}
        command = [self.programs["kube-scheduler"], f"--config={config}", *flags, "--v=3"]
        return Process("kube-scheduler", command, self.folder / "kube-scheduler.log", environment=proxy)

    def _run_scheduler(self, said: list[str], address: str, home: Path) -> list[str | Path]:
        return [self.programs["kube-scheduler"], *said[1:], f"--bind-address={address}", f"--cert-dir={home}"]

    def nodes(self, number: int) -> None:
        """With the labels that a kubelet puts on its node."""
        for i in range(number):
            labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": f"n{i}"}
            self.hands.node(f"n{i}", labels=labels)

    def follow(self, heading: str, *, only: str = "") -> list[str]:
        """Runs the commands under a heading, or those with `only` in them; what each said."""
        return [self.do(command) for command in commands(heading) if only in command]

    def do(self, command: str) -> str:
        for name in self.kubelets.names():
            if "waggle-scheduler" not in name:
                (self.folder / "metrics").write_text(self.kubelets.addresses[name])
        shell = ["bash", "-euo", "pipefail", "-c", command]
        status, said = run_while(self.kubelets.look, shell, cwd=self.folder, env=self.environment)
        assert status == 0, f"{command}\n{said}"
        if command.startswith("kubectl run"):  # whoever follows the guide looks when something happened
            self.wait(lambda: self._placed("waggle-hello"), "the pod of the guide is placed")
        return said

    def _placed(self, name: str) -> str:
        pod = self.hands.http.get(f"/api/v1/namespaces/default/pods/{name}").json()
        node: str = pod.get("spec", {}).get("nodeName", "")
        return node

    def wait(self, condition: Any, what: str) -> Any:
        def looked() -> Any:
            self.kubelets.look()
            return condition()

        return eventually(looked, what, seconds=60)

    def edit(self, overlay: str, old: str, new: str) -> None:
        """What the guide says to change in an overlay."""
        path = self.folder / "manifests" / "overlays" / overlay / "kustomization.yaml"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def remove(self, overlay: str) -> None:
        (command,) = commands("Remove it")
        self.do(command.partition("#")[0].replace("second-scheduler", overlay))

    def close(self) -> None:
        self.scheduler.stop()
        self.kubelets.__exit__(None, None, None)
        self.hands.http.close()


def _run_waggle(said: list[str], _address: str, _home: Path) -> list[str | Path]:
    return [sys.executable, "-m", "extender.cli", *said]


def _adapt(name: str, content: dict[str, Any], address: str, kubeconfig: Path) -> dict[str, Any]:
    """What a pod has and a process has not: an address of its own, and a mounted service account."""
    if name == "waggle.yaml":
        content["server"]["host"] = address
    else:
        content["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    return content


@pytest.fixture
def site(programs: Mapping[str, Path], folder: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A cluster of its own: the guide creates, and removes, what other tests stand on."""
    home = folder / request.node.name
    home.mkdir()
    with ExitStack() as stack:
        plane = ControlPlane(programs, home, rights=False)
        made = Site(stack.enter_context(plane), programs, home)
        stack.callback(made.close)
        yield made


def test_a_second_kube_scheduler(site: Site) -> None:
    site.nodes(2)
    site.follow("1. The image")
    assert "push registry.example.com/waggle:0.1.0" in (site.folder / "pushed").read_text()
    site.edit("second-scheduler", "  - ../../components/cert-manager", "#")
    site.follow("Certificates")
    site.follow("A second kube-scheduler")
    site.wait(lambda: len(site.kubelets.services.behind("waggle")) == 1, "one replica leads")
    leading = site.follow("3. See that it works", only="get pods -L")[0]
    assert leading.count("waggle-scheduler-") == 2
    assert re.search('"ok"|another replica leads', site.follow("3. See that it works", only="curl")[0])
    hello = "".join(site.follow("3. See that it works", only="waggle-hello"))
    assert "Successfully assigned default/waggle-hello" in hello
    site.remove("second-scheduler")


def test_the_control_planes_own_kube_scheduler(site: Site) -> None:
    site.nodes(2)
    site.follow("Certificates")
    site.follow("Waggle")
    linted = site.follow("kube-scheduler's configuration")[-1]
    (site.folder / "etc" / "kubernetes").mkdir(parents=True)
    site.follow("On every control-plane node, one after the other", only="ssh NODE")
    config = site.folder / "etc" / "kubernetes" / "waggle" / "kube-scheduler-config.yaml"
    text = config.read_text(encoding="utf-8").replace("/etc/kubernetes/waggle", str(config.parent))
    config.write_text(text.replace("/etc/kubernetes/scheduler.conf", str(site.plane.kubeconfig("kube-scheduler"))))
    site.scheduler.stop()
    site.scheduler = site.start_scheduler(config)
    site.hands.pod("p", gpus=8)
    site.wait(lambda: site.hands.node_of("p"), "a pod with the resource is placed")
    assert linted
    site.remove("static-pod")


def test_a_cluster_of_one_node(site: Site) -> None:
    site.nodes(1)
    site.follow("On a cluster of one node")
    site.follow("3. See that it works", only="waggle-hello")
    site.remove("local")


def test_helm(site: Site) -> None:
    if "helm" not in site.programs:
        pytest.skip("WAGGLE_CONTROLPLANE_BIN has no helm")
    site.nodes(2)
    site.follow("With Helm", only="kubectl create")
    site.follow("With Helm", only="kubectl label")
    site.follow("Certificates", only="waggle certs")
    (site.folder / "values.yaml").write_text("certificates: {certManager: false}\n")
    site.follow("With Helm", only="helm install")
    site.follow("With Helm", only="rollout status")
    site.wait(lambda: len(site.kubelets.services.behind("waggle")) == 1, "one replica leads")
    hello = "".join(site.follow("3. See that it works", only="waggle-hello"))
    assert "Successfully assigned default/waggle-hello" in hello
    site.do("helm uninstall waggle --namespace waggle-system")


def test_every_command_of_the_guide_is_run() -> None:
    """None is forgotten here: the headings with shell blocks are those that the tests follow."""
    headings = re.findall(r"^#{2,3} (.+)$", GUIDE, re.MULTILINE)
    assert {heading for heading in headings if commands(heading)} == {
        "1. The image",
        "Certificates",
        "A second kube-scheduler",
        "Waggle",
        "kube-scheduler's configuration",
        "On every control-plane node, one after the other",
        "With Helm",
        "3. See that it works",
        "On a cluster of one node",
        "Remove it",
    }
