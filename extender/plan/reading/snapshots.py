"""Snapshots: a World as a gzip file, which a plan can be made from anywhere, and which old releases do not misread.

    waggle snapshot > s.json.gz   -->   waggle plan -f jobs.yaml --snapshot s.json.gz

A snapshot has a version, and says which release wrote it. Reading one is bounded: a small file that expands to
gigabytes is refused while it expands.
"""

from __future__ import annotations

import gzip
import zlib

import msgspec

from extender.plan.records import VERSION, World

#: Bytes of a snapshot, compressed and not. One of 5,000 nodes and 100,000 pods has some 100 MiB uncompressed.
MOST_BYTES = 128 << 20
MOST_EXPANDED = 512 << 20
#: Nodes, pods and objects.
MOST_NODES, MOST_PODS, MOST_OBJECTS = 50_000, 500_000, 500_000
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"


class SnapshotError(ValueError):
    """It is no snapshot that can be used. The message says why."""


class _Version(msgspec.Struct):
    """What every version of the format has."""

    version: int
    release: str = ""


_encode = msgspec.json.Encoder().encode
_versions = msgspec.json.Decoder(_Version)
_worlds = msgspec.json.Decoder(World)


def write_snapshot(world: World) -> bytes:
    """Return the bytes of a snapshot: the same for the same world."""
    return gzip.compress(_encode(world), compresslevel=6, mtime=0)


def read_snapshot(data: bytes) -> World:
    """Return the world of a snapshot. Raises SnapshotError."""
    if len(data) > MOST_BYTES:
        raise SnapshotError(f"it has more than {MOST_BYTES >> 20} MiB")
    text = _expanded(data) if data.startswith(_GZIP) else data
    try:
        found = _versions.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"not what `waggle snapshot` writes: {error}") from error
    if found.version != VERSION:
        by = f", written by Waggle {found.release[:100]}" if found.release else ""
        raise SnapshotError(f"it is of version {found.version}{by}; this Waggle reads version {VERSION}")
    return _bounded(_decoded(text))


def _decoded(text: bytes) -> World:
    try:
        return _worlds.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"it cannot be read: {error}") from error


def _bounded(world: World) -> World:
    numbers = (
        ("nodes", world.nodes, MOST_NODES),
        ("pods", world.pods, MOST_PODS),
        ("objects", world.objects, MOST_OBJECTS),
    )
    for name, found, most in numbers:
        if len(found) > most:
            raise SnapshotError(f"it has {len(found)} {name}, expected at most {most}")
    names = {each.name for each in world.nodes}
    if len(names) < len(world.nodes):
        raise SnapshotError("two of its nodes have the same name")
    if len({each.pod.uid for each in world.pods}) < len(world.pods):
        raise SnapshotError("two of its pods have the same UID")
    return world


def _expanded(data: bytes) -> bytes:
    """Decompress, at most MOST_EXPANDED bytes. Raises SnapshotError."""
    found = bytearray()
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        while piece := stream.decompress(data, _PIECE):
            found += piece
            data = stream.unconsumed_tail
            if len(found) > MOST_EXPANDED:
                raise SnapshotError(f"it expands to more than {MOST_EXPANDED >> 20} MiB")
    except zlib.error as error:
        raise SnapshotError(f"not a gzip file: {error}") from error
    if not stream.eof:
        raise SnapshotError("it breaks off: the file is not complete")
    if stream.unused_data:
        raise SnapshotError("there is something behind its end")
    return bytes(found)
