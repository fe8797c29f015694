"""Did you mean: misspelt fields and values of a configuration are answered with what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from algorithm.registry import AlgorithmError, create
from algorithm.suggest import near
from extender.operate.scheduler_config import OptionError, SchedulerOptions, kube_scheduler_config
from extender.operate.topology import Topology
from extender.settings import SettingsError, load


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"sever": {}}, "sever: there is no such field; did you mean server?"),
        ({"server": {"prot": 1}}, "server.prot: there is no such field; did you mean port?"),
        (
            {"server": {"tls": {"certfile": "x"}}},
            "server.tls.certfile: there is no such field; did you mean cert_file?",
        ),
        ({"Preemption": {"mode": "auto"}}, "did you mean preemption?"),
        ({"health_port": 9097}, "health_port: there is no such field; did you mean server.health_port?"),
        ({"server": {"scheduler_names": []}}, "did you mean pods.scheduler_names?"),
        (
            {"preemption": {"mode": "directly"}},
            "preemption.mode: Input should be 'auto', 'kube-scheduler' or 'direct'; did you mean direct?",
        ),
        ({"log": {"level": "warn"}}, "; did you mean warning?"),
        ({"server": {"inspect_authorization": "kubernets"}}, "; did you mean kubernetes?"),
    ],
    ids=str,
)
def test_a_misspelt_field_or_value_is_answered_with_what_was_meant(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "waggle.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "content", [{"zzz": 1}, {"log": {"level": "zzz"}}, {"log": {"level": 7}}, {"log": {"level": []}}]
)
def test_nothing_is_suggested_if_nothing_is_near(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "waggle.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert "did you mean" not in str(caught.value)


def test_a_misspelt_algorithm_and_its_misspelt_setting() -> None:
    with pytest.raises(AlgorithmError, match="did you mean packing"):
        create("pakcing")
    with pytest.raises(AlgorithmError, match="there is no such field; did you mean preemption_candidates"):
        create("packing", {"preemption_candidate": 3})


def test_a_misspelt_verb() -> None:
    with pytest.raises(OptionError, match=r"--verb: 'perempt' is none of .*; did you mean preempt\?"):
        kube_scheduler_config(SchedulerOptions(topology=Topology.LOCAL, verbs=("filter", "perempt")))


def test_a_very_long_name_costs_no_more_than_a_long_one() -> None:
    assert near("x" * 10_000_000, ["server"]) == ""
