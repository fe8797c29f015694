"""Which Pool objects are served, and when their status is worth a write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.claims.records import Pool, PoolKey
from extender.server.claims.objects.pools import MOST_POOLS, SETTLED, is_news, is_worth_writing, judge, pool_status
from extender.server.claims.objects.records import PoolObject, decode_pool

NOW = "2026-11-23T04:00:00Z"


def pool_object(name: str = "p", created: int = 0, namespace: str = "default", **spec: Any) -> PoolObject:
    given = {"selector": {"matchLabels": {"pool": name}}, **spec}
    times = {"creationTimestamp": f"2026-11-23T00:00:{created:02}Z"}
    metadata = {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": "1", "generation": 1}
    return decode_pool(json.dumps({"metadata": {**metadata, **times}, "spec": given}).encode())


def reasons(configured: list[Pool], *objects: PoolObject) -> dict[str, str]:
    return {uid.removeprefix("u-"): verdict.reason for uid, verdict in judge(configured, objects).items()}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        *((-1, 0, True), (0, 0, False), (0, 1, True), (5, 0, True), (10, 10, False)),
        *((100, 119, False), (100, 120, True), (100, 81, False), (1, 2, True)),
    ],
)
def test_c39_a_number_is_written_when_it_has_changed_by_a_fifth(before: int, after: int, expected: bool) -> None:
    assert is_worth_writing(before, after) is expected


def test_the_configuration_wins_then_the_older_object() -> None:
    configured = [Pool(key=PoolKey("default", "a"), selector={"pool": "a"})]
    found = reasons(
        configured,
        pool_object("a"),
        pool_object("b", created=2),
        pool_object("c", created=1, selector={"matchLabels": {"pool": "b", "tier": "x"}}),
        pool_object("d", selector={"matchLabels": {"pool": "a", "tier": "y"}}),
        pool_object("e", created=3),
    )
    assert found == {"a": "InConfiguration", "c": "", "b": "SelectorsOverlap", "d": "SelectorsOverlap", "e": ""}


def test_pools_of_other_namespaces_do_not_matter() -> None:
    assert reasons([Pool(key=PoolKey("other", "p"), selector={"pool": "p"})], pool_object("p")) == {"p": ""}


def test_a_pool_that_cannot_be_read_names_the_field_and_is_not_served() -> None:
    wrong = pool_object("p", selector={"matchLabels": {"waggle.dev/phase": "idle"}}, order="best")
    verdict = judge([], [wrong])["u-p"]
    assert (verdict.pool, verdict.reason) == (None, "Unreadable")
    assert "spec.selector.matchLabels: waggle.dev/phase: expected a label of your own" in verdict.message
    assert "; spec.order: " in verdict.message


def test_there_is_a_most_of_pools() -> None:
    configured = [Pool(key=PoolKey("other", f"p{number}"), selector={"a": "b"}) for number in range(MOST_POOLS)]
    assert reasons(configured, pool_object("p")) == {"p": "TooManyPools"}


def test_a_status_is_written_for_a_new_generation_and_once_the_numbers_have_settled() -> None:
    obj = pool_object("p")
    verdict = judge([], [obj])["u-p"]
    status = pool_status(obj, verdict, None, now=NOW)
    assert is_news(obj.status, status, is_settled=False)
    assert [each["reason"] for each in status["conditions"]] == ["NotReady", "AsExpected"]
    assert status["selector"] == "pool=p"
    shown = obj.status.model_validate({**status, "idle": 100})
    assert not is_news(shown, {**status, "idle": 119}, is_settled=False)
    assert is_news(shown, {**status, "idle": 119}, is_settled=True)
    assert not is_news(shown, {**status, "idle": 100}, is_settled=True)
    assert SETTLED > 0


def test_the_time_of_a_condition_stays_while_it_does() -> None:
    obj = pool_object("p")
    verdict = judge([], [obj])["u-p"]
    shown = obj.status.model_validate(pool_status(obj, verdict, None, now=NOW))
    later = pool_status(pool_object("p"), verdict, None, now="2026-11-23T05:00:00Z")["conditions"]
    assert {each["lastTransitionTime"] for each in later} == {"2026-11-23T05:00:00Z"}
    again = PoolObject(**{**{name: getattr(obj, name) for name in PoolObject.__slots__}, "status": shown})
    assert {each["lastTransitionTime"] for each in pool_status(again, verdict, None, now="x")["conditions"]} == {NOW}
