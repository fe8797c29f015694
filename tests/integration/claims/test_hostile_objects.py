"""Pool and Claim objects whose authors want more than they may have, on sockets."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_objects import (
    CLAIMS,
    POOLS,
    add_claim,
    add_pool,
    condition,
    is_deleted,
    is_in,
    object_world,
    pool_status,
    status,
)
from tests.support.cluster.claim_world import claim_world


def test_a_status_that_names_another_claim_ends_and_shows_nothing_of_it() -> None:
    """The author of a Claim may write its status, which most may not."""
    with object_world(pods=2) as w:
        theirs = w.claim(annotations={"whose": "theirs"}).json()
        add_claim(w, "forged", pool="missing")
        eventually(lambda: is_in(w, "Waiting", "forged"))
        forged = {"status": {"phase": "Claimed", "claim": theirs["id"], "pods": [], "observedGeneration": 1}}
        patched = w.api.patch(f"{CLAIMS}/forged/status", forged)
        assert patched.status_code == 200, patched.text
        eventually(lambda: is_in(w, "Released", "forged"))
        assert status(w, "forged")["pods"] == []
        w.api.delete(f"{CLAIMS}/forged")
        eventually(lambda: is_deleted(w, "forged"))
        assert w.claimed() == {theirs["id"]: [theirs["pods"][0]["name"]]}


@pytest.mark.slow
def test_a_pool_that_changes_all_the_time_stops_no_claims_of_another() -> None:
    with object_world(pods=3) as w:
        add_pool(w, "restless")
        eventually(lambda: condition(pool_status(w, "restless"), "Ready")[0] == "True")
        answers = []
        for number in range(60):
            changed = w.api.patch(f"{POOLS}/restless", {"spec": {"startSeconds": 100 + number}})
            assert changed.status_code == 200, changed.text
            claim = w.claim(wait_seconds=20)
            answers.append(claim.status_code)
            w.server.http.delete(f"/v1/claims/{claim.json().get('id', 'none')}")
        assert set(answers) == {201}, answers


def test_a_pool_that_selects_the_pods_of_another_gets_none() -> None:
    with object_world(pods=2) as w:
        time.sleep(1.1)  # ages are whole seconds, and names decide between equal ones
        template = w.pods()[0]["metadata"]["labels"]["pod-template-hash"]
        add_pool(w, "greedy", selector={"matchLabels": {"pod-template-hash": template}})
        eventually(lambda: condition(pool_status(w, "greedy"), "Misconfigured")[1] == "SelectorsOverlap")
        assert w.claim("greedy", wait_seconds=0).status_code == 404
        assert w.claim().status_code == 201


@pytest.mark.slow
def test_many_pools_and_claims_at_once_are_served_or_told_why() -> None:
    with object_world(pods=3) as w:
        began = time.monotonic()
        for number in range(150):
            add_pool(w, f"p{number}")
            add_claim(w, f"c{number}", pool=f"p{number}", waitSeconds=600, labels={"a": "b"})
        assert w.claim(wait_seconds=20).status_code == 201
        eventually(lambda: condition(pool_status(w, "p149"), "Ready")[0] == "True", seconds=60)
        assert time.monotonic() - began < 60
        for number in range(150):
            w.api.delete(f"{POOLS}/p{number}")
            w.api.delete(f"{CLAIMS}/c{number}")
        eventually(lambda: all(is_deleted(w, f"c{number}") for number in range(150)), seconds=60)


def test_a_namespace_that_may_not_be_read_keeps_nobody_from_comparing() -> None:
    """Whoever may create a Pool in such a namespace must not stop the lists that find what a watch has lost."""
    hidden = {"name": "x", "namespace": "hidden", "selector": {"a": "b"}}
    pools = [{"name": "warm", "selector": {"pool": "warm"}}, hidden]
    with claim_world(pods=1, serve=False, sections={"cluster": {"compare_seconds": 1}}) as w:
        refused = w.cluster.faults.inject("status", status=403, path="/namespaces/hidden/pods", times=None)
        watched: dict[str, Any] = {"method": "LIST", "path": "/namespaces/default/pods", "agent": "waggle"}
        lists = w.cluster.faults.inject("delay", times=None, **watched)
        w.serve(pools=pools)
        eventually(lambda: w.cluster.faults.fired(lists) >= 3)
        assert w.cluster.faults.fired(refused)
        assert w.claim().status_code == 201
