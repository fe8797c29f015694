"""What an operator applies: it can be read, it says what the documentation promises, and it avoids the known traps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from algorithm.decoding import decode_pod
from algorithm.model import Pod
from algorithm.packing import PackingSettings
from algorithm.packing.gangs import membership
from extender.demo.workloads import MANIFESTS as DEMO
from extender.settings import Settings, load
from tests.support.manifests import documents

MANIFESTS = Path(__file__).parents[2] / "manifests"

GPU = "example.com/gpu"
#: The demo's cluster: 32 nodes with 8 GPUs each.
NODES, GPUS = 32, 8


def workload(name: str) -> list[Pod]:
    return [decode_pod(json.dumps(document).encode()) for document in documents(DEMO / name)]


def gpus(pods: list[Pod]) -> int:
    return sum(dict(pod.requests).get(GPU, 0) for pod in pods)


FILES = sorted(path for path in MANIFESTS.rglob("*.yaml") if "templates" not in path.parts)  # test_chart.py has those


def test_every_manifest_is_yaml() -> None:
    assert len(FILES) > 50
    for path in FILES:
        assert documents(path), path


def test_the_example_configuration_is_one() -> None:
    settings = load(MANIFESTS / "base" / "waggle.yaml")
    assert settings.algorithm.name == "packing"
    assert PackingSettings.model_validate(settings.algorithm.settings)
    assert settings.server.tls is not None
    assert settings.server.tls.client_ca_file is not None


def test_the_scheduler_is_configured_around_the_traps() -> None:
    (config,) = documents(MANIFESTS / "kube-scheduler" / "kube-scheduler-config.yaml")
    (extender,) = config["extenders"]
    assert config["percentageOfNodesToScore"] == 100
    assert extender["urlPrefix"].startswith("https://")
    assert extender["urlPrefix"].endswith(f":{Settings().server.port}")
    assert [extender[verb] for verb in ("filterVerb", "preemptVerb", "bindVerb")] == ["filter", "preempt", "bind"]
    assert extender["nodeCacheCapable"] is True
    assert extender["ignorable"] is False
    assert extender["httpTimeout"].endswith("s")
    assert not any(resource["ignoredByScheduler"] for resource in extender["managedResources"])
    assert set(extender["tlsConfig"]) == {"caFile", "certFile", "keyFile", "serverName"}


def test_the_scheduler_sends_the_pods_that_the_server_takes_for_its_own() -> None:
    (config,) = documents(MANIFESTS / "kube-scheduler" / "kube-scheduler-config.yaml")
    managed = [resource["name"] for resource in config["extenders"][0]["managedResources"]]
    assert managed == [load(MANIFESTS / "base" / "waggle.yaml").pods.resource]


def test_every_demo_pod_can_be_read_and_names_a_priority_that_exists() -> None:
    classes = {document["metadata"]["name"] for document in documents(DEMO / "00-priorities.yaml")}
    names = []
    for path in sorted(DEMO.glob("[1-9]*.yaml")):
        for document in documents(path):
            assert document["spec"]["priorityClassName"] in classes
            names.append(document["metadata"]["name"])
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("file", "gang", "size"),
    [
        ("20-gang.yaml", "train-a", 8),
        ("30-gang-too-big.yaml", "train-huge", 40),
        ("50-preempting-gang.yaml", "urgent-train", 4),
    ],
)
def test_every_pod_of_a_gang_declares_the_gang_and_its_size(file: str, gang: str, size: int) -> None:
    pods = workload(file)
    assert len(pods) == size
    assert {membership(pod) for pod in pods} == {((pods[0].namespace, gang), size)}


def test_the_gang_that_is_too_big_could_not_fit_on_an_empty_cluster() -> None:
    assert gpus(workload("30-gang-too-big.yaml")) > NODES * GPUS


def test_the_filler_leaves_no_room_for_the_preempting_gang() -> None:
    before = gpus(workload("10-single-pods.yaml")) + gpus(workload("20-gang.yaml"))
    assert before < NODES * GPUS < before + gpus(workload("40-low-priority-filler.yaml"))


def test_the_preempting_gang_needs_whole_nodes() -> None:
    assert {gpus([pod]) for pod in workload("50-preempting-gang.yaml")} == {GPUS}
