"""`waggle hived diff` and `init` at the command line: what is read, what is said, which exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from algorithm.model import Pod
from extender.cli import app
from tests.support.hived.harness import RACKS, HivedHarness, gang, one, racks

SMALLER = racks(a="rack.host 1", b="rack.host 1, rack.host.socket 1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yaml").write_text(RACKS)
    (tmp_path / "new.yaml").write_text(SMALLER)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["hived", *arguments])


def recorded(folder: Path, *pods: Pod) -> str:
    """What kubectl would write of four machines and these pods."""
    machines = [{"kind": "Node", "metadata": {"name": f"m{number}"}} for number in range(1, 5)]
    running = [
        {
            "kind": "Pod",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": dict(pod.annotations),
                "creationTimestamp": pod.created or "2026-01-01T00:00:00Z",
            },
            "spec": {"nodeName": pod.node_name},
        }
        for pod in pods
    ]
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": machines + running}))
    return str(path)


def running(*groups: list[Pod]) -> list[Pod]:
    world = HivedHarness()
    for group in groups:
        world.bind(*group)
    return list(world.allocated.values())


class TestDiff:
    def test_nothing_changes(self, folder: Path) -> None:
        found = run("diff", "old.yaml", "old.yaml")
        assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "The configurations mean the same.")

    def test_what_changes_is_said_and_is_the_exit_status(self, folder: Path) -> None:
        found = run("diff", "old.yaml", "new.yaml")
        assert found.exit_code == 1
        assert "~ a: 2 rack.host -> 1 rack.host" in found.stdout
        assert "of rack: 0 of 2 rack, 2 of 4 host, 1 of 4 socket" in found.stdout

    def test_a_new_one_that_is_refused_is_compared_and_told(self, folder: Path) -> None:
        (folder / "new.yaml").write_text(racks(a="rack 3"))
        found = run("diff", "old.yaml", "new.yaml")
        assert found.exit_code == 2
        assert "~ a: 2 rack.host -> 3 rack" in found.stdout
        assert "REFUSED" in found.stdout
        assert "promised 3 cells rack of rack (a 3), but there are 2" in found.stdout

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("old.yaml", racks(a="rack 3"), "the old configuration cannot be used"),
            ("old.yaml", "server: {}", "expected Waggle's configuration"),
            ("new.yaml", "[", "new.yaml: not YAML"),
            ("new.yaml", "algorithm: {name: packing}", "algorithm.name: expected hived, got packing"),
            ("new.yaml", "physicalCluster: {cellTypes: 7}", "cellTypes"),
        ],
    )
    def test_what_cannot_be_used_is_named(self, folder: Path, name: str, text: str, said: str) -> None:
        (folder / name).write_text(text)
        found = run("diff", "old.yaml", "new.yaml")
        assert (found.exit_code, found.stdout) == (2, "")
        assert said in found.stderr

    def test_a_file_that_is_not_there(self, folder: Path) -> None:
        found = run("diff", "old.yaml", "nowhere.yaml")
        assert found.exit_code == 2
        assert "nowhere.yaml" in found.stderr

    def test_waggles_configuration_and_the_originals_file_may_be_compared(self, folder: Path) -> None:
        whole = {"algorithm": {"name": "hived", "settings": yaml.safe_load(RACKS)}}
        (folder / "waggle.yaml").write_text(yaml.safe_dump(whole))
        pointing = {"algorithm": {"name": "hived", "settings_file": "old.yaml", "settings": {"lax": True}}}
        (folder / "pointing.yaml").write_text(yaml.safe_dump(pointing))
        assert run("diff", "waggle.yaml", "old.yaml").exit_code == 0
        found = run("diff", "waggle.yaml", "pointing.yaml")
        assert found.stdout.startswith("Settings:\n  ~ lax: false -> true\n")

    def test_who_loses_the_guarantee_is_named(self, folder: Path) -> None:
        pods = running([one("g", leafs=4)], [one("h", leafs=4)], gang("i", tenant="b", leafs=2))
        found = run("diff", "old.yaml", "new.yaml", "--from-file", recorded(folder, *pods))
        assert found.exit_code == 1
        assert "Of 3 groups that run, 2 keep what they have; nobody is evicted." in found.stdout
        assert "group h of a (priority 0): goes on, but loses its guarantee" in found.stdout

    def test_json_has_it_all(self, folder: Path) -> None:
        pods = running([one("g", leafs=4)], [one("h", leafs=4)])
        found = run("diff", "old.yaml", "new.yaml", "--json", "--from-file", recorded(folder, *pods))
        told: dict[str, Any] = json.loads(found.stdout)
        assert told["changes"] is True
        assert told["refused"] == ""
        assert told["configuration"] == [
            {"kind": "changed", "what": "virtualCluster", "name": "a", "before": "2 rack.host", "after": "1 rack.host"}
        ]
        assert told["summary"] == {
            "unchanged": 1,
            "losesGuarantee": 1,
            "getsGuarantee": 0,
            "losesDevices": 0,
            "other": 0,
        }
        assert [(each["group"], each["before"], each["after"]) for each in told["groups"]] == [
            ("h", "guaranteed", "uncovered")
        ]
        assert {"chain": "rack", "cellType": "host", "promised": 2, "left": 2} in told["room"]

    def test_thousands_of_machines_are_counted_not_listed(self, folder: Path) -> None:
        many = "".join(
            f"  - {{cellType: rack, cellChildren: [{{cellAddress: x{i}}}, {{cellAddress: y{i}}}]}}\n" for i in range(40)
        )
        (folder / "new.yaml").write_text(RACKS.replace("virtualClusters", many + "virtualClusters"))
        found = run("diff", "old.yaml", "new.yaml")
        assert "  and 68 more (80 added); --json has them all" in found.stdout

    def test_machines_that_are_no_nodes_are_named(self, folder: Path) -> None:
        (folder / "new.yaml").write_text(RACKS.replace("m2", "mm2"))
        found = run("diff", "old.yaml", "new.yaml", "--from-file", recorded(folder))
        assert found.stdout.endswith("\n1 of 4 machines are no nodes of this cluster, and count as bad: mm2\n")

    @pytest.mark.parametrize("content", ["", "[]", '{"items": 7}', "{}"])
    def test_a_recording_that_is_none_is_refused(self, folder: Path, content: str) -> None:
        (folder / "cluster.json").write_text(content)
        found = run("diff", "old.yaml", "new.yaml", "--from-file", "cluster.json")
        assert found.exit_code == 2
        assert "cluster.json: " in found.stderr


class TestInit:
    @staticmethod
    def nodes(folder: Path, **devices: int) -> str:
        items = [
            {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"nvidia.com/gpu": str(number)}}}
            for name, number in devices.items()
        ]
        (folder / "nodes.json").write_text(json.dumps({"kind": "List", "items": items}))
        return "nodes.json"

    def test_what_it_writes_is_accepted(self, folder: Path) -> None:
        found = run("init", "--from-file", self.nodes(folder, a=8, b=8, c=0), "-o", "waggle.yaml")
        assert found.exit_code == 0
        assert "Left out, as they have no nvidia.com/gpu: c." in found.stderr
        assert run("diff", "waggle.yaml", "waggle.yaml").exit_code == 0

    def test_it_goes_to_standard_output_and_remarks_do_not(self, folder: Path) -> None:
        found = run("init", "--from-file", self.nodes(folder, a=8, b=7), "--settings-only", "--tenant", "t")
        assert list(yaml.safe_load(found.stdout)["virtualClusters"]) == ["t"]
        assert found.stderr.startswith("Machines with gpu differ")

    def test_nodes_without_devices_are_refused(self, folder: Path) -> None:
        found = run("init", "--from-file", self.nodes(folder, a=8), "--resource", "amd.com/gpu")
        assert found.exit_code == 2
        assert "they have nvidia.com/gpu" in found.stderr

    def test_an_api_server_that_is_not_there_is_named(self, folder: Path) -> None:
        found = run("init", "--server", "http://127.0.0.1:1")
        assert found.exit_code == 2
        assert "GET /api/v1/nodes" in found.stderr
