"""`waggle record anonymize` replaces keys of labels, annotations and taints, too, but for those that all know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from algorithm.interface import SuggestedNodes
from algorithm.model import Taint
from algorithm.registry import create
from extender.scheduling.events import FilterRequested, NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.scripted_log import ScriptedLog, gpu_node, gpu_pod
from tests.support.installed import install
from tests.unit.operate.test_record_anonymous import plain, said, waggle

MANAGED, RACK = "acme.example/managed", "acme.example/rack"
KNOWN = ("kubernetes.io/hostname", "nvidia.com/gpu.product", "topology.kubernetes.io/zone")
ASKED = {
    "nodeSelector": {RACK: "acme-1"},
    "affinity": {"podAffinity": [{"topologyKey": RACK, "labelSelector": {"matchLabels": {"acme-tier": "acme-2"}}}]},
    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["acme-3"]}],
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Pods are managed by an annotation with a key of a company, which is recorded with the policy."""
    made = ScriptedLog()
    made.policy = Policy(annotation=MANAGED)
    made.machine = SchedulerStateMachine(create("packing", {}), made.policy)
    labels = tuple(sorted([*((key, "acme-value") for key in KNOWN), (RACK, "acme-1"), ("zone", "acme-3")]))
    for name in ("acme-n1", "acme-n2"):
        taints = (Taint("acme.example/broken", "NoSchedule", "acme"), Taint("nvidia.com/gpu", "NoSchedule"))
        made.at(1.0, NodeSeen(replace(gpu_node(name), labels=labels, taints=taints)))
    made.at(1.0, Synced())
    annotations = (
        (MANAGED, "true"),
        ("acme.example/wants", json.dumps(ASKED)),
        ("waggle.dev/gang", "acme-gang"),
        ("waggle.dev/gang-min", "1"),
    )
    for number, gpus in enumerate((1, 2, 8, 3)):
        pod = gpu_pod(f"acme-{number}", gpus, labels=(("acme-tier", "acme-2"),), annotations=annotations)
        made.see(2.0 + number, pod)
        made.place(2.0 + number, pod, "acme-n1", "acme-n2")
    return made.write(tmp_path / "log")


@pytest.mark.parametrize("begin", [1, 9, 14])
def test_keys_of_a_company_are_gone_and_every_decision_is_the_same(log: Path, begin: int, tmp_path: Path) -> None:
    """From its first event, and from a checkpoint, in which the policy is part of the engine's state."""
    part, out = tmp_path / "part.gz", tmp_path / "out.gz"
    assert waggle("record", "cut", log, part, "--from", begin).exit_code == 0
    result = waggle("record", "anonymize", part, out)

    assert result.exit_code == 0, result.output
    assert "acme" not in plain(out)
    assert all(key in plain(out) for key in (*KNOWN[:2], "waggle.dev/gang", "waggle.dev/gang-min"))
    replayed = waggle("replay", out)
    assert (replayed.exit_code, "all the same" in replayed.output) == (0, True), replayed.output


def test_a_key_is_the_same_wherever_something_refers_to_it(log: Path, tmp_path: Path) -> None:
    assert waggle("record", "anonymize", log, tmp_path / "out.gz").exit_code == 0
    lines = [json.loads(line) for line in plain(tmp_path / "out.gz").splitlines()]
    node = next(line["data"]["node"] for line in lines if line.get("event") == "NodeSeen")
    pod = next(line["data"]["pod"] for line in lines if line.get("event") == "PodSeen")

    plain_keys = [key for key, _ in node["labels"] if key not in KNOWN]
    asked = next(json.loads(text) for _, text in pod["annotations"] if text.startswith("{"))
    rack = next(key for key in plain_keys if key == asked["affinity"]["podAffinity"][0]["topologyKey"])
    assert list(asked["nodeSelector"]) == [rack]
    assert [each["key"] for each in asked["matchExpressions"]] == [key for key in plain_keys if key != rack]
    matched = asked["affinity"]["podAffinity"][0]["labelSelector"]["matchLabels"]
    assert list(matched) == [pod["labels"][0][0]]
    assert lines[0]["policy"]["annotation"] in dict(pod["annotations"])
    for pairs in (node["labels"], pod["annotations"]):
        assert pairs == sorted(pairs)


OWN = '''
from pydantic import BaseModel

from algorithm.interface import Bind, Wait
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin
from tests.support.lab.plugins import Emptiest

RACK = "acme.example/rack"


class Settings(BaseModel):
    pass


class Racks(Emptiest):
    """Takes a node of the rack that the pod names in a label."""

    def __init__(self, settings):
        super().__init__(settings)
        self.racks = {}

    def add_node(self, node):
        self.racks[node.name] = dict(node.labels).get(RACK)

    def schedule(self, pod, suggested_nodes, phase):
        wanted = dict(pod.labels).get(RACK)
        fitting = [name for name in suggested_nodes if wanted and self.racks[name] == wanted]
        return Bind(fitting[0]) if fitting else Wait(reason(Code.NO_NODE_FITS))


PLUGIN = Plugin(settings=Settings, create=Racks)
'''


def test_an_algorithm_that_reads_a_key_is_told_which_one_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "racks_of_a_test.py").write_text(OWN)
    install(tmp_path, monkeypatch, racks="racks_of_a_test:PLUGIN")
    made = ScriptedLog("racks")
    for name in ("n1", "n2"):
        made.at(1.0, NodeSeen(replace(gpu_node(name), labels=((RACK, f"rack-{name}"), ("acme-other", "1")))))
    made.at(1.0, Synced())
    pod = gpu_pod("a", labels=((RACK, "rack-n2"),))
    made.see(2.0, pod)
    made.at(2.0, FilterRequested(pod, SuggestedNodes(("n1", "n2"))))
    log = made.write(tmp_path / "log")

    result = waggle("record", "anonymize", log, tmp_path / "replaced.gz")
    assert result.exit_code == 1
    assert f"the program names keys that were replaced: {RACK}; --keep-key KEY keeps one" in said(result)
    assert "acme" not in plain(tmp_path / "replaced.gz")

    result = waggle("record", "anonymize", log, tmp_path / "kept.gz", "--keep-key", RACK)
    assert result.exit_code == 0, result.output
    assert RACK in plain(tmp_path / "kept.gz")
    assert "acme-other" not in plain(tmp_path / "kept.gz")
    assert waggle("replay", tmp_path / "kept.gz").exit_code == 0


def test_a_key_that_is_not_there_is_refused_and_nothing_is_written(log: Path, tmp_path: Path) -> None:
    result = waggle("record", "anonymize", log, tmp_path / "out.gz", "--keep-key", "acme.example/rak")

    assert result.exit_code == 2
    assert "has the key acme.example/rak" in said(result)
    assert not (tmp_path / "out.gz").exists()
