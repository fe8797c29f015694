"""A copy in pieces equals the cache at the moment of its last piece, whatever happens between the pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from algorithm.model import Node, Pod
from extender.scheduling.state.cache import Cache
from extender.server.plans import copying
from extender.server.plans.copying import Copy, copy_nodes

#: What happens between two pieces: a node or a pod comes, changes or goes. Numbers name them.
_EVENTS = st.tuples(st.sampled_from(["node", "no node", "pod", "no pod"]), st.integers(0, 11), st.integers(0, 5))


def happen(cache: Cache, version: int, what: str, which: int, where: int) -> None:
    node, uid = f"n{where}", f"u{which}"
    if what == "node":
        cache.set_node(Node(name=node, resource_version=str(version), labels=(("v", str(version)),)))
    elif what == "no node":
        cache.remove_node(node)
    elif what == "no pod":
        if cache.pod(uid) is not None:
            cache.forget(uid)
    elif cache.pod(uid) is None:
        pod = Pod(namespace="default", name=f"p{which}", uid=uid, resource_version=str(version), node_name=node)
        cache.assume(pod)


def expected(cache: Cache) -> dict[str, tuple[Node | None, frozenset[str]]]:
    infos = cache.snapshot().nodes
    return {name: (info.node, frozenset(pod.uid for pod in info.pods)) for name, info in infos.items()}


def shown(copy: Copy) -> dict[str, tuple[Node | None, frozenset[str]]]:
    return {name: (found.node, frozenset(pod.uid for pod in found.pods)) for name, found in copy.items()}


@given(before=st.lists(_EVENTS, max_size=15), between=st.lists(st.lists(_EVENTS, max_size=4), max_size=12))
def test_it_equals_the_cache_at_its_last_piece(
    before: list[tuple[str, int, int]], between: list[list[tuple[str, int, int]]]
) -> None:
    cache, version = Cache(), 0
    for event in before:
        happen(cache, version := version + 1, *event)
    piece, copying.PIECE = copying.PIECE, 2
    try:
        for pieces, found in enumerate(copy_nodes(cache)):
            if found is not False:
                assert shown(found) == expected(cache)
                assert list(found) == sorted(found)
                return
            for event in between[pieces] if pieces < len(between) else ():
                happen(cache, version := version + 1, *event)
    finally:
        copying.PIECE = piece
    raise AssertionError("there was no last piece")


def test_it_ends_although_everything_changes_all_the_time() -> None:
    cache = Cache()
    for number in range(copying.PIECE * 3):
        cache.set_node(Node(name=f"n{number}", resource_version="1"))
    for version, found in enumerate(copy_nodes(cache), 2):
        for number in range(copying.PIECE * 3):
            cache.set_node(Node(name=f"n{number}", resource_version=str(version)))
        last = found
    assert last is not False
    assert len(last) == copying.PIECE * 3
