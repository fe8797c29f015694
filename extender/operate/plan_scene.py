"""What a plan is made of, read from where the options say: the cluster, the manifests, the configurations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from extender.embedded.kubescheduler.model import SchedNode
from extender.kube.client.kubeconfig import current_namespace
from extender.operate.cluster_world import Reading, read_cluster
from extender.operate.plan_sources import sources
from extender.plan.files import PlanFile
from extender.plan.reading import snapshots
from extender.plan.reading.copying import copied_nodes
from extender.plan.reading.documents import Documents, InputError, read_documents
from extender.plan.reading.expanding import expand
from extender.plan.reading.shapes import DEFAULT, shaped_nodes
from extender.plan.reading.snapshots import SnapshotError, read_snapshot
from extender.plan.records import World
from extender.plan.run.configuration import self_contained
from extender.settings import ClusterSettings, read_text

#: What the names of added nodes begin with.
_ADDED = "added-"
_DIGITS = 10
#: What is said if no cluster is named, and there is none by default.
_NOWHERE = "there is no kubeconfig"


class SceneError(ValueError):
    """Something cannot be read; the message names it."""


@dataclass(frozen=True)
class Cluster:
    """Where the cluster is read from: a snapshot, a number of nodes, else the API server that the options name."""

    snapshot: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    nodes: int | None = None
    node_shape: str = ""
    config: Path | None = None
    scheduler_config: Path | None = None

    @property
    def settings(self) -> ClusterSettings:
        """How to reach the API server."""
        return ClusterSettings(kubeconfig=self.kubeconfig, context=self.context, server=self.server)

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none, as kubectl has it."""
        is_reached = self.snapshot is None and self.nodes is None
        return current_namespace(self.settings) if is_reached else "default"


def read_world(cluster: Cluster, *, algorithm: str | None = None) -> Reading:
    """Return the cluster as it is, with the configurations that the options name, and warnings. `algorithm`: the one
    that decides, if it is not that of the configuration.

    Raises InputError, SceneError, ShapeError, SettingsError, OSError.
    """
    settings = settings_text(cluster.config) if cluster.config else ""
    scheduler = _text(cluster.scheduler_config)
    if cluster.snapshot is None and cluster.nodes is None:
        return _read(cluster.settings, settings, scheduler, algorithm)
    world = _snapshot(cluster.snapshot) if cluster.snapshot is not None else _shaped(cluster)
    return Reading(
        msgspec.structs.replace(world, settings=settings or world.settings, scheduler=scheduler or world.scheduler)
    )


def read_world_again(cluster: Cluster, file: PlanFile) -> World:
    """Return the cluster of a plan as it is now, with the configurations that the options name, now or when the plan
    was made. Raises as `read_world`."""
    settings = file.settings if file.has_own_settings else ""
    scheduler = file.scheduler if file.has_own_scheduler else ""
    if cluster.config:
        settings = settings_text(cluster.config)
    if cluster.scheduler_config:
        scheduler = _text(cluster.scheduler_config)
    return _read(cluster.settings, settings, scheduler, None).world


def _read(named: ClusterSettings, settings: str, scheduler: str, algorithm: str | None) -> Reading:
    try:
        return read_cluster(named, configuration=settings, scheduler=scheduler, algorithm=algorithm)
    except InputError as error:
        if _NOWHERE in str(error):
            raise SceneError("there is no kubeconfig: name a cluster by --kubeconfig, --snapshot or --nodes") from error
        raise


def _text(path: Path | None) -> str:
    return read_text(path, str(path)) if path else ""


def _shaped(cluster: Cluster) -> World:
    shape = cluster.node_shape or DEFAULT
    number = cluster.nodes or 0
    return World(nodes=shaped_nodes(number, shape), source=f"{number} empty node{'s'[: number != 1]} of {shape}")


def _snapshot(path: Path) -> World:
    try:
        return read_snapshot(read_bytes(path, snapshots.MOST_BYTES))
    except SnapshotError as error:
        raise SceneError(f"{path}: {error}") from error


def read_manifests(names: Sequence[str], namespace: str) -> Documents:
    """Return the objects of files, folders and standard input. Raises InputError."""
    return read_documents(sources(names), namespace=namespace).require()


def added_nodes(text: str, shape: str, world: World) -> tuple[SchedNode, ...]:
    """Return the nodes of `--add-nodes`: so many of a shape, without a shape like those of the cluster; or those of a
    file. Raises InputError, ShapeError, SceneError, OSError."""
    if not text:
        return ()
    if text.isascii() and text.isdecimal() and len(text) < _DIGITS:
        if shape:
            return shaped_nodes(int(text), shape, prefix=_ADDED)
        return copied_nodes(int(text), world, prefix=_ADDED)
    found = expand(read_manifests([text], "default").objects, World())
    if found.errors:
        raise SceneError("\n".join(found.errors))
    if not found.nodes:
        raise SceneError(f"--add-nodes: {text}: there is no Node in it; expected a number, or a file with nodes")
    return found.nodes


def settings_text(path: Path) -> str:
    """Return a configuration of Waggle with the algorithm's own file in it. Raises SettingsError."""
    return self_contained(read_text(path, str(path)), path)


def read_bytes(path: Path, most: int) -> bytes:
    """Return the contents of a file of at most so many bytes; "-" is standard input. Raises SceneError, OSError."""
    with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise SceneError(f"{path}: has more than {most >> 20} MiB")
    return data
