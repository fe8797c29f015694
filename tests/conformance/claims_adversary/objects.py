"""Claims that are objects of the API server: made, renewed and deleted as kubectl does, and what must hold at rest."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.conformance.claims_adversary.callers import Object
from tests.conformance.claims_adversary.ledger import ASK
from tests.conformance.claims_adversary.world import OBJECTS, POOLS, World

CLAIMS = f"{OBJECTS}/claims"
_FINAL = ("Ended", "Released", "Failed")


def create(world: World, rng: Random) -> str:
    """Returns its name."""
    name = f"object-{rng.randrange(1 << 40)}"
    spec: Object = {
        "poolRef": {"name": rng.choice(POOLS)},
        "waitSeconds": rng.choice((0, 1, 2)),
        "count": rng.choice((1, 1, 2)),
        "leaseSeconds": rng.choice((1, 3, 600)),
        "tenant": rng.choice(("", "t1", "t2")),
        "labels": {ASK: name},
        "annotations": {ASK: name},
    }
    body = {"apiVersion": "waggle.dev/v1alpha1", "kind": "Claim", "metadata": {"name": name}, "spec": spec}
    made = world.api.post(CLAIMS, body)
    assert made.status_code == 201, made.text
    return name


def everything(world: World) -> dict[str, Object]:
    """All Claim objects by name."""
    items: list[Object] = world.api.get(CLAIMS).json()["items"]
    return {item["metadata"]["name"]: item for item in items}


def some(world: World, rng: Random) -> str | None:
    names = sorted(everything(world))
    return rng.choice(names) if names else None


def delete(world: World, name: str) -> None:
    world.api.delete(f"{CLAIMS}/{name}")


def renew(world: World, name: str, rng: Random) -> None:
    if rng.random() < 0.5:
        patch: Object = {"metadata": {"annotations": {"waggle.dev/renew": str(rng.random())}}}
    else:
        patch = {"spec": {"leaseSeconds": rng.choice((1, 5, 900))}}
    world.api.patch(f"{CLAIMS}/{name}", patch)


def check(world: World) -> Iterator[str]:
    """What Claim objects say otherwise than the pods."""
    objects, live = everything(world), world.ledger.live()
    for name, found in objects.items():
        status = found.get("status", {})
        phase, claim = status.get("phase", ""), status.get("claim", "")
        mine = {spell.uid for each, spells in live.items() for spell in spells if spell.ask == name and each == claim}
        if "deletionTimestamp" in found["metadata"]:
            yield f"{name} is still being deleted: {found}"
        elif phase not in ("Claimed", *_FINAL):
            yield f"{name} is {phase or 'nothing'}: {found}"
        elif phase == "Claimed" and not mine:
            yield f"{name} has no pod: {found}"
        elif phase == "Claimed" and not mine <= {pod["uid"] for pod in status["pods"]}:
            yield f"{name} has {mine}: {found}"
    for claim, spells in live.items():
        if not spells[0].ask.startswith("object-"):
            continue
        status = objects.get(spells[0].ask, {}).get("status", {})
        if status.get("claim") != claim or status.get("phase") != "Claimed":
            yield f"claim {claim} has pods, and its object says {status}: {spells}"
