"""The annotation `waggle.dev/after`: what is read, and how errors are told."""

from __future__ import annotations

import time

import pytest

from extender.ordering.after import MOST_CHARACTERS, AfterError, kind_of, met_text, parse_after, parse_met, try_after
from extender.ordering.records import GROUP, JOB, VOLCANO_JOB, Dependency, State, Target


def test_reads_json_and_yaml_alike() -> None:
    expected = (
        Dependency(Target(GROUP, "ml", "db")),
        Dependency(Target(JOB, "ml", "load"), State.COMPLETE, False, 600.0),
        Dependency(Target("Deployment", "ml", "cache"), State.SCHEDULED, True),
        Dependency(Target(JOB, "ml", "08")),
    )
    json_text = (
        '[{"group": "db"}, {"kind": "Job", "name": "load", "state": "Complete", "grace": 600},'
        ' {"kind": "deploy", "name": "cache", "state": "Scheduled", "optional": true}, "job/08"]'
    )
    yaml_text = """
    - {group: db}
    - kind: Job
      name: load
      state: complete
      grace: 600
    - {kind: Deployment, name: cache, state: Scheduled, optional: yes}
    - {kind: job, name: 08}
    """
    assert parse_after(json_text, "ml") == expected
    assert parse_after(yaml_text, "ml") == expected


def test_an_empty_list_declares_nothing() -> None:
    assert parse_after("[]", "ml") == ()


def test_kinds_by_the_names_that_kubectl_takes() -> None:
    assert {kind_of(each) for each in ("pg", "PodGroup", "group", "gang")} == {GROUP}
    assert kind_of("vcjob") == VOLCANO_JOB
    assert kind_of("Service") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'waggle.dev/after: expected a list, such as [{group: b}, "job/a"], got nothing'),
        ("job/a", "waggle.dev/after: expected a list, such as [{group: b}, \"job/a\"], got 'job/a'"),
        ("{group: b}", 'waggle.dev/after: expected a list, such as [{group: b}, "job/a"], got an object'),
        ("[", "waggle.dev/after: expected a list as YAML or JSON: not YAML: "),
        ("[a]", "waggle.dev/after[0]: expected KIND/NAME, such as job/prepare, got 'a'"),
        ("[service/a]", "waggle.dev/after[0]: unknown kind 'service', expected Group, Pod, Job,"),
        ("[5]", "waggle.dev/after[0]: expected {group: NAME}"),
        ("[[]]", 'waggle.dev/after[0]: expected {group: NAME}, {kind: KIND, name: NAME} or "KIND/NAME", got a list'),
        ("[{group: b, kind: Job}]", "waggle.dev/after[0]: expected either group or kind and name, not both"),
        ("[{kind: Job}]", "waggle.dev/after[0]: name is missing; expected {group: NAME} or {kind: KIND, name: NAME}"),
        ("[{name: a}]", "waggle.dev/after[0]: kind is missing"),
        ("[{group: b, namespace: x}]", "waggle.dev/after[0]: unknown field 'namespace', expected group, kind, name,"),
        ("[{group: b, stat: Ready}]", "waggle.dev/after[0]: unknown field 'stat'"),
        ("[{group: B}]", "waggle.dev/after[0].group: expected the name of an object"),
        ('[{"group": 5}]', "waggle.dev/after[0].group: expected the name of an object"),
        ("[{group: b, state: Done}]", "waggle.dev/after[0].state: expected Scheduled, Ready, Complete, got 'Done'"),
        ("[{kind: sts, name: a, state: Complete}]", "waggle.dev/after[0].state: a StatefulSet never completes"),
        ("[{group: b, optional: 3}]", "waggle.dev/after[0].optional: expected true or false, got '3'"),
        ("[{group: b, grace: -1}]", "waggle.dev/after[0].grace: expected seconds, from 0 to 604800, got '-1'"),
        ("[{group: b, grace: .nan}]", "waggle.dev/after[0].grace: expected seconds"),
        ("[{group: b, grace: 1m}]", "waggle.dev/after[0].grace: expected seconds"),
        ("[job/a, {kind: Job, name: a}]", "waggle.dev/after[1]: Job/ml/a stands in entry 0 with the same state"),
        ("[" + "job/a," * 65 + "]", "waggle.dev/after: expected at most 64 entries, got 65"),
        ("x" * (MOST_CHARACTERS + 1), "waggle.dev/after: expected at most 16384 characters, got 16385"),
    ],
)
def test_an_error_names_the_field_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(AfterError) as caught:
        parse_after(text, "ml")
    assert str(caught.value).startswith(message), caught.value
    assert try_after(text, "ml") == ((), str(caught.value))


def test_a_dependant_cannot_wait_for_itself() -> None:
    own = (Target("Pod", "ml", "a-0"), Target(JOB, "ml", "a"))
    with pytest.raises(AfterError, match=r"waggle.dev/after\[1\]: Job/ml/a would wait for itself"):
        parse_after("[job/b, job/a]", "ml", own)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 16_000,
        '{"a":' * 3_000,
        "- " * 8_000,
        "[" + "&a [" * 50 + "]" * 50 + "]",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
        "[" + ",".join("x" for _ in range(8_000)) + "]",
        "\ud800",
    ],
)
def test_a_hostile_text_is_refused_quickly(text: str) -> None:
    began = time.process_time()
    with pytest.raises(AfterError):
        parse_after(text, "hostile")
    assert time.process_time() - began < 1.0


def test_what_is_met_is_written_and_read_back() -> None:
    met = {"Job/ml/a=Complete", "Group/ml/b=Ready"}
    assert parse_met(met_text(met)) == met
    assert parse_met("") == frozenset()
    assert parse_met("x" * 100_000) == frozenset()
