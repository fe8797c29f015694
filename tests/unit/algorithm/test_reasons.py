"""Reasons: every code has a text that is the same each time it is asked for, and says what it needs."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from string import Formatter

import pytest

from algorithm.reasons import Code, FixedReasons, Reason, reason


def parameters(code: Code) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(code.template) if name is not None]


def test_a_template_renders_with_exactly_its_parameters() -> None:
    for code in Code:
        given = {name: f"<{name}>" for name in parameters(code)}
        assert reason(code, **given).text == code.template.replace("{", "<").replace("}", ">"), code


def test_a_reason_without_one_of_its_parameters_cannot_be_made() -> None:
    for code in Code:
        given = dict.fromkeys(parameters(code), "x")
        for missing in given:
            with pytest.raises(KeyError, match=missing):
                reason(code, **{name: value for name, value in given.items() if name != missing})


def test_a_template_contains_no_digit_and_only_plain_parameters() -> None:
    for code in Code:
        assert not re.search(r"[0-9]", code.template), code
        assert re.fullmatch(r"(?:[^{}]|\{[a-z]+\})+", code.template), code


def test_a_code_is_its_own_name_in_camel_case() -> None:
    for code in Code:
        assert code == code.value
        assert re.fullmatch(r"[A-Z][A-Za-z]+", code), code


def test_no_two_codes_have_the_same_text_unless_it_is_all_detail() -> None:
    templates = [code.template for code in Code if code.template != "{detail}"]
    assert len(set(templates)) == len(templates)


def test_names_are_sorted_and_joined_whatever_order_they_come_in() -> None:
    texts = {
        reason(Code.INSUFFICIENT, resources=names).text
        for names in (["memory", "cpu"], ("cpu", "memory"), {"memory", "cpu"}, {"cpu": 1, "memory": 2})
    }
    assert texts == {"insufficient cpu, memory"}


def test_equal_situations_make_equal_reasons() -> None:
    one = reason(Code.PROPOSED_OTHER_NODE, proposed="a", node="b")
    two = reason(Code.PROPOSED_OTHER_NODE, node="b", proposed="a")
    assert one == two
    assert hash(one) == hash(two)
    assert str(one) == one.text == "pod was proposed for a, not for b"


def test_a_parameter_is_never_taken_for_a_template() -> None:
    assert reason(Code.OTHER, detail="{node} {0} %s").text == "{node} {0} %s"


def test_only_reasons_that_eviction_could_remove_are_preemptible() -> None:
    assert reason(Code.INSUFFICIENT, resources="cpu").preemptible
    assert not reason(Code.NODE_LACKS_RESOURCE, resources="cpu").preemptible
    assert not reason(Code.NODE_CORDONED).preemptible


def test_numbers_are_rendered_as_they_are() -> None:
    assert reason(Code.GANG_INCOMPLETE, gang="g", minimum=8).text == "gang g waits until 8 of its pods exist"


BUSY = reason(Code.INSUFFICIENT, resources=["cpu"])


@pytest.mark.parametrize(
    "change",
    [
        lambda fixed: fixed.__setitem__("b", BUSY),
        lambda fixed: fixed.__delitem__("a"),
        lambda fixed: fixed.__ior__({"b": BUSY}),
        lambda fixed: fixed.clear(),
        lambda fixed: fixed.pop("a"),
        lambda fixed: fixed.popitem(),
        lambda fixed: fixed.setdefault("b", BUSY),
        lambda fixed: fixed.update(b=BUSY),
    ],
)
def test_fixed_reasons_cannot_be_changed(change: Callable[[FixedReasons], object]) -> None:
    fixed = FixedReasons({"a": BUSY})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(fixed)
    assert fixed == {"a": BUSY}


def test_fixed_reasons_are_independent_of_the_dict_they_were_made_from() -> None:
    reasons: dict[str, Reason] = {"a": BUSY}
    fixed = FixedReasons(reasons)
    reasons["b"] = BUSY
    assert fixed == {"a": BUSY}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda fixed: pickle.loads(pickle.dumps(fixed))])
def test_a_copy_of_fixed_reasons_is_fixed(copied: Callable[[FixedReasons], FixedReasons]) -> None:
    twin = copied(FixedReasons({"a": BUSY}))
    assert (type(twin), twin) == (FixedReasons, {"a": BUSY})
