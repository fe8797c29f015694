"""YAML that anybody may have written: texts stay texts, and nothing in it can end or stall the process."""

import pytest

from algorithm.hived.formats.plainyaml import MAX_DEPTH, MAX_VALUES, Plain, load


def test_scalars_stay_the_text_that_was_written():
    loaded = load("a: 08\nb: 1_000\nc: yes\nd: 2026-01-01\ne: word\nf: '7'\n")

    assert loaded == {"a": "08", "b": "1_000", "c": "yes", "d": "2026-01-01", "e": "word", "f": "7"}


@pytest.mark.parametrize("text", ["1", "1.0", "08", "0o7", "0X1f", "true", "on", "y", "N", "2026-01-01"])
def test_what_yaml_takes_for_more_than_a_text_is_plain(text):
    assert isinstance(load(text), Plain)


@pytest.mark.parametrize("text", ["'1'", '"true"', "!!str 1", "word", "0ff", "0x", "0b2"])
def test_quoted_and_ordinary_texts_are_not_plain(text):
    assert type(load(text)) is str


@pytest.mark.parametrize("text", ["", "~", "null", "# nothing"])
def test_nothing_is_none(text):
    assert load(text) is None


def test_binary_is_the_text_that_it_stands_for():
    assert load("!!binary d29yZA==") == "word"


@pytest.mark.parametrize("text", ["!!binary /w==", "!!binary =", "!foo word", "!foo {a: 1}"])
def test_what_is_no_text_and_what_has_a_tag_of_its_own_is_refused(text):
    with pytest.raises(ValueError, match="not YAML"):
        load(text)


def test_anchors_and_merge_keys_work_as_in_any_configuration():
    loaded = load("a: &common {x: 1, y: 2}\nb: {<<: *common, y: 3}\nc: [*common, *common]\n")

    assert loaded["b"] == {"x": "1", "y": "3"}
    assert loaded["c"] == [{"x": "1", "y": "2"}] * 2


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1\n", 2), ("a: 1\n b: 2\n", 2), ("\ta: 1\n", 1), ("a: *nowhere\n", None), ("--- 1\n--- 2\n", 2)],
)
def test_what_is_no_yaml_is_an_error_that_names_the_line(text, line):
    with pytest.raises(ValueError, match="not YAML") as caught:
        load(text)

    assert line is None or f"line {line}" in str(caught.value)


@pytest.mark.parametrize("text", ["!!python/object/apply:os.system ['true']", "? [a]\n: b\n", "\x00", "a: \ud800"])
def test_strange_texts_are_errors_too(text):
    with pytest.raises(ValueError, match="not YAML"):
        load(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "\n".join(" " * depth + "a:" for depth in range(300)),
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    ],
    ids=["brackets", "braces", "dashes", "indentation", "one too many"],
)
def test_what_is_nested_too_deeply_is_refused(text):
    """libyaml builds values on the C stack: the first of these would end the process."""
    with pytest.raises(ValueError, match=f"nested more than {MAX_DEPTH} levels"):
        load(text)


def test_what_is_nested_deeply_but_not_too_deeply_is_read():
    loaded = load("[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2))

    for _ in range(MAX_DEPTH - 3):
        [loaded] = loaded
    assert loaded == []


def laughs(inner: str, of: str) -> str:
    lines = [f"l0: &l0 {inner}"]
    lines += [f"l{n}: &l{n} {of % ', '.join([f'*l{n - 1}'] * 10)}" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [laughs("[lol]", "[%s]"), laughs("{k: lol}", "{<<: [%s]}")],
    ids=["nested aliases", "nested merges"],
)
def test_a_billion_laughs_are_not_laughed(text):
    with pytest.raises(ValueError, match=f"more than {MAX_VALUES} values"):
        load(text)


def test_what_contains_itself_is_refused():
    with pytest.raises(ValueError, match="for itself"):
        load("a: &a [*a]")


def test_a_long_line_or_many_brackets_alone_are_no_reason_to_refuse():
    text = "{" + ", ".join(f"key{n}: [{n}]" for n in range(500)) + "}"

    assert load(text)["key499"] == ["499"]


def test_no_more_is_read_than_the_caller_wants():
    assert load("a" * 10, longest=10) == "a" * 10
    with pytest.raises(ValueError, match="longer than 10 characters"):
        load("a" * 11, longest=10)
