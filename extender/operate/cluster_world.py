"""The cluster as a `World`, from the API server: all lists at one resourceVersion, or it is said that they are not.

Kinds that are not installed are left out silently. Nodes and pods must be readable; of other kinds that may not be
listed, a warning says what the plan then does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

import msgspec
import structlog

from algorithm.decoding import DecodeError
from extender.core.requests import collection_path
from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer, Response
from extender.kube.client.kubeconfig import ConnectionSettingsError, connect
from extender.kube.informers.listing import ListPager
from extender.kube.informers.objects import ObjectDecoder
from extender.kube.informers.reflection import ReflectorStats, RefusedError, RelistError, Resource
from extender.operate.installed_config import Installed, installed_configuration
from extender.plan.reading.documents import InputError
from extender.plan.reading.worlds import Record, WorldReader
from extender.plan.records import World
from extender.settings import ClusterSettings, parse

log = structlog.get_logger(__name__)

_PAGE = 500
#: Bytes that the objects of one list may take, as they are sent.
_MOST_BYTES = 1 << 30
_DISTRIBUTION = "waggle-scheduler"


@dataclass(frozen=True)
class _Kind:
    """A kind that is listed: its rows in paths, and what a plan does not know without it."""

    group: str
    version: str
    plural: str
    kind: str
    without: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return collection_path(self.plural, group=self.group, version=self.version)


_OWNERS = "which pods belong together, and what would make them again"
_GANGS = "how many pods a gang needs"
#: Objects above others first, pods last.
_KINDS = (
    _Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "the priorities of new pods"),
    _Kind("apps", "v1", "deployments", "Deployment", _OWNERS),
    _Kind("apps", "v1", "replicasets", "ReplicaSet", _OWNERS),
    _Kind("apps", "v1", "statefulsets", "StatefulSet", _OWNERS),
    _Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", _OWNERS),
    _Kind("batch.volcano.sh", "v1alpha1", "jobs", "Job", _OWNERS),
    _Kind("batch", "v1", "jobs", "Job", _OWNERS),
    _Kind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", _GANGS),
    _Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", _GANGS),
    _Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", _GANGS),
    _Kind("waggle.dev", "v1alpha1", "pools", "Pool", "pools of warm pods"),
    _Kind("waggle.dev", "v1alpha1", "claims", "Claim", "claims"),
    _Kind("waggle.dev", "v1alpha1", "vpodsets", "VPodSet", "sets of vpods"),
    _Kind("waggle.dev", "v1alpha1", "vpods", "VPod", "vpods"),
    _Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "budgets, which preemption and drains obey"),
    _Kind("", "v1", "nodes", "Node", ""),
    _Kind("", "v1", "pods", "Pod", ""),
)


@dataclass(frozen=True)
class Reading:
    """A cluster, and what has to be said about how it was read."""

    world: World
    warnings: tuple[str, ...] = ()


class _Item(msgspec.Struct, frozen=True, gc=False):
    """The record of an object, with all that the pager needs of it."""

    record: Record
    uid: str
    resource_version: str
    size: int


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta


_objects = msgspec.json.Decoder(_Object)


def read_cluster(
    settings: ClusterSettings, *, configuration: str = "", scheduler: str = "", algorithm: str | None = None
) -> Reading:
    """Return the cluster that `settings` name.

    `configuration`, `scheduler`: the texts of the configurations; those that are "" are read from the cluster.
    `algorithm`: the one that decides; None: that of the configuration. Raises InputError if the nodes or pods cannot be
    read, SettingsError for the configuration.
    """
    try:
        api = connect(settings, agent="waggle-plan")
    except ConnectionSettingsError as error:
        raise InputError(str(error).removeprefix("cluster: ")) from error
    try:
        installed = _installed(api) if not configuration else Installed(configuration)
        text = configuration or installed.configuration
        chosen = algorithm or parse(text, Path("waggle.yaml")).algorithm.name
        reader = WorldReader(text, scheduler or installed.scheduler, algorithm=chosen)
        warnings = [installed.warning] if installed.warning else []
        return _ClusterReader(api, reader, warnings=warnings).read()
    finally:
        api.close()


def _installed(api: ApiServer) -> Installed:
    try:
        return installed_configuration(api)
    except (ApiError, bounds.BoundError) as error:
        raise InputError(f"{api.endpoint.url}: {_told(api, error)}") from error


@dataclass
class _ClusterReader:
    api: ApiServer
    reader: WorldReader
    version: str = ""
    warnings: list[str] = field(default_factory=list)
    #: Lists that are newer than the first one.
    later: list[str] = field(default_factory=list)

    def read(self) -> Reading:
        for kind in _KINDS:
            self._read(kind)
        if self.later:
            self.warnings.append(
                f"the cluster changed while it was read: {', '.join(self.later)} are newer than the rest"
            )
        self.warnings += filter(None, [self.reader.unmade()])
        taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        world = self.reader.world(source=self.api.endpoint.url, taken=taken, release=release())
        return Reading(world, tuple(self.warnings))

    def _read(self, kind: _Kind) -> None:
        try:
            self._list(kind)
        except RefusedError as error:
            if error.status == 404 and kind.without:
                return
            if error.status not in (401, 403) or not kind.without:
                raise _cannot(kind, self.api, error) from error
            self.warnings.append(f"{kind.plural} may not be listed ({error}): the plan does not know {kind.without}")
        except (ApiError, RelistError, bounds.BoundError) as error:
            raise _cannot(kind, self.api, error) from error

    def _list(self, kind: _Kind) -> None:
        """List at the version of the first list, else as the cluster is now."""
        if self.version:
            try:
                self._take(kind, exact=True)
            except RelistError:
                self.later.append(kind.plural)
            except RefusedError as error:
                if error.status not in (400, 422):
                    raise
                self.later.append(kind.plural)
            else:
                return
        self._take(kind, exact=False)

    def _take(self, kind: _Kind, *, exact: bool) -> None:
        version = {"resourceVersion": self.version, "resourceVersionMatch": "Exact"} if exact else {}

        def page(query: dict[str, str]) -> Response:
            asked = query if "continue" in query else {**query, **version}
            return self.api.request("GET", kind.path, query=asked, timeout=bounds.PAGE_SECONDS, most=bounds.PAGE)

        resource = Resource(
            kind.plural,
            lambda raw: self._item(kind, raw),
            lambda item: item.uid,
            group=kind.group,
            version=kind.version,
            weigh=lambda item: item.size,
        )
        stats = ReflectorStats()
        decoder = ObjectDecoder(resource, stats, log)
        listed = ListPager(resource, decoder, stats, page, page=_PAGE, most=lambda: _MOST_BYTES).read()
        self.version = self.version or listed.version
        for item in listed.objects.values():
            self.reader.take(item.record)
        if listed.unreadable:
            named = ", ".join(str(each) for each in listed.unreadable[:3])
            self.warnings.append(f"{len(listed.unreadable)} {kind.plural} cannot be read and are left out: {named}")

    def _item(self, kind: _Kind, raw: msgspec.Raw) -> _Item:
        """Raises DecodeError."""
        record = self.reader.read(kind.api_version, kind.kind, raw)
        try:
            meta = _objects.decode(raw).metadata
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(str(error)) from error
        return _Item(record, meta.uid, meta.resource_version, memoryview(raw).nbytes)


def _cannot(kind: _Kind, api: ApiServer, error: Exception) -> InputError:
    return InputError(f"{api.endpoint.url}: {kind.plural} cannot be read: {_told(api, error)}")


def _told(api: ApiServer, error: Exception) -> str:
    """Return what an error says, without the server that it may name: the caller does that."""
    return str(error).removeprefix(f"{api.endpoint.url}: ")


def release() -> str:
    """Return this release of Waggle; "" in a checkout that is not installed."""
    try:
        return installed_version(_DISTRIBUTION)
    except PackageNotFoundError:
        return ""


__all__ = ["Reading", "read_cluster", "release"]
