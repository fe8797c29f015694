"""Pool and Claim objects in a world of claims: made, read, and what their status says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.cluster.claim_world import ClaimWorld, claim_world
from tests.support.cluster.definitions import definition

HEAD = {"apiVersion": "waggle.dev/v1alpha1"}
CLAIMS = "/apis/waggle.dev/v1alpha1/namespaces/default/claims"
POOLS = "/apis/waggle.dev/v1alpha1/namespaces/default/pools"
Object = dict[str, Any]


def define(w: ClaimWorld) -> None:
    """What `kubectl apply -k manifests/crds` does."""
    for name in ("pools", "claims"):
        w.cluster.create(definition(name))


def add_pool(w: ClaimWorld, name: str = "warm", **spec: Any) -> None:
    given = {"selector": {"matchLabels": {"pool": name}}, "mode": w.mode, **spec}
    made = w.api.post(POOLS, {"metadata": {"name": name}, "spec": given, **HEAD, "kind": "Pool"})
    assert made.status_code == 201, made.text


def add_claim(w: ClaimWorld, name: str = "mine", pool: str = "warm", **spec: Any) -> None:
    body = {**HEAD, "kind": "Claim", "metadata": {"name": name}, "spec": {"poolRef": {"name": pool}, **spec}}
    made = w.api.post(CLAIMS, body)
    assert made.status_code == 201, made.text


def claim(w: ClaimWorld, name: str = "mine") -> Object:
    found: Object = w.api.get(f"{CLAIMS}/{name}").json()
    return found


def status(w: ClaimWorld, name: str = "mine") -> Object:
    found: Object = claim(w, name).get("status", {})
    return found


def is_in(w: ClaimWorld, phase: str, name: str = "mine") -> bool:
    return bool(status(w, name).get("phase") == phase)


def pool_status(w: ClaimWorld, name: str = "warm") -> Object:
    found: Object = w.api.get(f"{POOLS}/{name}").json().get("status", {})
    return found


def condition(of: Mapping[str, Any], type_: str) -> tuple[str, str, str]:
    found = next((each for each in of.get("conditions", ()) if each["type"] == type_), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def is_deleted(w: ClaimWorld, name: str = "mine") -> bool:
    return bool(w.api.get(f"{CLAIMS}/{name}").status_code == 404)


@contextmanager
def object_world(*, pods: int = 3, mode: str = "detach", servers: int = 1, **claims: Any) -> Iterator[ClaimWorld]:
    """Pool `warm` is an object, and nothing stands in the configuration."""

    def prepare(w: ClaimWorld) -> None:
        define(w)
        add_pool(w)

    more = {"pools": [], "custom_resources": True, **claims}
    with claim_world(pods=pods, mode=mode, prepare=prepare, **more) as w:
        for _ in range(servers - 1):
            w.serve(**more)
        yield w
