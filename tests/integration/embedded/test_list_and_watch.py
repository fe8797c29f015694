"""List and watch over real sockets while others write: whoever begins anywhere ends up with the same state."""

from __future__ import annotations

import random
import threading
from typing import Any

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import Api

State = dict[str, dict[str, Any]]
WRITES = 400


def write(url: str, done: threading.Event) -> None:
    """Random creations, changes and deletions of ten config maps, by a seed."""
    chance, api = random.Random(5), Api(url)
    for number in range(WRITES):
        name = f"c{chance.randrange(10)}"
        action = chance.choice(["create", "change", "change", "delete"])
        if action == "create":
            api.post("configmaps", {"metadata": {"name": name}, "data": {"n": str(number)}})
        elif action == "change":
            api.patch(f"configmaps/{name}", {"data": {"n": str(number)}})
        else:
            api.delete(f"configmaps/{name}")
    api.post("configmaps", {"metadata": {"name": "last"}})
    api.close()
    done.set()


def paged_list(api: Api) -> tuple[str, State]:
    state: State = {}
    query: dict[str, str] = {"limit": "3"}
    while True:
        page = api.get("configmaps", **query).json()
        state |= {item["metadata"]["name"]: item for item in page["items"]}
        token = page["metadata"].get("continue")
        if not token:
            return page["metadata"]["resourceVersion"], state
        query = {"limit": "3", "continue": token}


def follow(url: str, until: str = "last") -> State:
    """What a reflector does: list, then watch from the list's version, until the object `until` appears."""
    api = Api(url)
    version, state = paged_list(api)
    if until not in state:
        with api.watch("configmaps", resourceVersion=version) as events:
            for event in events:
                obj = {key: value for key, value in event["object"].items() if key not in ("kind", "apiVersion")}
                name = obj["metadata"]["name"]
                assert (event["type"] == "ADDED") == (name not in state)
                if event["type"] == "DELETED":
                    del state[name]
                else:
                    state[name] = obj
                if name == until:
                    break
    api.close()
    return state


def followers(cluster: EmbeddedCluster, done: threading.Event) -> list[State]:
    states: list[State] = []
    while not done.is_set() and len(states) < 8:
        threads = [threading.Thread(target=lambda: states.append(follow(cluster.url))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    return states


def test_every_follower_ends_with_the_state_of_the_list() -> None:
    with serve_in_thread(kubelet=False) as cluster:
        done = threading.Event()
        writer = threading.Thread(target=write, args=(cluster.url, done))
        writer.start()
        states = followers(cluster, done)
        writer.join(60)
        expected = {obj["metadata"]["name"]: obj for obj in cluster.objects("configmaps")}
    for obj in expected.values():
        del obj["kind"], obj["apiVersion"]
    assert states
    assert all(state == expected for state in states)
