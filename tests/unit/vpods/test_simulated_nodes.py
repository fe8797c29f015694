"""The nodes of simulated pods, against a look at all nodes for each of them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.vpods.records import HostNode, HostPod, ObjectKey
from extender.vpods.simulated_nodes import NodeChoice


def plainly(nodes, pods):
    """The node of the next pod."""
    on = Counter(pods)
    in_zone = Counter(nodes[name].zone if name in nodes else "" for name in pods)
    serving = [node for node in nodes.values() if node.serves]
    best = min(serving, key=lambda node: (in_zone[node.zone], on[node.name], node.name), default=None)
    return best.name if best else ""


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["", "a", "b", "c"])), max_size=8),
    st.lists(st.integers(0, 9), max_size=12),
    st.integers(1, 20),
)
def test_the_same_nodes_as_by_looking_at_all(kinds, there, number):
    nodes = {f"n{n}": HostNode(f"n{n}", serves=serves, zone=zone) for n, (serves, zone) in enumerate(kinds)}
    pods = [f"n{n}" for n in there]
    hosts = [HostPod(key=ObjectKey("ns", f"ss-{n}"), uid="", node=name) for n, name in enumerate(pods)]
    choice = NodeChoice(nodes, hosts, ())
    for _ in range(number):
        expected = plainly(nodes, pods)
        assert choice.next() == expected
        pods.append(expected)
