"""Label selectors: what they select, and what is said about those that cannot be read."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.model import pairs
from extender.scheduling.state.selector import Operator, Requirement, Selector

LABELS = pairs({"app": "web", "tier": "", "example.com/gpu": "a100", "in": "out"})

HOLD = [
    "",
    "   ",
    "app",
    "app=web",
    "app==web",
    " app = web ",
    "app!=db",
    "app in (db, web)",
    "app in(web)",
    "app notin (db,cache)",
    "!spot",
    "! spot",
    "spot!=yes",
    "spot notin (yes)",
    "tier=",
    "tier==",
    "tier in (,x)",
    "tier",
    "example.com/gpu=a100",
    "app=web,tier=,!spot,example.com/gpu in (a100)",
    "in in (out)",
    "in=out",
    "in",
    "app != notin",
]
FAIL = [
    "app=db",
    "app=",
    "!app",
    "app!=web",
    "app in (db)",
    "app notin (web, db)",
    "spot",
    "spot=",
    "spot in (yes)",
    "tier!=",
    "app=web,spot",
    "gpu",
]
UNREADABLE = {
    ",": "found ',', expected a label key",
    "app,": "found '', expected a label key",
    "app=web tier": "found 'tier', expected ',' or the end",
    "app web": "found 'web' after 'app'",
    "app > 1": "found '>' after 'app'",
    "app===web": "found '=', expected a label value",
    "app=!web": "found '!', expected a label value",
    "!": "found '', expected a label key",
    "!app=web": "found '=', expected ',' or the end",
    "app in": "found '', expected '('",
    "app in web": "found 'web', expected '('",
    "app in ()": "'app' needs at least one value",
    "app in (web": "found '', expected ',' or ')' in the values of 'app'",
    "app in (web db)": "found 'db', expected ',' or ')' in the values of 'app'",
    "app in (web))": "found ')', expected ',' or the end",
    "-app": "label key '-app'",
    "a/b/c": "prefix of label key 'a/b/c'",
    "Example.com/app": "prefix of label key 'Example.com/app'",
    "/app": "prefix of label key '/app'",
    "example.com/": "label key 'example.com/'",
    "app=-web": "label value '-web'",
    "app=ümlaut": "label value 'ümlaut'",
    f"app={'x' * 64}": "must have at most 63",
    "x" * 64: "label key",
}


@pytest.mark.parametrize("text", HOLD)
def test_it_holds(text):
    assert Selector.parse(text).matches(LABELS)


@pytest.mark.parametrize("text", FAIL)
def test_it_does_not_hold(text):
    assert not Selector.parse(text).matches(LABELS)


@pytest.mark.parametrize(("text", "said"), UNREADABLE.items())
def test_the_unreadable_part_is_named(text, said):
    with pytest.raises(ValueError) as caught:
        Selector.parse(text)
    assert said in str(caught.value)


def test_the_longest_names_are_allowed():
    domain = "x." * 126 + "x"
    text = f"{domain}/{'n' * 63}={'v' * 63}"
    assert Selector.parse(text).requirements == (
        Requirement(f"{domain}/{'n' * 63}", Operator.IN, frozenset(["v" * 63])),
    )


def test_a_prefix_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="DNS subdomain"):
        Selector.parse("x." * 127 + "x/app")


@given(st.text(alphabet="ab=!(), \tin/-.<>", max_size=20))
def test_any_text_is_read_or_refused_with_a_value_error(text):
    with contextlib.suppress(ValueError):
        assert Selector.parse(text).matches(()) in (True, False)


_words = st.sampled_from(["a", "b", "c"])
_requirements = st.one_of(
    st.builds(Requirement, _words, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(Requirement, _words, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.frozensets(_words, min_size=1)),
)


def _text(requirement):
    match requirement.operator:
        case Operator.EXISTS:
            return requirement.key
        case Operator.DOES_NOT_EXIST:
            return f"!{requirement.key}"
        case operator:
            return f"{requirement.key} {operator} ({','.join(sorted(requirement.values))})"


@given(st.lists(_requirements, min_size=1), st.dictionaries(_words, _words))
def test_what_is_written_is_what_is_read_and_all_of_it_must_hold(requirements, labels):
    selector = Selector.parse(", ".join(map(_text, requirements)))
    assert selector.requirements == tuple(requirements)
    assert selector.matches(pairs(labels)) == all(requirement.holds(labels) for requirement in requirements)
