"""Nodes by number and shape."""

from __future__ import annotations

import pytest

from extender.plan.reading.shapes import MOST_NODES, ShapeError, shaped_nodes


def test_nodes_have_the_resources_labels_and_taints_of_their_shape() -> None:
    shape = (
        "cpu=64, memory=256Gi,nvidia.com/gpu=8,label:rack=r%d/4,label:n=%d,taint:gpu=yes:NoSchedule,taint:x:NoExecute"
    )
    nodes = shaped_nodes(9, shape)
    assert [each.name for each in nodes][:2] == ["node-0", "node-1"]
    assert [dict(each.node.labels)["rack"] for each in nodes] == ["r0"] * 4 + ["r1"] * 4 + ["r2"]
    assert dict(nodes[8].node.labels)["n"] == "8"
    last = nodes[8].node
    assert dict(last.allocatable) == {"cpu": 64_000, "memory": 256 << 30, "nvidia.com/gpu": 8, "pods": 110}
    assert [(each.key, each.value, each.effect) for each in last.taints] == [
        ("gpu", "yes", "NoSchedule"),
        ("x", "", "NoExecute"),
    ]
    assert last.ready
    assert len({each.uid for each in nodes}) == 9


@pytest.mark.parametrize(
    ("number", "shape", "why"),
    [
        (0, "cpu=1", "nodes: expected 1 to"),
        (MOST_NODES + 1, "cpu=1", "nodes: expected 1 to"),
        (1, "cpu", "node shape: 'cpu': expected RESOURCE=QUANTITY"),
        (1, "cpu=64,cpu=32", "node shape: cpu appears twice"),
        (1, "pods=1,cpu=1, pods=1", "node shape: pods appears twice"),
        (1, "label:a=b,label:a=c", "node shape: label:a appears twice"),
        (1, "taint:a=b:NoSchedule,taint:a:NoSchedule", "node shape: taint:a:NoSchedule appears twice"),
        (1, "cpu=x", "node shape: [cpu]: quantity"),
        (1, "cpu=-1", "node shape: [cpu]: quantity"),
        (1, "label:a=b c", "node shape: metadata.labels: Invalid value"),
        (1, "taint:a=b", "node shape: 'taint:a=b': expected taint:KEY"),
        (1, "cpu=1," * 200, "node shape: expected at most 100 parts"),
    ],
)
def test_a_wrong_shape_is_refused(number: int, shape: str, why: str) -> None:
    with pytest.raises(ShapeError) as caught:
        shaped_nodes(number, shape)
    assert str(caught.value).startswith(why)
