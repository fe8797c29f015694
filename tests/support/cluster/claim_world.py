"""Claims in one process: an API server with its controllers, and servers of claims, each on a socket of its own.

    with claim_world(pods=3) as w:
        answer = w.claim(wait_seconds=1)
        assert answer.status_code == 201

At its end everything that was claimed is what the API server has, and the engines' invariants hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from extender.claims.writes.names import CLAIM_LABEL, PHASE_LABEL
from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver import serve_in_thread as serve_cluster
from extender.kube.client.access_review import Reviewer
from extender.kube.client.backoff import BackoffSettings
from extender.kube.informers.reflector import Timing
from extender.server.claims.service import ClaimService
from extender.server.process import ServerProcess
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.api import Api, eventually
from tests.support.cluster.served import Served

QUICK = Timing(shortest_watch=650, longest_watch=699, backoff=BackoffSettings(shortest=0.05, longest=0.2))
Object = dict[str, Any]


@dataclass
class Server(Served):
    """One server of claims."""

    @property
    def claims(self) -> ClaimService:
        assert self.process.claims is not None
        return self.process.claims

    def validate(self) -> None:
        self.claims.runtime.look(lambda engine, _: engine.validate())
        assert self.claims.runtime.liveness().ready, self.claims.runtime.liveness().detail


class ClaimWorld:
    """What a test does and sees."""

    def __init__(self, cluster: EmbeddedCluster, mode: str, sections: Mapping[str, Any]) -> None:
        self.cluster = cluster
        self.mode = mode
        self.api = Api(cluster.url)
        self.servers: list[Server] = []
        self.timing = QUICK
        self._sections = sections

    # -- the cluster ----------------------------------------------------------------------------------------------

    def add_nodes(self, *names: str) -> None:
        for name in names:
            status = {"allocatable": {"pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}]}
            made = self.api.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
            assert made.status_code == 201, made.text

    def deploy(
        self, name: str, replicas: int, labels: Mapping[str, str], node: str = "n1", mode: str | None = None
    ) -> None:
        """A Deployment whose pods run on a node."""
        if (mode or self.mode) == "recycle":
            labels = {**labels, PHASE_LABEL: "idle"}
        template = {
            "metadata": {"labels": dict(labels)},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "warm:1"}]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"pool": labels["pool"]}}, "template": template}
        made = self.api.post("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": name}, "spec": spec})
        assert made.status_code == 201, made.text

    def pods(self, **labels: str) -> list[Object]:
        selector = ",".join(f"{name.replace('__', '/')}={value}" for name, value in labels.items())
        items: list[Object] = self.api.get("pods", labelSelector=selector).json()["items"]
        return items

    def claimed(self) -> dict[str, list[str]]:
        """The pods that are claimed at the API server, by claim, without those that are being deleted."""
        return self._claimed("name")

    def claimed_uids(self) -> dict[str, list[str]]:
        """The same with UIDs."""
        return self._claimed("uid")

    def _claimed(self, field: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for pod in self.api.get("pods", labelSelector=CLAIM_LABEL).json()["items"]:
            if "deletionTimestamp" not in pod["metadata"]:
                found.setdefault(pod["metadata"]["labels"][CLAIM_LABEL], []).append(pod["metadata"][field])
        return found

    # -- the servers ----------------------------------------------------------------------------------------------

    def serve(self, port: int = 0, reviewer: Reviewer | None = None, **claims: Any) -> Server:
        """Start a server, and wait until it is ready. `port` 0: any. `reviewer` decides who may claim."""
        pool = {"name": "warm", "selector": {"pool": "warm"}, "mode": self.mode}
        sections = dict(self._sections)
        settings = Settings.model_validate(
            {
                "server": {"port": port},
                "extender": {"enabled": False},
                **sections,
                "cluster": {"server": self.cluster.url, **sections.get("cluster", {})},
                "claims": {"enabled": True, "pools": [pool], **sections.get("claims", {}), **claims},
            }
        )
        process = ServerProcess(settings, timing=self.timing)
        process.start()
        try:
            app = create_app(
                process.service.runtime if process.service else None, settings, claims=process.claims, reviewer=reviewer
            )
            server = Server(process, serve_in_thread(app, settings))
        except BaseException:
            process.stop()
            raise
        self.servers.append(server)
        eventually(lambda: server.claims.readiness().ready)
        return server

    @property
    def server(self) -> Server:
        return self.servers[0]

    def claim(self, pool: str = "warm", *, headers: Mapping[str, str] | None = None, **body: Any) -> httpx.Response:
        """POST a claim to the first server."""
        return self.server.http.post(f"/v1/pools/default/{pool}/claims", json=body, headers=dict(headers or {}))

    def idle(self, count: int) -> None:
        """Wait until so many pods are idle."""
        eventually(lambda: self.pool().get("idle") == count)  # there may be no pool yet

    def pool(self, name: str = "warm") -> Object:
        found: Object = self.server.http.get(f"/v1/pools/default/{name}").json()
        return found

    def at_rest(self) -> None:
        """What the servers know is what the API server has."""

        def agrees() -> bool:
            real = self.claimed()
            for server in self.servers:
                known = server.claims.runtime.look(
                    lambda engine, _: {
                        name: sorted(
                            engine.state.pods[uid].name
                            for uid in claim.uids
                            if not engine.state.pods[uid].is_terminating
                        )
                        for name, claim in engine.state.claims.items()
                    }
                )
                if {name: pods for name, pods in known.items() if pods} != {
                    name: sorted(pods) for name, pods in real.items()
                }:
                    return False
            return True

        eventually(agrees)
        for server in self.servers:
            server.validate()


@contextmanager
def claim_world(
    *,
    pods: int = 3,
    mode: str = "detach",
    serve: bool = True,
    sections: Mapping[str, Any] | None = None,
    apiserver: Mapping[str, Any] | None = None,
    timing: Timing = QUICK,
    prepare: Callable[[ClaimWorld], None] = lambda _: None,
    **claims: Any,
) -> Iterator[ClaimWorld]:
    """A cluster with a pool `default/warm` of so many idle pods, and one server of claims.

    `apiserver` has options of the API server, and `prepare` is called before the first server starts.
    """
    with serve_cluster(**(apiserver or {})) as cluster:
        world = ClaimWorld(cluster, mode, sections or {})
        world.timing = timing
        world.add_nodes("n1", "n2")
        world.deploy("warm", pods, {"pool": "warm"})
        prepare(world)
        try:
            if serve:
                world.serve(**claims)
                world.idle(pods)
            yield world
            world.at_rest()
        finally:
            for server in world.servers:
                server.stop()
            world.api.close()
