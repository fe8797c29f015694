"""The same key at two servers on sockets: one claim, whichever was asked first, and whoever goes away."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import pytest

from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, Server, claim_world

PATH = "/v1/pools/default/warm/claims"


@contextmanager
def two_servers(pods: int, mode: str) -> Iterator[ClaimWorld]:
    with claim_world(pods=pods, mode=mode, share_pools=True) as w:
        w.serve(share_pools=True)
        for server in w.servers:
            assert server.claims.members is not None
            server.claims.members.look()
        for server in w.servers:
            eventually(lambda server=server: len(server.claims.members.members) == 2)
        yield w


def ask(server: Server, key: str, **body: object) -> httpx.Response:
    return server.http.post(PATH, json={"key": key, "wait_seconds": 10, **body})


@pytest.mark.parametrize("mode", [pytest.param("detach", marks=pytest.mark.slow), "recycle"])
def test_a_key_that_is_sent_to_both_at_once_gets_one_claim(mode: str) -> None:
    keys = [f"k{number}" for number in range(40)]
    with two_servers(60, mode) as w, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, server, key) for key in keys for server in w.servers]
        answers = [each.result() for each in asked]
        assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
        claims = [answer.json() for answer in answers]
        for one, two in zip(claims[::2], claims[1::2], strict=True):
            assert (one["id"], one["pods"]) == (two["id"], two["pods"])
        granted = {claim["id"]: [pod["name"] for pod in claim["pods"]] for claim in claims}
        assert len(granted) == len(keys)
        eventually(lambda: w.claimed() == granted)


def test_a_repeat_at_the_other_one_after_a_time_out_gets_what_the_first_call_left_or_a_pod_of_its_own() -> None:
    with two_servers(30, "recycle") as w:
        one, two = w.servers
        for number in range(12):
            with suppress(httpx.TimeoutException):
                one.http.post(PATH, json={"key": f"k{number}", "wait_seconds": 10}, timeout=0.001 * (number + 1))
            answer = ask(two, f"k{number}")
            assert answer.status_code == 201, answer.text
            claim = answer.json()
            assert two.http.post(f"/v1/claims/{claim['id']}/renew", json={"lease_seconds": 60}).status_code == 200
        eventually(lambda: len(w.claimed()) == 12)


def test_another_body_is_refused_by_the_other_one() -> None:
    with two_servers(4, "detach") as w:
        one, two = w.servers
        assert ask(one, "k").status_code == 201
        answer = ask(two, "k", priority=1)
        assert (answer.status_code, answer.json()["code"]) == (409, "KeyReused")
        eventually(lambda: len(w.claimed()) == 1)


def test_a_request_that_was_told_of_another_name_finds_its_claim() -> None:
    with two_servers(4, "detach") as w:
        one, two = w.servers
        first = ask(one, "k").json()
        eventually(lambda: first["id"] in two.claims.runtime.look(lambda engine, _: set(engine.state.claims)))
        later = two.http.post(PATH, json={"key": "k"}, headers={"Prefer": "respond-async"})
        path = later.headers["location"]
        eventually(lambda: two.http.get(path, params={"wait": 5}).json()["id"] == first["id"])
        assert two.http.delete(path).json()["state"] == "released"
        eventually(lambda: w.claimed() == {})


def test_a_claim_is_ended_by_its_key_at_either_server() -> None:
    with two_servers(4, "recycle") as w:
        one, two = w.servers
        first = ask(one, "k").json()
        assert ask(two, "k").json()["id"] == first["id"]
        assert two.http.delete(PATH, params={"key": "k"}).status_code == 200
        eventually(lambda: w.claimed() == {})
        # The replica that granted it answers from memory until its watch has shown the end (docs/limits.md).
        eventually(lambda: first["id"] not in one.claims.runtime.look(lambda engine, _: set(engine.state.claims)))
        again = ask(one, "k")
        assert (again.status_code, again.json()["id"] != first["id"]) == (201, True)
