"""From capacity freed to gang bound: a full cluster, a gang that waits, and one of the same size that ends.

full, gang k runs --> gang k+1 waits, in peace --> gang k is deleted --- measured ---> gang k+1 is bound --> ...
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from extender.kube.client.api import ApiServer
from tests.bench.e2e.throughput import pod, remove_pods
from tests.bench.e2e.variants import Stage
from tests.bench.e2e.watching import PATIENCE, Bound
from tests.e2e.cluster import describe

#: Members of a gang, each of which takes a whole node.
MEMBERS = 8
_GPUS = 8
#: Seconds until kube-scheduler's back-off (2 s after the second try) is over, and with it what it says of no extender.
_PEACE = 3.0


def measure(stage: Stage, api: ApiServer, nodes: int, times: int) -> list[float]:
    """Seconds from the request that deletes a gang until the last member of the next one is seen bound."""
    client = stage.world.http
    try:
        with stage.prepared(), Bound(api, stage.pods) as bound:
            for i in range(MEMBERS, nodes):
                describe(client.post(stage.pods, json=pod(f"full{i}", gpus=_GPUS, node=f"n{i}")))
            stage.start_scheduler(wait=True)
            _create(stage, 0)
            bound.wait_for(lambda seen: _when(seen, 0), "the first gang")
            return [_next(stage, bound, number) for number in range(1, times + 1)]
    finally:
        remove_pods(stage)


def _next(stage: Stage, bound: Bound, number: int) -> float:
    _create(stage, number)
    _wait_refused(stage, number)
    time.sleep(_PEACE)
    freed = time.monotonic()
    query = {"labelSelector": f"gang=g{number - 1}", "gracePeriodSeconds": "0"}
    describe(stage.world.http.delete(stage.pods, params=query))
    return bound.wait_for(lambda seen: _when(seen, number), f"gang {number}") - freed


def _create(stage: Stage, number: int) -> None:
    notes = {"waggle.dev/gang": f"g{number}", "waggle.dev/gang-min": str(MEMBERS)}
    for i in range(MEMBERS):
        member = pod(f"g{number}-{i}", gpus=_GPUS, annotations=notes)
        member["metadata"]["labels"]["gang"] = f"g{number}"
        describe(stage.world.http.post(stage.pods, json=member))


def _wait_refused(stage: Stage, number: int) -> None:
    """Until kube-scheduler has said of every member that there is no place for it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        members = describe(stage.world.http.get(stage.pods, params={"labelSelector": f"gang=g{number}"}))["items"]
        if all(member["status"].get("conditions") for member in members):
            return
        time.sleep(0.1)
    raise RuntimeError(f"nobody says that gang {number} has to wait")


def _when(seen: Mapping[str, float], number: int) -> float:
    """When the last member was bound; 0 if not all are."""
    moments = [seen.get(f"g{number}-{i}", 0.0) for i in range(MEMBERS)]
    return max(moments) if all(moments) else 0.0
