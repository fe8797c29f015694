from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import json_patch, merge_patch, strategic_merge_patch

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def test_merge_patch_sets_removes_and_replaces_lists() -> None:
    obj = {"a": {"b": 1, "c": 2}, "list": [1, 2]}
    assert merge_patch(obj, {"a": {"b": None, "d": 3}, "list": [9]}) == {"a": {"c": 2, "d": 3}, "list": [9]}


@settings(max_examples=40, deadline=None)
@given(_JSON, _JSON)
def test_merge_patches_leave_the_object_alone_and_are_idempotent(obj: Any, patch: Any) -> None:
    before = copy.deepcopy(obj)
    once = merge_patch(obj, patch)
    assert obj == before
    assert merge_patch(once, patch) == once


def test_strategic_patch_merges_containers_by_name_and_conditions_by_type() -> None:
    obj = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "conditions": [{"type": "Ready"}]}
    patch = {
        "containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}],
        "conditions": [{"type": "PodScheduled", "status": "False"}],
    }
    assert strategic_merge_patch(obj, patch) == {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}],
        "conditions": [{"type": "PodScheduled", "status": "False"}, {"type": "Ready"}],
    }


def test_strategic_patch_replaces_lists_without_a_merge_key() -> None:
    assert strategic_merge_patch({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}) == {"taints": [{"key": "b"}]}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"volumes": [{"name": "a", "$patch": "delete"}]}, {"volumes": [{"name": "b"}], "finalizers": ["x", "y"]}),
        ({"volumes": [{"$patch": "replace"}, {"name": "c"}]}, {"volumes": [{"name": "c"}], "finalizers": ["x", "y"]}),
        ({"$patch": "replace", "volumes": []}, {"volumes": []}),
        ({"finalizers": ["y", "z"]}, {"volumes": [{"name": "a"}, {"name": "b"}], "finalizers": ["x", "y", "z"]}),
        (
            {"$deleteFromPrimitiveList/finalizers": ["x"]},
            {"volumes": [{"name": "a"}, {"name": "b"}], "finalizers": ["y"]},
        ),
        ({"$setElementOrder/volumes": [{"name": "a"}], "volumes": None}, {"finalizers": ["x", "y"]}),
        ({"$retainKeys": ["finalizers"]}, {"finalizers": ["x", "y"]}),
    ],
)
def test_strategic_directives(patch: dict[str, Any], result: dict[str, Any]) -> None:
    obj = {"volumes": [{"name": "a"}, {"name": "b"}], "finalizers": ["x", "y"]}
    assert strategic_merge_patch(obj, patch) == result


def test_a_strategic_list_item_without_its_key_is_refused() -> None:
    with pytest.raises(ApiError, match="merge key: name"):
        strategic_merge_patch({"containers": []}, {"containers": [{"image": "x"}]})


@pytest.mark.parametrize(
    ("step", "result"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "x/y": {"~": 0}}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2], "x/y": {"~": 0}}),
        ({"op": "add", "path": "/n", "value": {}}, {"a": [1, 2], "x/y": {"~": 0}, "n": {}}),
        ({"op": "replace", "path": "/x~1y/~0", "value": 5}, {"a": [1, 2], "x/y": {"~": 5}}),
        ({"op": "remove", "path": "/a/1"}, {"a": [1], "x/y": {"~": 0}}),
        ({"op": "move", "from": "/a", "path": "/b"}, {"b": [1, 2], "x/y": {"~": 0}}),
        ({"op": "copy", "from": "/a/0", "path": "/a/1"}, {"a": [1, 1, 2], "x/y": {"~": 0}}),
        ({"op": "test", "path": "/a", "value": [1, 2]}, {"a": [1, 2], "x/y": {"~": 0}}),
        ({"op": "test", "path": "/absent", "value": None}, {"a": [1, 2], "x/y": {"~": 0}}),
        ({"op": "replace", "path": "", "value": {"whole": 1}}, {"whole": 1}),
    ],
)
def test_json_patch_operations(step: dict[str, Any], result: dict[str, Any]) -> None:
    obj = {"a": [1, 2], "x/y": {"~": 0}}
    assert json_patch(obj, [step]) == result
    assert obj == {"a": [1, 2], "x/y": {"~": 0}}


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"op": "remove", "path": "/gone"}, 422),
        ({"op": "replace", "path": "/a/7", "value": 1}, 422),
        ({"op": "add", "path": "/a/x", "value": 1}, 422),
        ({"op": "test", "path": "/a", "value": 0}, 422),
        ({"op": "test", "path": "/a", "value": None}, 422),
        ({"op": "test", "path": "/absent/too", "value": None}, 422),
        ({"op": "add", "path": "/s/x", "value": 1}, 422),
        ({"op": "jump", "path": "/a"}, 400),
        ({"op": "add", "path": "/a"}, 400),
        ({"op": "remove", "path": "a"}, 400),
        ({"op": "move", "path": "/a"}, 400),
        ({"op": "add", "value": 1}, 400),
    ],
)
def test_json_patches_that_do_not_fit_are_refused(step: dict[str, Any], code: int) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": [1], "s": "text"}, [step])
    assert refused.value.code == code
