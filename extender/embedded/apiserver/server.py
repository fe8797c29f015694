"""Running the embedded API server: in a thread (tests), or until a signal comes (the sidecar, see `sidecar.py`).

    with serve_in_thread() as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, ...})
        client = SomeClient(cluster.url)

It listens on 127.0.0.1 only: it knows neither users nor TLS, keeps everything in memory, and is not a Kubernetes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from extender.embedded.apiserver.app import App
from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.connection import ABORT, WRITE
from extender.embedded.apiserver.controllers import Controllers
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.faults import Faults
from extender.embedded.apiserver.kubelet import Kubelet
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.resources import Resource, Target
from extender.embedded.apiserver.views import as_shown

HOST = "127.0.0.1"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the server behaves; times in seconds."""

    #: 0 takes any free port.
    port: int = 0
    #: Bound pods run, deleted pods go, nodes are ready. Without it nothing happens by itself.
    kubelet: bool = True
    #: Workloads get their pods, budgets their numbers, what has lost its owner or its node goes. See `controllers.py`.
    controllers: bool = True
    #: Pods get nodes, because no kube-scheduler runs. See `binder.py`.
    binds: bool = False
    #: From the binding to Running.
    start_delay: float = 0.0
    #: From a graceful deletion to the end.
    stop_delay: float = 0.2
    #: From a change of a pod to the moment when the controller of ReplicaSets sees it, unless it made it itself.
    pod_lag: float = 0.0
    #: Changes that each resource remembers; older resourceVersions are expired (410).
    history: int = 5000
    bookmark_seconds: float = 10.0
    #: Makes uids and generated names the same in every run.
    seed: int | None = None


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with a way for injected faults to cut the connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # ASGI says that the values are dicts; this one is between our own server and our own application.
        self.scope["extensions"] = {ABORT: self.transport.abort, WRITE: self.transport.write}  # type: ignore[dict-item]


class _Server(uvicorn.Server):
    """uvicorn's server, which ends open watches when it stops instead of waiting for them."""

    def __init__(self, config: uvicorn.Config, runtime: Runtime) -> None:
        super().__init__(config)
        self._runtime = runtime

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._runtime.started(asyncio.get_running_loop())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._runtime.stopping()
        await super().shutdown(sockets)


