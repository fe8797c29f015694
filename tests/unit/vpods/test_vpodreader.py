"""Reading of vpods: whatever its author got wrong becomes a text that names the field, and the rest is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.decoding import DecodeError
from extender.core.field_paths import parse
from extender.vpods.names import MOST, MOST_PLACEMENTS, NO_NUMBER, read_placements
from extender.vpods.records import VPodRecord, VPodSource
from extender.vpods.vpodreader import MOST_NAME, decode_vpod
from tests.unit.vpods.knative import SOURCES, body, consumer_group

Object = dict[str, Any]


def vpod(spec: Any, status: Any = None) -> VPodRecord:
    metadata = {"name": "v", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    found = decode_vpod(body({"metadata": metadata, "spec": spec, "status": status}))
    assert found is not None
    return found


def group(**changes: Any) -> VPodRecord:
    found = decode_vpod(body(consumer_group("g", **changes)), SOURCES)
    assert found is not None
    return found


# -- Knative's consumer groups


def test_a_consumer_group_is_read() -> None:
    placements = [{"podName": "kafka-source-dispatcher-0", "vreplicas": 2}, {"podName": "kafka-source-dispatcher-1"}]
    found = group(placements=placements)
    assert (str(found.key), found.uid, found.version) == ("sources:user/g", "uid-g", "7")
    assert (found.wanted, found.set, found.problems) == (3, SOURCES.set, ())
    assert found.placements == (("kafka-source-dispatcher-0", 2), ("kafka-source-dispatcher-1", 0))


def test_one_that_says_nothing_wants_one_and_has_none() -> None:
    found = group(replicas=None)
    assert (found.wanted, found.placements, found.bad_wanted) == (1, (), "")


def test_one_for_another_kind_is_no_vpod_of_the_source() -> None:
    assert decode_vpod(body(consumer_group("g", kind="trigger")), SOURCES) is None
    unlabelled = consumer_group("g")
    del unlabelled["metadata"]["labels"]
    assert decode_vpod(body(unlabelled), SOURCES) is None


def test_one_that_is_being_finalized_wants_its_vreplicas_back() -> None:
    obj = consumer_group("g")
    obj["metadata"]["deletionTimestamp"] = "2026-11-23T15:00:00Z"
    found = decode_vpod(body(obj), SOURCES)
    assert found is not None
    assert found.deleting


# -- numbers


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        (-1, f"spec.replicas: expected a number from 0 to {MOST}, not -1"),
        (2**31, f"spec.replicas: expected a number from 0 to {MOST}, not {2**31}"),
        (2**64, f"spec.replicas: expected a number from 0 to {MOST}"),
        (10**400, f"spec.replicas: expected a number from 0 to {MOST}"),
        ("3", f"spec.replicas: expected a number from 0 to {MOST}"),
        (1.5, f"spec.replicas: expected a number from 0 to {MOST}"),
        (True, f"spec.replicas: expected a number from 0 to {MOST}"),
        ([], f"spec.replicas: expected a number from 0 to {MOST}"),
        ({"a": 1}, f"spec.replicas: expected a number from 0 to {MOST}"),
    ],
)
def test_a_wanted_number_that_is_none_is_named(replicas: Any, said: str) -> None:
    found = group(replicas=replicas, placements=[{"podName": "kafka-source-dispatcher-0", "vreplicas": 1}])
    assert found.bad_wanted == said
    assert not 0 <= found.wanted <= MOST
    assert found.placements == (("kafka-source-dispatcher-0", 1),)


@pytest.mark.parametrize("number", [0, 1, MOST])
def test_other_numbers_are_as_they_are(number: int) -> None:
    assert (group(replicas=number).wanted, group(replicas=number).bad_wanted) == (number, "")


def test_a_field_that_hits_nothing_is_its_default() -> None:
    elsewhere = VPodSource(name="x", wanted=parse(".spec.template[3].size"), default_wanted=5, spread=2)
    found = decode_vpod(body(consumer_group("g")), elsewhere)
    assert found is not None
    assert (found.wanted, found.spread, found.placements) == (5, 2, ())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"spread": -1}, f"spec.spread: expected a number from 0 to {MOST}, not -1"),
        ({"maxPerPod": "2"}, f"spec.maxPerPod: expected a number from 0 to {MOST}"),
    ],
)
def test_limits_that_are_none_are_named_and_not_used(spec: Object, said: str) -> None:
    found = vpod({"set": "s", "vreplicas": 2, **spec})
    assert found.problems == (said,)
    assert (found.wanted, found.spread, found.max_per_pod) == (2, 0, 0)


# -- placements


def entries(*placements: Any) -> tuple[dict[int, int], list[str]]:
    return read_placements(group(placements=list(placements)).placements, "kafka-source-dispatcher")


def test_entries_that_cannot_be_used_are_named_and_the_others_count() -> None:
    counts, problems = entries(
        {"podName": "kafka-source-dispatcher-1", "vreplicas": 2},
        {"podName": "somebody-else-1", "vreplicas": 2},
        {"podName": "kafka-source-dispatcher-01", "vreplicas": 2},
        {"podName": "kafka-source-dispatcher-2147483648", "vreplicas": 2},
        {"podName": None, "vreplicas": 2},
        {"podName": ["kafka-source-dispatcher-0"], "vreplicas": 2},
        "kafka-source-dispatcher-0",
        None,
        {"podName": "kafka-source-dispatcher-2", "vreplicas": -1},
        {"podName": "kafka-source-dispatcher-2", "vreplicas": "1"},
        {"podName": "kafka-source-dispatcher-2", "vreplicas": 2**31},
        {"podName": "kafka-source-dispatcher-2", "vreplicas": 2**64},
        {"podName": "kafka-source-dispatcher-1", "vreplicas": 3, "zoneName": "of an earlier version"},
        {"podName": "kafka-source-dispatcher-1", "vreplicas": MOST},
    )
    assert counts == {1: 5}
    number = f"expected a number from 0 to {MOST}"
    foreign = "is not a pod of the StatefulSet kafka-source-dispatcher"
    assert problems == [
        f"status.placements[1].podName: 'somebody-else-1' {foreign}",
        f"status.placements[2].podName: 'kafka-source-dispatcher-01' {foreign}",
        f"status.placements[3].podName: 'kafka-source-dispatcher-2147483648' {foreign}",
        *(f"status.placements[{index}].podName: '' {foreign}" for index in (4, 5, 6, 7)),
        f"status.placements[8].vreplicas: {number}, not -1",
        f"status.placements[9].vreplicas: {number}",
        f"status.placements[10].vreplicas: {number}, not {2**31}",
        f"status.placements[11].vreplicas: {number}",
        f"status.placements[13].vreplicas: {number}, not {MOST}",
    ]


@pytest.mark.parametrize("placements", ["text", {"a": 1}, 3])
def test_placements_that_are_no_list_are_named(placements: Any) -> None:
    found = group(placements=placements)
    assert (found.placements, found.problems) == ((), ("status.placements: expected a list",))
    assert found.wanted == 3


def test_too_many_placements_are_cut_and_that_is_said() -> None:
    found = group(placements=[{"podName": "kafka-source-dispatcher-0", "vreplicas": 1}] * (MOST_PLACEMENTS + 5))
    assert len(found.placements) == MOST_PLACEMENTS + 1
    counts, problems = read_placements(found.placements, "kafka-source-dispatcher")
    assert counts == {0: MOST_PLACEMENTS}
    assert problems == [f"status.placements: expected at most {MOST_PLACEMENTS} entries"]


@pytest.mark.parametrize("odd", [{}, {"x": None, "vreplicas": None}])
def test_a_long_name_is_cut(odd: Object) -> None:
    name = "a" * 100_000
    found = group(placements=[{"podName": name, "vreplicas": 1}, odd])
    assert found.placements[0] == (name[:MOST_NAME], 1)


def test_entries_are_shared_between_vpods() -> None:
    placements = [{"podName": "kafka-source-dispatcher-0", "vreplicas": 1000}]
    assert group(placements=placements).placements[0] is group(placements=placements).placements[0]


# -- anything


def test_an_object_without_a_name_is_an_error() -> None:
    for broken in (b"", b"[]", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":"a"}', b"\xff"):
        with pytest.raises(DecodeError):
            decode_vpod(broken, SOURCES)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    st.sampled_from(["set", "vreplicas", "spread", "maxPerPod", "placements", "reason", "conditions", "replicas"]),
    ANYTHING,
)


@given(spec=FIELDS | ANYTHING, status=FIELDS | ANYTHING)
def test_any_spec_and_status_is_read(spec: Any, status: Any) -> None:
    found = vpod(spec, status)
    assert found.wanted >= NO_NUMBER
    assert bool(found.bad_wanted) == (not 0 <= found.wanted <= MOST)
    for name, number in found.placements:
        assert isinstance(name, str)
        assert isinstance(number, int)
    assert json.dumps([found.reason, found.condition, found.since, str(found.set)])
