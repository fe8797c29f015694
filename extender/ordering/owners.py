"""Which kind of target an ownerReference names."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from extender.ordering.records import (
    DEPLOYMENT,
    JOB,
    JOB_SET,
    REPLICA_SET,
    STATEFUL_SET,
    VOLCANO_JOB,
    Target,
)

#: By API group and kind.
KIND_BY_API = {
    ("batch", "Job"): JOB,
    ("apps", "Deployment"): DEPLOYMENT,
    ("apps", "ReplicaSet"): REPLICA_SET,
    ("apps", "StatefulSet"): STATEFUL_SET,
    ("jobset.x-k8s.io", "JobSet"): JOB_SET,
    ("batch.volcano.sh", "Job"): VOLCANO_JOB,
}


class Owner(msgspec.Struct, rename="camel", gc=False):
    """An ownerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


def controller_of(owners: Iterable[Owner] | None, namespace: str) -> tuple[Target | None, str]:
    """Return the controller with its UID; None and "" if there is none of a known kind."""
    for owner in owners or ():
        if owner.controller:
            kind = KIND_BY_API.get((owner.api_version.partition("/")[0], owner.kind))
            return (Target(kind, namespace, owner.name), owner.uid) if kind else (None, "")
    return None, ""
