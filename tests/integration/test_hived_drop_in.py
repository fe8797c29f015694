"""Moving from HiveD as docs/moving-from-hived.md says it: its lines are run, on what the original was run with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.kubescheduler.config import from_kube_scheduler_configuration
from extender.settings import Settings
from tests.conformance.hived_recordings import document
from tests.support.cluster.local_cluster import LocalCluster, world

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "moving-from-hived.md").read_text()
PREFIX = "hivedscheduler.microsoft.com/"
MARKER = PREFIX + "pod-scheduling-enable"
#: What HiveD's file says of its server.
SERVER = """\
kubeApiServerAddress: http://10.10.10.10:8080
kubeConfigFilePath: /root/.kube/config
webServerAddress: ":9096"
forcePodBindThreshold: 3
waitingPodSchedulingBlockMilliSec: 50
"""
CONFIGURATION = """\
# What the original's users have.
physicalCluster:
  cellTypes:
    host: {childCellType: K80, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: host, cellAddress: n0}
  - {cellType: host, cellAddress: n1}
virtualClusters:
  default:
    virtualCells:
    - {cellType: host, cellNumber: 2}
"""


def block(language: str, number: int = 0) -> str:
    """One of the page's blocks of that language."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(found[number])


def converted(folder: Path, text: str, *, waggle: str) -> subprocess.CompletedProcess[str]:
    """The page's first step; `waggle` is what the shell runs by that name."""
    (folder / "hivedscheduler.yaml").write_text(text)
    command = folder / "waggle"
    command.write_text(f"#!/bin/sh\n{waggle}\n")
    command.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment["KUBECONFIG"] = str(kubeconfig(folder))
    shell = ["sh", "-eu", "-c", block("sh")]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def kubeconfig(folder: Path) -> Path:
    """That of whoever administers the cluster."""
    path = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://10.10.10.10:8080"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
    user = {"users": [{"name": "u", "user": {}}], "current-context": "c"}
    path.write_text(yaml.safe_dump(content | user))
    return path


# -- the configuration ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_pages_lines_make_a_configuration_that_passes(tmp_path: Path) -> None:
    done = converted(tmp_path, SERVER + CONFIGURATION, waggle=f'exec {sys.executable} -m extender.cli "$@"')

    assert done.returncode == 0, done.stdout + done.stderr
    assert Settings.model_validate(yaml.safe_load((tmp_path / "waggle.yaml").read_text())).pods.resource == MARKER


@pytest.mark.parametrize("name", sorted(document()["configs"]))
def test_every_configuration_that_the_original_ran_with_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    done = converted(tmp_path, SERVER + document()["configs"][name]["yaml"], waggle="exit 0")
    assert done.returncode == 0, done.stderr

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))
    checked = CliRunner().invoke(app, ["check", "--config", "waggle.yaml"])

    assert checked.exit_code == 0, checked.output


def test_kube_schedulers_entry_is_what_the_command_writes() -> None:
    flags = ["--topology", "local", "--url", "http://127.0.0.1:9096", "--managed-resource", MARKER]
    written = yaml.safe_load(CliRunner().invoke(app, ["kube-scheduler-config", *flags]).stdout)

    [shown] = yaml.safe_load(block("yaml"))["extenders"]

    assert shown.items() <= written["extenders"][0].items()
    [managed] = from_kube_scheduler_configuration(written).extenders[0].managed_resources
    assert (managed.name, managed.ignored_by_scheduler) == (MARKER, True)


# -- pods and pages ---------------------------------------------------------------------------------------------------

OLD_WISH = """\
virtualCluster: default
priority: 1000
gpuType: K80
gpuNumber: 2
affinityGroup: {name: default/old, members: [{podNumber: 2, gpuNumber: 2}]}
"""
#: Of a version of the original that still spoke of GPUs.
OLD_INFO = """\
node: n1
gpuIsolation: [2, 3]
cellChain: host
affinityGroupBindInfo:
- podPlacements:
  - {physicalNode: n1, physicalGpuIndices: [2, 3], preassignedCellTypes: [host, host]}
  - {physicalNode: n1, physicalGpuIndices: [0, 1], preassignedCellTypes: [host, host]}
"""


