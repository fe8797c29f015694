"""Pods: attacks by an author of pods, and by a client that sends one to the verbs' port."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from extender.demo.workloads import GPU
from tests.attacks.arena import Arena, eventually
from tests.attacks.registry import attack
from tests.attacks.requests import NODE_NAMES, filter_body, pod

_PODS = "/api/v1/namespaces/default/pods"
_HEADERS = {"Content-Type": "application/json"}
_GANG = {"waggle.dev/gang": "attack", "waggle.dev/gang-min": "2"}


def asking(name: str, amounts: Mapping[str, str], **metadata: Any) -> dict[str, Any]:
    """A pod that asks for these amounts."""
    made = pod(name, **metadata)
    made["spec"]["containers"][0]["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
    return made


def resources(number: int) -> dict[str, str]:
    return {f"attack.example/r{index}": "1" for index in range(number)}


@contextmanager
def created(arena: Arena, *pods: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The pods as the API server has them; deleted at the end."""
    made = []
    try:
        for each in pods:
            made.append(arena.api.post(_PODS, json=each).raise_for_status().json())
        yield made
    finally:
        for each in made:
            arena.api.delete(f"{_PODS}/{each['metadata']['name']}", params={"gracePeriodSeconds": "0"})


def ask(arena: Arena, body: bytes) -> tuple[float, dict[str, Any]]:
    """Seconds until /filter was answered, and the answer."""
    began = time.monotonic()
    answer = arena.call("POST", "/filter", body, _HEADERS)
    assert answer.status == 200, answer.body[:500]
    return time.monotonic() - began, json.loads(answer.body)


def reasons(answer: dict[str, Any]) -> set[str]:
    return {*(answer["FailedNodes"] or {}).values(), *(answer["FailedAndUnresolvableNodes"] or {}).values()}


def _greedy_mate(arena: Arena, number: int) -> str:
    innocent = asking("innocent", {"cpu": "1"}, annotations=_GANG)
    greedy = asking("greedy", {"cpu": "1", **resources(number)}, annotations=_GANG)
    with created(arena, innocent, greedy) as (mate, big):
        slowest = 0.0
        for _ in range(10):
            took, answer = ask(arena, filter_body(mate))
            slowest = max(slowest, took)
            assert not answer["NodeNames"], answer
            took, answer = ask(arena, filter_body(big))
            slowest = max(slowest, took)
            assert any("more than 32 different resources" in why for why in reasons(answer)), answer
    assert slowest < 1, f"a filter took {slowest:.2f} s"
    return f"PodTooLarge; its mate's filter took at most {1e3 * slowest:.0f} ms"


@attack("a gang's second pod asks for 300 different resources", limit="32 different resources of a pod", quick=True)
def mate_with_300_resources(arena: Arena) -> str:
    return _greedy_mate(arena, 300)


@attack("a gang's second pod asks for 2,000 different resources", limit="32 different resources of a pod")
def mate_with_2000_resources(arena: Arena) -> str:
    return _greedy_mate(arena, 2000)


@attack("/filter with 200,000 and with 30,000 different resources, three times each", limit="2 MiB of a pod in a verb")
def filter_with_200000_resources(arena: Arena) -> str:
    slowest = []
    for number, said in ((200_000, b"expected at most 2097152"), (30_000, b"more than 32 different resources")):
        body = _huge(number)
        took = []
        for _ in range(3):
            began = time.monotonic()
            answer = arena.call("POST", "/filter", body, _HEADERS)
            took.append(time.monotonic() - began)
            assert said in answer.body, answer.body[:500]
        slowest.append(max(took))
    return "refused, within " + " and ".join(f"{1e3 * took:.0f} ms" for took in slowest)


def _huge(number: int) -> bytes:
    """A body of /filter; not made by way of a dict, which would take the server's CPU for as long."""
    pieces = filter_body(asking("huge", {"@": "1"}, uid=f"uid-huge-{number}")).split(b'"@": "1"')
    return b",".join(b'"attack.example/r%d":"1"' % index for index in range(number)).join(pieces[:2]) + pieces[2]


@attack(
    "a forged gang plan on a small pod that runs, for 50 pods that wait, on all GPUs",
    limit="a plan is believed of pods that this server bound",
    quick=True,
)
def forged_plan(arena: Arena) -> str:
    waiting = [asking(f"never-{i}", {GPU: "8"}, annotations=_GANG) for i in range(50)]
    with created(arena, *waiting) as made:
        seats = {each["metadata"]["uid"]: NODE_NAMES[index] for index, each in enumerate(made)}
        forged = json.dumps({"generation": 1000, "seats": seats})
        carrier = asking("carrier", {"cpu": "1m"}, annotations={**_GANG, "waggle.dev/gang-plan": forged})
        carrier["spec"]["nodeName"] = NODE_NAMES[0]
        with created(arena, carrier):
            assert eventually(lambda: "carrier" in _page(arena, "/v1/inspect/pods?state=Bound"))
            held = json.loads(_page(arena, "/v1/inspect/algorithm"))["state"]["resources"][GPU]["held"]
            assert held == 0, f"{held} GPUs are held by a forged plan"
    return "no seat is held for anybody"


def _page(arena: Arena, path: str) -> str:
    return arena.call("GET", path).body.decode()


