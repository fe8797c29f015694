"""What servers say over HTTP, once nothing happens any more: the same as the API server, and that nothing is due."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from tests.conformance.vpods_adversary.history import Object
from tests.conformance.vpods_adversary.judge import Judge, placements
from tests.conformance.vpods_adversary.world import SetDraw


def check(url: str, judge: Judge) -> Iterator[str]:
    """What the server at this address says otherwise. Any server answers, also one that does not lead."""
    with httpx.Client(base_url=url, timeout=30) as http:
        for hosting in judge.sets.values():
            path = f"/v1/vpods/default/{hosting.name}"
            answer = http.get(path, params={"limit": 100})
            if answer.status_code != 200:
                yield f"{url}{path}: {answer.status_code} {answer.text}"
                continue
            for text in _check_set(answer.json(), judge, hosting):
                yield f"{url}{path}: {text}"
            plan = http.post(f"{path}/plan", json={})
            if plan.status_code != 200:
                yield f"{url}{path}/plan: {plan.status_code} {plan.text}"
            elif plan.json()["moves"]:
                yield f"{url}{path}: moves are planned at rest: {plan.text}"


def _check_set(page: Object, judge: Judge, hosting: SetDraw) -> Iterator[str]:
    mine = judge.members(hosting)
    held = judge.held(hosting)
    wanted = sum(vpod["spec"].get("vreplicas", 1) for vpod in mine.values())
    placed = sum(held.values())
    real = {
        "replicas": judge.replicas[hosting.name],
        "usable": judge.replicas[hosting.name],
        "expected": wanted,
        "placed": placed,
        "pending": wanted - placed,
        "free": judge.replicas[hosting.name] * hosting.capacity - placed,
    }
    shown = {name: page["sums"][name] for name in real}
    if shown != real:
        yield f"it shows {shown}, and at the API server are {real}"
    # Those that may not use the set are shown, and count for nothing.
    vpods = {f"{each['namespace']}/{each['name']}": each for each in page["vpods"] if each["reason"] != "NotAllowed"}
    if vpods.keys() != mine.keys():
        yield f"it shows the vpods {sorted(vpods)}, and at the API server are {sorted(mine)}"
        return
    for name, vpod in mine.items():
        if vpods[name]["placements"] != dict(placements(vpod)) or vpods[name]["moves"]:
            yield f"it shows {vpods[name]}, and at the API server is {vpod['status']}"
        if vpods[name]["reason"] != vpod["status"]["reason"]:
            yield f"its reason is {vpods[name]['reason']}, and at the API server it is {vpod['status']['reason']}"
