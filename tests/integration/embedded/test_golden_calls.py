"""The kube-scheduler stand-in asks its extenders what a real kube-scheduler asked them (tests/golden/calls), and leaves
the cluster as that left it, but for the deviations that are listed.

With WAGGLE_KUBE_SCHEDULER naming a kube-scheduler binary, that is held against the same recording, on the embedded API
server: so the two stand-ins together are held against the two real ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.golden.calls.deviations import DEVIATIONS
from tests.golden.calls.schedulers import real, stand_in
from tests.golden.calls.sequences import arranged, binds_follow, differences, merge
from tests.golden.calls.stage import Stage
from tests.golden.calls.workloads import WORKLOADS
from tests.golden.record_calls import CALLS, read
from tests.support.http.plain import plain_client

RECORDED: dict[str, Any] = read()["workloads"]
_BINARY = os.environ.get("WAGGLE_KUBE_SCHEDULER", "")
_TRIES = 3
#: In `make test` one in three, and those with a deviation; the slow tests have the others.
SOME = [
    pytest.param(name, marks=[] if number % 3 == 0 or name in DEVIATIONS else pytest.mark.slow)
    for number, name in enumerate(WORKLOADS)
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    # As the recorded server: no kubelets, no controllers.
    with serve_in_thread(kubelet=False, controllers=False) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def http(cluster: EmbeddedCluster) -> Iterator[httpx.Client]:
    with plain_client(base_url=cluster.url, timeout=60) as client:
        yield client


@pytest.mark.parametrize("name", SOME)
def test_the_stand_in_asks_what_a_real_kube_scheduler_asked(cluster: EmbeddedCluster, http: httpx.Client, name: str):
    stage = Stage(http, {"server": cluster.url}, partial(stand_in, cluster.url))
    played = stage.play(WORKLOADS[name])
    assert binds_follow(played), played["phases"]
    found = differences(RECORDED[name], arranged(played))
    allowed, why = DEVIATIONS.get(name, ((), ""))
    assert not [each for each in found if not each.startswith(allowed)]
    assert all(any(each.startswith(path) for each in found) for path in allowed), f"deviates no longer: {why}"


@pytest.mark.skipif(not _BINARY, reason="WAGGLE_KUBE_SCHEDULER does not name a kube-scheduler binary")
@pytest.mark.xdist_group("real-kube-scheduler")
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_real_kube_scheduler_does_the_same_here(cluster: EmbeddedCluster, http: httpx.Client, name: str):
    stage = Stage(http, {"server": cluster.url}, partial(real, Path(_BINARY), cluster.url))
    found: list[str] = []
    # A real one races: its next attempt may come before the watch has brought its own last write of the pod's status.
    for _ in range(_TRIES):
        found = differences(RECORDED[name], arranged(stage.play(WORKLOADS[name])))
        if not found:
            break
    assert not found


def test_everything_recorded_is_a_workload_and_every_deviation_names_one() -> None:
    assert RECORDED.keys() == WORKLOADS.keys(), f"workloads have changed: record again ({CALLS.name})"
    assert DEVIATIONS.keys() <= WORKLOADS.keys()


# -- how runs are compared -----------------------------------------------------------------------------------


def call(pod: str, verb: str = "filter") -> dict[str, Any]:
    return {"verb": verb, "pod": pod}


def run(*calls: dict[str, Any]) -> dict[str, Any]:
    return arranged({"phases": [list(calls)]})


def test_equal_runs_must_be_equalled() -> None:
    real = merge([run(call("a"), call("b"))] * 3)
    assert real == run(call("a"), call("b"))
    assert differences(real, run(call("b"), call("a")))
    assert differences(real, run(call("a")))


def test_binds_may_come_at_any_time_after_their_filter() -> None:
    first = [call("a"), call("a", "bind"), call("b"), call("b", "bind")]
    second = [call("a"), call("b"), call("b", "bind"), call("a", "bind")]
    assert run(*first) == run(*second)
    assert binds_follow({"phases": [second]})
    assert not binds_follow({"phases": [[*second, call("a", "bind")]]})


def test_calls_that_change_places_between_real_runs_are_compared_without_order() -> None:
    real = merge([run(*map(call, "abcd")), run(*map(call, "acbd"))])
    assert real["phases"][0]["loop"] == [call("a"), {"any order": [call("b"), call("c")]}, call("d")]
    assert not differences(real, run(*map(call, "acbd")))
    assert differences(real, run(*map(call, "acbb")))
    assert differences(real, run(*map(call, "bacd")))


def test_calls_that_not_every_real_run_made_are_compared_with_each_run() -> None:
    real = merge([run(*map(call, "a")), run(*map(call, "aa"))])
    assert not differences(real, run(*map(call, "aa")))
    assert differences(real, run(*map(call, "aaa")))


def test_a_state_that_differs_between_real_runs_may_be_any_of_them() -> None:
    real = merge([{"pods": [{"p": {"node": "a"}}]}, {"pods": [{"p": {"node": "b"}}]}])
    assert not differences(real, {"pods": [{"p": {"node": "b"}}]})
    assert differences(real, {"pods": [{"p": {"node": "c"}}]})