@attack(
    "60 pods with 240 KB of annotations, the longest labels and names of resources each",
    limit="of annotations, labels and names of resources as much is kept as is read: 32 KiB of a pod",
)
def huge_annotations(arena: Arena) -> str:
    before = arena.server.usage().mib
    texts = {
        "attack.example/note": "x" * 120_000,
        "waggle.dev/gang": "y" * 60_000,
        "waggle.dev/preemption": "z" * 60_000,
    }
    labels = {f"{index:03}." + "a" * 59: "v" * 63 for index in range(500)}
    amounts = {f"e.g/{index:02}" + "r" * 58: "1" for index in range(32)}
    fat = json.dumps(asking("fat-@", amounts, annotations=texts, labels=labels)).encode()
    for index in range(60):
        arena.api.post(_PODS, content=fat.replace(b"fat-@", b"fat-%d" % index), headers=_HEADERS).raise_for_status()
    try:
        shown = eventually(lambda: arena.call("GET", "/v1/explain/default/fat-59").status == 200, every=0.3)
        assert shown, "the pods were never shown"
        grown = arena.server.usage().mib - before
    finally:
        for index in range(60):
            arena.api.delete(f"{_PODS}/fat-{index}", params={"gracePeriodSeconds": "0"})
    assert grown < 10, f"14 MiB of annotations took {grown:.0f} MiB"
    return f"{grown:.0f} MiB more for 14 MiB of them"


@attack("a pod with 350,000 commas takes all GPUs of a node", limit="counted in what is read of the pod", quick=True)
def pod_of_commas(arena: Arena) -> str:
    node = NODE_NAMES[-1]
    hidden = asking("hidden", {GPU: "8"}, annotations={"attack.example/note": "," * 250_000})
    hidden["spec"] |= {"nodeName": node}
    hidden["spec"]["containers"][0]["args"] = ["," * 100_000]
    with created(arena, hidden, asking("honest", {GPU: "8"})) as (_, honest):
        assert eventually(lambda: "hidden" in _page(arena, "/v1/inspect/pods?state=Bound")), "the pod is not seen"
        _, answer = ask(arena, filter_body(honest, (node,)))
        assert not answer["NodeNames"], "its GPUs were given away a second time"
    return "it is read, and its GPUs are taken"


@attack(
    "a pod of 900 containers with 20 different quantities each, ten times",
    limit="1,024 requests and limits of a pod",
)
def pod_of_900_containers(arena: Arena) -> str:
    crowd = asking("crowd", {"cpu": "1m"}, uid="uid-crowd")
    main = crowd["spec"]["containers"][0]
    crowd["spec"]["containers"] = [
        {**main, "resources": {"requests": {f"a.b/r{j}": str(10**9 + 20 * i + j) for j in range(20)}}}
        for i in range(900)
    ]
    body = filter_body(crowd)
    slowest = 0.0
    for _ in range(10):
        took, answer = ask(arena, body)
        slowest = max(slowest, took)
        assert any("more than 1024 requests and limits" in why for why in reasons(answer)), answer
    return f"PodTooLarge, within {1e3 * slowest:.0f} ms"


@attack("a gang of 200 pods that all differ, asked for 1.5 s", limit="16 different requests of a gang's waiting pods")
def gang_of_200_sizes(arena: Arena) -> str:
    gang = {"waggle.dev/gang": "motley", "waggle.dev/gang-min": "200"}
    with created(arena, *(asking(f"motley-{i}", {"cpu": f"{100 + i}m"}, annotations=gang) for i in range(200))) as made:
        assert eventually(lambda: "motley-199" in _page(arena, "/v1/inspect/pods?state=Waiting"))
        slowest, give_up, answer = 0.0, time.monotonic() + 1.5, {}
        while time.monotonic() < give_up:
            took, answer = ask(arena, filter_body(made[int(1e6 * slowest) % 200]))
            slowest = max(slowest, took)
        assert any("more than 16 different requests" in why for why in reasons(answer)), answer
    return f"GangInvalid, within {1e3 * slowest:.0f} ms"


@attack("a gang of 1,000 pods is planned for four times", limit="1,000 pods of a gang; equal ones are seated together")
def gang_of_1000_pods(arena: Arena) -> str:
    gang = {"waggle.dev/gang": "horde", "waggle.dev/gang-min": "900"}
    body = json.dumps(asking("horde-@", {"cpu": "1m"}, annotations=gang, labels={"attack": "horde"})).encode()
    made, slowest = [], 0.0
    try:
        for index in range(1000):
            answer = arena.api.post(_PODS, content=body.replace(b"horde-@", b"horde-%d" % index), headers=_HEADERS)
            made.append(answer.raise_for_status().json())
        assert eventually(lambda: arena.call("GET", "/v1/explain/default/horde-999").status == 200, every=0.2)
        for each in made[:4]:
            took, answered = ask(arena, filter_body(each))
            slowest = max(slowest, took)
            assert answered["NodeNames"], answered
            arena.api.delete(f"{_PODS}/{each['metadata']['name']}", params={"gracePeriodSeconds": "0"})
            path = f"/v1/explain/default/{each['metadata']['name']}"
            assert eventually(lambda path=path: arena.call("GET", path).status == 404), "it is still there"
    finally:
        arena.api.delete(_PODS, params={"gracePeriodSeconds": "0", "labelSelector": "attack=horde"})
    assert slowest < 0.5, f"a filter took {slowest:.2f} s"
    return f"a plan for all of them in {1e3 * slowest:.0f} ms at most"
