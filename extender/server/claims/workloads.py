"""Watches the workloads of pools: their pod templates and replicas.

A pool may name its workload. Then a request that finds no idle pod can have one created from the template (`on_empty:
cold`), and the autoscaler can change the replicas. There is one watch for each such workload, of this object only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from algorithm.decoding import DecodeError
from extender.claims.records import PoolKey
from extender.kube.client.api import ApiServer
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Resource, Timing

log = structlog.get_logger(__name__)

#: The supported kinds of workload, with their resource names in the group apps.
PLURALS: Final = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
#: The limit of memory for one workload, bytes.
_LARGEST = 4 << 20


class WorkloadRef(msgspec.Struct, frozen=True):
    """A reference to a workload."""

    namespace: str
    kind: str
    name: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    replicas: int = 1
    template: dict[str, Any] | None = None


class _Wire(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Workload(msgspec.Struct, frozen=True):
    """A workload: its spec.replicas, and its pod template as JSON values."""

    name: str
    uid: str
    resource_version: str
    replicas: int
    template: Mapping[str, Any]


_DECODER = msgspec.json.Decoder(_Wire)


def decode(raw: bytes | msgspec.Raw) -> Workload:
    """Return the workload. Raises DecodeError, which names the field."""
    try:
        found = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    meta, spec = found.metadata, found.spec
    return Workload(meta.name, meta.uid, meta.resource_version, spec.replicas, spec.template or {})


class Workloads:
    """The workloads of pools. `changed` is called when the template of any of them has changed."""

    def __init__(
        self,
        api: ApiServer,
        changed: Callable[[], None],
        *,
        timing: Timing | None = None,
        in_loop: LoopReader | None = None,
    ) -> None:
        self._api = api
        self._changed = changed
        self._timing = timing
        self._in_loop = in_loop
        self._lock = threading.Lock()
        self._refs: dict[PoolKey, WorkloadRef] = {}
        self._informers: dict[WorkloadRef, Reflector[Workload]] = {}
        self._known: dict[WorkloadRef, Workload] = {}
        self._is_stopped = False

    def configure(self, refs: Mapping[PoolKey, WorkloadRef]) -> None:
        """Watch the workloads of these pools, and no others."""
        with self._lock:
            if self._is_stopped:
                return
            self._refs = dict(refs)
            wanted = set(refs.values())
            new = {ref: self._made(ref) for ref in sorted(wanted - set(self._informers), key=str)}
            old = [self._informers.pop(ref) for ref in set(self._informers) - wanted]
            for ref in set(self._known) - wanted:
                del self._known[ref]
            self._informers |= new
        for informer in new.values():
            informer.start()
        for informer in old:
            informer.stop()

    def find(self, pool: PoolKey) -> Workload | None:
        """Return the pool's workload; None if the pool has none, or it is not known."""
        with self._lock:
            ref = self._refs.get(pool)
            return self._known.get(ref) if ref is not None else None

    def ref(self, pool: PoolKey) -> WorkloadRef | None:
        """Return the reference to the pool's workload; None if the pool has none."""
        with self._lock:
            return self._refs.get(pool)

    def trouble(self) -> str:
        """Return the first workload that is not known, and why; "" if all are known."""
        with self._lock:
            for ref, informer in self._informers.items():
                if ref not in self._known:
                    why = informer.last_error or ("it does not exist" if informer.synced.is_set() else "being read")
                    return f"{ref.kind} {ref.namespace}/{ref.name}: {why}"
        return ""

    def stop(self) -> None:
        """Stop all watches. Idempotent."""
        with self._lock:
            self._is_stopped = True
            informers = list(self._informers.values())
        for informer in informers:
            informer.stop()

    def _made(self, ref: WorkloadRef) -> Reflector[Workload]:
        resource: Resource[Workload] = Resource(
            PLURALS[ref.kind],
            decode,
            lambda workload: workload.name,
            group="apps",
            namespace=ref.namespace,
            field_selector=f"metadata.name={ref.name}",
        )

        def took_in(changes: list[Change[Workload]]) -> None:
            self._took_in(ref, changes)

        return Reflector(
            self._api, resource, took_in, timing=self._timing, in_loop=self._in_loop, most=lambda: _LARGEST
        )

    def _took_in(self, ref: WorkloadRef, changes: list[Change[Workload]]) -> None:
        with self._lock:
            before = self._known.get(ref)
            for change in changes:
                if change.kind is ChangeKind.SEEN:
                    self._known[ref] = change.obj
                else:
                    self._known.pop(ref, None)
            after = self._known.get(ref)
        if (before.template if before else None) != (after.template if after else None):
            self._changed()