@contextmanager
def moved(tmp_path: Path, prepare: Callable[[LocalCluster], object]) -> Iterator[LocalCluster]:
    """A cluster whose HiveD is Waggle now, called under HiveD's path."""
    assert converted(tmp_path, SERVER + CONFIGURATION, waggle="exit 0").returncode == 0
    given = yaml.safe_load((tmp_path / "waggle.yaml").read_text())
    given["algorithm"]["settings_file"] = str(tmp_path / given["algorithm"]["settings_file"])
    with world(nodes=2, prepare=prepare, **given) as w:
        managed = [{"name": MARKER, "ignoredByScheduler": True}]
        w.start_scheduler(urlPrefix=f"{w.waggle.url}/v1/extender", managedResources=managed)
        yield w


def old_pod(w: LocalCluster, name: str, **more: Any) -> None:
    annotations = {PREFIX + "pod-scheduling-spec": OLD_WISH, **more.pop("annotations", {})}
    containers = [{"name": "c", "image": "pause", "resources": {"limits": {MARKER: "1"}}}]
    w.pod(name, annotations=annotations, containers=containers, **more)


def uncounted(w: LocalCluster) -> None:
    w.books.uncounted.add(MARKER)


def one_is_bound(w: LocalCluster) -> None:
    uncounted(w)
    written = {PREFIX + "pod-gpu-isolation": "2,3", PREFIX + "pod-bind-info": OLD_INFO}
    old_pod(w, "old-0", annotations=written, nodeName="n1")


def devices(w: LocalCluster, name: str) -> tuple[str, str]:
    return w.node_of(name), w.get(name)["metadata"]["annotations"][PREFIX + "pod-leaf-cell-isolation"]


def test_pods_with_the_old_names_are_placed_through_the_originals_paths(tmp_path: Path) -> None:
    with moved(tmp_path, uncounted) as w:
        old_pod(w, "old-0")
        old_pod(w, "old-1")
        w.until(lambda: w.all_bound(["old-0", "old-1"]))

        assert sorted(devices(w, name)[1] for name in ("old-0", "old-1")) == ["0,1", "2,3"]


def test_what_the_original_has_bound_goes_on_and_its_gang_is_completed(tmp_path: Path) -> None:
    with moved(tmp_path, one_is_bound) as w:
        assert w.waggle.client.get("/v1/inspect/algorithm").json["state"]["strangers"] == {}
        old_pod(w, "old-1")
        w.until(lambda: w.node_of("old-1"))

        assert devices(w, "old-1") == ("n1", "0,1")
        assert w.waggle.client.get("/v1/inspect/affinitygroups/default/old").json["status"]["physicalPlacement"] == {
            "n1": [2, 3, 0, 1]
        }


CELLS = "clusterstatus/physicalcluster", "clusterstatus/virtualclusters/default"


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("affinitygroups/", {"items"}),
        ("affinitygroups/default/old", {"metadata", "status"}),
        ("clusterstatus", {"physicalCluster", "virtualClusters"}),
        ("clusterstatus/physicalcluster", [2]),
        ("clusterstatus/virtualclusters", {"default"}),
        ("clusterstatus/virtualclusters/", {"default"}),
        ("clusterstatus/virtualclusters/default", [2]),
    ],
)
def test_what_dashboards_read_is_there(shown: LocalCluster, path: str, shape: Any) -> None:
    answer = shown.waggle.client.get(f"/v1/inspect/{path}")

    assert answer.status == 200
    assert (answer.json.keys() if isinstance(shape, set) else [len(answer.json)]) == shape


@pytest.mark.parametrize("path", ["affinitygroups/none", "clusterstatus/virtualclusters/none"])
def test_what_is_not_there_is_a_400_as_before(shown: LocalCluster, path: str) -> None:
    assert shown.waggle.client.get(f"/v1/inspect/{path}").status == 400


@pytest.mark.parametrize("path", CELLS)
def test_cells_have_the_originals_fields(shown: LocalCluster, path: str) -> None:
    cells = shown.waggle.client.get(f"/v1/inspect/{path}").json
    used = next(cell for cell in cells if cell["cellState"] == "Used")

    other = "virtualCell" if "physical" in path else "physicalCell"
    common = {"cellType", "isNodeLevel", "cellAddress", "cellState", "cellHealthiness", "cellPriority", "cellChildren"}
    assert used.keys() - {"vc"} == {"leafCellType", other} | common
    assert ("vc" in used) == ("physical" in path)
    assert "cellChildren" not in used[other]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Where one pod of a group runs."""
    with moved(tmp_path_factory.mktemp("moved"), one_is_bound) as w:
        yield w
