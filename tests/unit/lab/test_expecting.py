"""fgd is told which pods to expect."""

from __future__ import annotations

import yaml
from msgspec.structs import replace

from algorithm.model import Pod
from extender.lab.expecting import with_expected
from extender.lab.workload import CPU, GPU, Job, Workload

JOBS = (
    Job("a", 0.0, {CPU: 100, GPU: 500}, 1.0, gpu_models=("A", "B")),
    Job("b", 0.0, {CPU: 200, GPU: 2000}, 1.0, pods=3),
    Job("c", 0.0, {CPU: 200, GPU: 2000}, 1.0),
)
WORKLOAD = Workload("w", JOBS)


def test_the_pods_of_the_workload_are_typical_the_most_frequent_first() -> None:
    found = yaml.safe_load(with_expected("algorithm: {name: fgd, settings: {policy: bestfit}}", WORKLOAD))
    assert found["algorithm"]["name"] == "fgd"
    assert found["algorithm"]["settings"] == {
        "policy": "bestfit",
        "typical": [
            {"cpu_milli": 200, "gpu_milli": 1000, "gpus": 2, "models": "", "count": 4},
            {"cpu_milli": 100, "gpu_milli": 500, "gpus": 1, "models": "A|B", "count": 1},
        ],
    }


def test_typical_pods_of_the_settings_count() -> None:
    settings = "algorithm: {name: fgd, settings: {typical: [{cpu_milli: 1}]}}"
    assert with_expected(settings, WORKLOAD) == settings


def test_recorded_pods_are_replayed_as_live() -> None:
    recorded = replace(JOBS[0], templates=(Pod(namespace="x", name="a"),))
    assert with_expected("", Workload("w", (recorded,))) == ""
