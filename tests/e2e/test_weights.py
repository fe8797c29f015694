"""prioritize: how much Waggle's scores count against those of kube-scheduler's own plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.gate import Call, Reply
from tests.e2e.world import RealCluster, world

NODES = ["n0", "n1", "n2"]


def scoring(**weights: int) -> object:
    """An extender that only scores."""

    def play(call: Call) -> Reply:
        return Reply([{"Host": name, "Score": weights.get(name, 0)} for name in call.nodes])

    return play


@pytest.mark.parametrize(("weight", "wins"), [(1, False), (100, True)], ids=["light", "heavy"])
def test_the_weight_decides_between_extender_and_plugins(
    plane: ControlPlane, programs: Mapping[str, Path], weight: int, wins: bool
) -> None:
    """The plug-ins prefer the empty nodes by some hundred points; 10 x weight x 10 is what the extender can add."""
    extender = {"filterVerb": None, "bindVerb": None, "preemptVerb": None, "prioritizeVerb": "prioritize"}
    extender |= {"weight": weight}
    with world(plane, programs, waggle=False, extender=extender, folder=f"weight-{weight}") as w:
        w.nodes(3, cpu="4")
        w.pod("full", cpu="3", nodeName="n0")
        w.gate.play(scoring(n0=2))
        w.pod("p", cpu="500m")
        assert (w.place("p") == "n0") is wins


def test_waggle_scores_where_it_does_not_filter(plane: ControlPlane, programs: Mapping[str, Path]) -> None:
    extender = {"filterVerb": None, "preemptVerb": None, "prioritizeVerb": "prioritize", "weight": 100}
    with world(plane, programs, extender={**extender, "bindVerb": None}, folder="score-only") as w:
        w.nodes(3)
        w.pod("first", gpus=2)
        node = w.place("first")
        for i in range(3):
            w.pod(f"p{i}", gpus=2)
            assert w.place(f"p{i}") == node, "packing fills a node before it begins another"
        scores = {each["Host"]: each["Score"] for each in w.gate.calls_of("prioritize")[-1].answer}
        assert scores[node] == max(scores.values()) <= 10


def test_with_filter_one_node_is_left_and_nothing_to_score(w: RealCluster) -> None:
    w.nodes(3)
    w.pod("p", gpus=1)
    w.place("p")
    assert not w.gate.calls_of("prioritize")


WORLD = {"extender": {"prioritizeVerb": "prioritize", "weight": 5}}