class Runtime:
    """A cluster, its kubelets and its HTTP server, ready to run on one event loop. `socket` listens already."""

    def __init__(self, options: Options) -> None:
        self.cluster = Cluster(history=options.history, seed=options.seed)
        self.app = App(self.cluster, bookmark_seconds=options.bookmark_seconds)
        self.socket = socket.create_server((HOST, options.port))
        self.loop: asyncio.AbstractEventLoop | None = None
        #: Called on the event loop when the server takes requests.
        self.on_ready: Callable[[], None] = lambda: None
        self._kubelet = (
            Kubelet(self.cluster, start_delay=options.start_delay, stop_delay=options.stop_delay)
            if options.kubelet
            else None
        )
        self._controllers = (
            Controllers(self.cluster, pod_lag=options.pod_lag, binds=options.binds) if options.controllers else None
        )
        config = uvicorn.Config(
            self.app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=5,
        )
        self.server = _Server(config, self)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def run(self) -> None:
        """Serve until `server.should_exit` is set or, in the main thread, SIGTERM or SIGINT comes."""
        uvloop.run(self.server.serve(sockets=[self.socket]))

    def started(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        if self._kubelet is not None:
            self._kubelet.start(loop)
        if self._controllers is not None:
            self._controllers.start(loop)
        self.on_ready()

    def stopping(self) -> None:
        if self._kubelet is not None:
            self._kubelet.stop()
        if self._controllers is not None:
            self._controllers.stop()
        self.app.close()


class EmbeddedCluster:
    """A running server in a thread of this process. All methods may be called from any other thread.

    Resources are named as for kubectl: "pods", "po", "leases.coordination.k8s.io". Refusals are ApiError.
    """

    def __init__(self, options: Options) -> None:
        ready = threading.Event()
        self._runtime = Runtime(options)
        self._runtime.on_ready = ready.set
        self.url = self._runtime.url
        self._thread = threading.Thread(target=self._runtime.run, name="embedded-apiserver", daemon=True)
        self._thread.start()
        if not ready.wait(30):
            raise RuntimeError("the embedded API server did not start within 30 s; its log says why")

    @property
    def faults(self) -> Faults:
        return self._runtime.app.faults

    @property
    def revision(self) -> int:
        """The resourceVersion of the latest write."""
        return self._runtime.cluster.store.revision

    def stop(self) -> None:
        """Close all connections and wait for the thread to end."""
        self._runtime.server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def create(self, obj: Object) -> Object:
        """Create an object given with kind and apiVersion; `metadata.namespace` defaults to `default`."""
        return self._run(lambda cluster: self._show(*_create(cluster, obj)))

    def apply(self, obj: Object) -> Object:
        """Create an object, or merge it into the one that exists; either way with the status that it is given."""
        return self._run(lambda cluster: self._show(*_apply(cluster, obj)))

    def patch(
        self, resource: str, name: str, patch: Object, namespace: str = "default", subresource: str = ""
    ) -> Object:
        """Apply a JSON merge patch."""

        def work(cluster: Cluster) -> Object:
            target = _target(cluster, resource, namespace, name, subresource)
            return self._show(target.resource, cluster.patch(target, patch, MERGE).fresh())

        return self._run(work)

    def get(self, resource: str, name: str, namespace: str = "default") -> Object | None:
        """The object, None if there is none."""

        def work(cluster: Cluster) -> Object | None:
            target = _target(cluster, resource, namespace, name)
            stored = cluster.store.collection(target.resource).get((target.namespace, name))
            return self._show(target.resource, stored.fresh()) if stored else None

        return self._run(work)

    def objects(self, resource: str) -> list[Object]:
        """All objects of a resource in all namespaces, by namespace and name."""

        def work(cluster: Cluster) -> list[Object]:
            row = cluster.table.named(resource)
            return [self._show(row, stored.fresh()) for stored in cluster.store.collection(row)]

        return self._run(work)

    def delete(
        self, resource: str, name: str, namespace: str = "default", grace_period_seconds: int | None = None
    ) -> None:
        """Delete an object; with grace period 0 a pod goes at once."""
        options = DeleteOptions(grace_period_seconds=grace_period_seconds)
        self._run(lambda cluster: cluster.delete(_target(cluster, resource, namespace, name), options))

    def compact(self) -> None:
        """Expire all older resourceVersions: watches and lists that name one are answered 410."""

        def work(cluster: Cluster) -> None:
            for collection in cluster.store:
                collection.forget_history()

        self._run(work)

    def end_watches(self, agent: str = "") -> None:
        """End open watches properly, as when an API server is rolled over; `agent`: those of these clients only."""
        self._run(lambda _cluster: self._runtime.app.end_watches(agent))

    def _run(self, work: Callable[[Cluster], T]) -> T:
        """Do `work` on the server's event loop, where nothing else happens meanwhile."""
        result: Future[T] = Future()

        def do() -> None:
            try:
                result.set_result(work(self._runtime.cluster))
            except BaseException as error:
                result.set_exception(error)

        loop = self._runtime.loop
        if loop is None or not self._thread.is_alive():
            raise RuntimeError("the embedded API server is stopped")
        loop.call_soon_threadsafe(do)
        return result.result(30)

    @staticmethod
    def _show(resource: Resource, obj: Object) -> Object:
        return {"kind": resource.kind, "apiVersion": resource.api_version, **as_shown(resource, obj)}


def serve_in_thread(**options: Any) -> EmbeddedCluster:
    """Start a server in a thread; the fields of Options are its keywords. Returns when it takes requests."""
    return EmbeddedCluster(Options(**options))


def _target(cluster: Cluster, resource: str, namespace: str, name: str, subresource: str = "") -> Target:
    row = cluster.table.named(resource)
    return Target(row, namespace if row.namespaced else "", name, subresource)


def _target_of(cluster: Cluster, obj: Object) -> Target:
    row = cluster.table.by_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
    if row is None:
        raise ApiError(400, "BadRequest", f"no resource is {obj.get('apiVersion')!r}, kind {obj.get('kind')!r}")
    metadata = obj.get("metadata", {})
    return Target(row, metadata.get("namespace", "default") if row.namespaced else "", metadata.get("name", ""))


def _create(cluster: Cluster, obj: Object) -> tuple[Resource, Object]:
    target = _target_of(cluster, obj)
    created = cluster.create(Target(target.resource, target.namespace), obj)
    return target.resource, created.fresh()


def _apply(cluster: Cluster, obj: Object) -> tuple[Resource, Object]:
    target = _target_of(cluster, obj)
    if cluster.store.collection(target.resource).get((target.namespace, target.name)) is None:
        merged = cluster.create(Target(target.resource, target.namespace), obj)
    else:
        merged = cluster.patch(target, {key: value for key, value in obj.items() if key != "status"}, MERGE)
    if "status" in obj and "status" in target.resource.subresources:
        status = Target(target.resource, target.namespace, merged.key[1], "status")
        merged = cluster.patch(status, {"status": obj["status"]}, MERGE)
    return target.resource, merged.fresh()
