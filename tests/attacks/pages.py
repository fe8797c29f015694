"""Pages for people: attacks by an author of pods on what they show, and by one who looks at them all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.attacks.arena import Arena
from tests.attacks.pods import asking, created
from tests.attacks.registry import attack

_PODS = "/api/v1/namespaces/default/pods"


@contextmanager
def looking(arena: Arena, paths: Sequence[str], threads: int) -> Iterator[dict[str, list[float]]]:
    """Threads that ask for these pages again and again; the seconds of each answer."""
    took: dict[str, list[float]] = {path: [] for path in paths}
    stop = threading.Event()

    def look(number: int) -> None:
        while not stop.is_set():
            path = paths[number % len(paths)]
            number += threads
            began = time.monotonic()
            answer = arena.call("GET", path)
            took[path].append(time.monotonic() - began)
            assert answer.status in (200, 404, 503), answer

    started = [threading.Thread(target=look, args=(number,)) for number in range(threads)]
    for each in started:
        each.start()
    try:
        yield took
    finally:
        stop.set()
        for each in started:
            each.join()


def _condition(arena: Arena, name: str, message: str) -> None:
    path = f"{_PODS}/{name}"
    found = arena.api.get(path).json()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    found["status"] = {**found.get("status", {}), "conditions": [condition]}
    arena.api.put(f"{path}/status", json=found).raise_for_status()


@attack(
    "conditions of 300 waiting pods with 1,000 digits in a row, and their pages",
    limit="1,024 characters; each is read once",
)
def digits(arena: Arena) -> str:
    waiting = [asking(f"digits-{i}", {"cpu": f"{100 + i}"}) for i in range(300)]
    with created(arena, *waiting):
        for i in range(300):
            _condition(arena, f"digits-{i}", "0/50 nodes are available: " + "1" * 980 + str(i))
        time.sleep(1)
        with looking(arena, ["/v1/inspect/pods"], 2) as took:
            time.sleep(4)
    slowest = max(took["/v1/inspect/pods"])
    assert slowest < 1.5, f"the page took {slowest:.2f} s"
    return f"each is read once: the page takes {1e3 * slowest:.0f} ms at most"


@attack(
    "64 connections ask why 100 pods wait, and about 100 that do not exist; 3 look at tables",
    limit="a thread pool of pages; copies take a tenth of a core",
)
def explain_storm(arena: Arena) -> str:
    waiting = [asking(f"storm-{i}", {"cpu": f"{1000 + i}"}) for i in range(100)]
    with created(arena, *waiting):
        time.sleep(0.5)
        paths = [f"/v1/explain/default/storm-{i}" for i in range(100)] + [
            f"/v1/explain/default/strom-{i}" for i in range(100)
        ]
        with (
            looking(arena, paths, 64) as took,
            looking(
                arena, ["/v1/inspect/table/pods", "/v1/inspect/table/groups?order=age", "/v1/inspect/map"], 3
            ) as others,
        ):
            time.sleep(5)
    flat = [s for t in took.values() for s in t]
    flat2 = [s for t in others.values() for s in t]
    assert max(flat + flat2) < 5, f"a page took {max(flat + flat2):.1f} s"
    return f"{len(flat)} explanations, within {max(flat):.1f} s; tables within {max(flat2):.1f} s"
