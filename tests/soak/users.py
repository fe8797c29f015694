"""Everybody else at the API server of the simulation: kubelets, users who make and end pods, who adds nodes."""

from __future__ import annotations

from random import Random
from typing import Any

from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Stored
from extender.embedded.apiserver.table import NODES, PODS, PRIORITY_CLASSES

GPU = "example.com/gpu"
GPUS = 4
HIGHEST = 1000


class Users:
    """What they do is always done, and at once."""

    def __init__(self, api: Cluster, rng: Random) -> None:
        self.api, self.rng = api, rng
        self._names = 0
        for name, value in (("low", -10), ("high", HIGHEST)):
            self.api.create(Target(PRIORITY_CLASSES), {"metadata": {"name": name}, "value": value})

    # -- pods -----------------------------------------------------------------------------------------------------

    def create_pods(self) -> None:
        """A single pod or a gang, of random size and priority."""
        self._names += 1
        gang = self.rng.random() < 0.3
        count = self.rng.randint(2, 4) if gang else 1
        gpus = str(self.rng.choice((1, 1, 2, 4)))
        priority = self.rng.choice(("", "low", "high", "high"))
        for index in range(count):
            requests = {"cpu": "100m", "memory": "64Mi", GPU: gpus}
            container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": {GPU: gpus}}}
            annotations = {"waggle.dev/gang": f"g{self._names}", "waggle.dev/gang-min": str(count)} if gang else {}
            spec = {"containers": [container]} | ({"priorityClassName": priority} if priority else {})
            metadata = {"name": f"p{self._names:05}-{index}", "namespace": "default", "annotations": annotations}
            self.api.create(Target(PODS, "default"), {"metadata": metadata, "spec": spec})

    def end_pod(self) -> None:
        pods = list(self.api.store.collection(PODS))
        if not pods:
            return
        stored = self.rng.choice(pods)
        if stored.fields["status.phase"] == "Running" and self.rng.random() < 0.5:
            self.patch(stored.key[1], {"status": {"phase": "Succeeded"}}, "status")
        else:
            self.delete(stored.key[1])

    def sweep(self) -> None:
        """Finished pods are collected."""
        for stored in list(self.api.store.collection(PODS)):
            if stored.fields["status.phase"] == "Succeeded":
                self.api.store.remove(PODS, stored)

    def kubelets(self) -> None:
        """Bound pods run, pods that are being deleted are gone."""
        for stored in list(self.api.store.collection(PODS)):
            if b'"deletionTimestamp"' in stored.raw:
                if self.lets_go(stored):
                    self.api.store.remove(PODS, stored)
            elif stored.fields["spec.nodeName"] and stored.fields["status.phase"] == "Pending":
                self.patch(stored.key[1], {"status": {"phase": "Running"}}, "status")

    def lets_go(self, stored: Stored) -> bool:
        """Whether a pod that is being deleted is gone by now."""
        return True

    def patch(self, name: str, patch: dict[str, Any], subresource: str = "") -> None:
        try:
            self.api.patch(Target(PODS, "default", name, subresource), patch, MERGE)
        except ApiError as error:
            assert error.code in (404, 409), error

    def delete(self, name: str, uid: str = "") -> None:
        options = DeleteOptions(preconditions={"uid": uid} if uid else None)
        try:
            self.api.delete(Target(PODS, "default", name), options)
        except ApiError as error:
            assert error.code in (404, 409), error

    # -- nodes ----------------------------------------------------------------------------------------------------

    def add_node(self) -> None:
        self._names += 1
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(GPUS)}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.create(Target(NODES), {"metadata": {"name": f"n{self._names:03}"}, "status": status})

    def touch_node(self) -> None:
        stored = self.rng.choice(list(self.api.store.collection(NODES)))
        self._names += 1
        self.api.patch(Target(NODES, "", stored.key[1]), {"metadata": {"labels": {"touched": str(self._names)}}}, MERGE)

    def remove_node(self, kept: set[str]) -> None:
        """An empty one that is `kept` for nobody: a gang whose seat vanishes is split, and rightly so."""
        used = kept | {stored.fields["spec.nodeName"] for stored in self.api.store.collection(PODS)}
        spare = [stored for stored in self.api.store.collection(NODES) if stored.key[1] not in used]
        if len(spare) > 2:
            self.api.delete(Target(NODES, "", self.rng.choice(spare).key[1]))

    def lose_lease(self) -> None:
        """Somebody deletes the Lease by hand."""
        leases = self.api.table.named("leases")
        for stored in list(self.api.store.collection(leases)):
            self.api.delete(Target(leases, *stored.key))
