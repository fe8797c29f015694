"""Whatever is posted to the verbs: an answer of the right form, never a 5xx, never a null among victims."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.http.fixed_runtime import Client, FixedRuntime, exchange

_OUTER = (
    "Pod",
    "pod",
    "Nodes",
    "NodeNames",
    "nodenames",
    "NodeNameToVictims",
    "NodeNameToMetaVictims",
    "PodUID",
    "Node",
)
_INNER = (
    "items",
    "metadata",
    "name",
    "uid",
    "labels",
    "spec",
    "containers",
    "resources",
    "requests",
    "cpu",
    "Pods",
    "UID",
)
_KEYS = st.sampled_from(_OUTER + _INNER)
_TEXT = st.text(max_size=5) | st.sampled_from(["a", "b", "1", "100m", "1Ei", "-1", "1e3"])
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | _TEXT, inner, max_size=4),
    max_leaves=12,
)


def _or_any(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what belongs there, sometimes anything."""
    return st.one_of(strategy, strategy, strategy, _ANY)


_META = _or_any(st.fixed_dictionaries({"name": _or_any(_TEXT), "uid": _or_any(_TEXT)}, optional={"labels": _ANY}))
_POD = _or_any(st.fixed_dictionaries({"metadata": _META}, optional={"spec": _ANY, "status": _ANY}))
_PODS = _or_any(st.lists(_or_any(st.fixed_dictionaries({"UID": _TEXT, "metadata": _META})), max_size=2))
_VICTIMS = _or_any(
    st.dictionaries(
        _TEXT, _or_any(st.fixed_dictionaries({"Pods": _PODS}, optional={"NumPDBViolations": _ANY})), max_size=2
    )
)
_REQUEST = _or_any(
    st.fixed_dictionaries(
        {"Pod": _POD},
        optional={
            "NodeNames": _or_any(st.lists(_TEXT, max_size=3)),
            "Nodes": _or_any(st.fixed_dictionaries({"items": _PODS})),
            "NodeNameToVictims": _VICTIMS,
            "NodeNameToMetaVictims": _VICTIMS,
            "PodName": _or_any(_TEXT),
            "PodNamespace": _or_any(_TEXT),
            "PodUID": _or_any(_TEXT),
            "Node": _or_any(_TEXT),
        },
    )
)
_BODY = _REQUEST.map(lambda request: json.dumps(request).encode()) | st.binary(max_size=30)


@pytest.mark.parametrize(
    "verb", ["filter", "bind", *(pytest.param(verb, marks=pytest.mark.slow) for verb in ("prioritize", "preempt"))]
)
def test_no_body_makes_a_verb_fail(client: Client, runtime: FixedRuntime, verb: str):
    with closing(client.connect()) as connection:

        @settings(
            max_examples=100,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        @given(_BODY)
        def check(body: bytes) -> None:
            answer = exchange(connection, "POST", f"/{verb}", body)
            _check_form(verb, answer.status, answer.json)

        check()


def _check_form(verb: str, status: int, answer: Any) -> None:
    if status == 400:
        assert verb in ("prioritize", "preempt")
        assert isinstance(answer["error"], str)
        assert answer["field"]
        return
    assert status == 200
    if verb == "prioritize":
        assert all(isinstance(each["Score"], int) for each in answer)
    elif verb == "preempt":
        assert all(victims["Pods"] is not None for victims in answer["NodeNameToMetaVictims"].values())
    else:
        assert isinstance(answer["Error"], str)
