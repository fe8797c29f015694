"""Snapshots: what is written is read back, and nothing else is."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from extender.plan.reading import snapshots
from extender.plan.reading.shapes import shaped_nodes
from extender.plan.reading.snapshots import SnapshotError, read_snapshot, write_snapshot
from extender.plan.records import World
from tests.unit.plan.reading.manifests import expanded, job

_WORLD = World(release="1.2.3", nodes=shaped_nodes(3), pods=expanded(job("j", 2)).pods, settings="log: {}")


def test_a_snapshot_is_read_back_and_the_same_each_time() -> None:
    data = write_snapshot(_WORLD)
    assert read_snapshot(data) == _WORLD
    assert write_snapshot(_WORLD) == data
    assert read_snapshot(gzip.decompress(data)) == _WORLD


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not what `waggle snapshot` writes"),
        (b"{}", "not what `waggle snapshot` writes"),
        (b"\x1f\x8bnonsense", "not a gzip file"),
        (write_snapshot(_WORLD)[:-20], "it breaks off: the file is not complete"),
        (write_snapshot(_WORLD) + b"x", "there is something behind its end"),
        (
            msgspec.json.encode({"version": 2, "release": "9.9", "nodes": "else"}),
            "it is of version 2, written by Waggle 9.9; this Waggle reads version 1",
        ),
        (msgspec.json.encode({"version": 1, "nodes": [3]}), "it cannot be read: Expected `object`, got `int`"),
        (
            write_snapshot(msgspec.structs.replace(_WORLD, nodes=(*_WORLD.nodes, *_WORLD.nodes))),
            "two of its nodes have the same name",
        ),
        (
            write_snapshot(msgspec.structs.replace(_WORLD, pods=(*_WORLD.pods, *_WORLD.pods))),
            "two of its pods have the same UID",
        ),
        (gzip.compress(b"[" * 100_000), "not what `waggle snapshot` writes"),
    ],
)
def test_what_is_no_snapshot_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_snapshot(data)
    assert str(caught.value).startswith(why)


def test_sizes_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_EXPANDED", 1 << 20)
    with pytest.raises(SnapshotError, match="expands to more than 1 MiB"):
        read_snapshot(gzip.compress(b" " * (8 << 20)))
    monkeypatch.setattr(snapshots, "MOST_NODES", 2)
    with pytest.raises(SnapshotError, match="it has 3 nodes, expected at most 2"):
        read_snapshot(write_snapshot(_WORLD))
    monkeypatch.setattr(snapshots, "MOST_BYTES", 1 << 20)
    with pytest.raises(SnapshotError, match="more than 1 MiB"):
        read_snapshot(b" " * (2 << 20))
