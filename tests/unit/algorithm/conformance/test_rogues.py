"""Algorithms that hang, end the process or do more than decide are named, and the process that reports goes on."""

from __future__ import annotations

import re
from typing import Any

import pytest

from algorithm.conformance.catalogue import BY_NAME
from algorithm.conformance.reference import UnusableError, plugin_of, read_settings, settings_of
from algorithm.conformance.results import LONGEST_TEXT, Report, Request, shortened
from algorithm.conformance.session import run
from tests.support.conformance.slots import PLUGIN

ROGUES = "tests.support.conformance.rogue"


def slow(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def tried(name: str, *checks: str, limit: float = 1.0) -> Report:
    return run(Request(plugin=f"{ROGUES}:{name}", only=checks, lives=3, steps=20, limit=limit))


def only_failure(report: Report) -> tuple[str, str]:
    assert not report.unusable
    ((check, text),) = [(each.check, each.text) for each in report.results if each.status == "failed"]
    assert check in BY_NAME
    return check, text


@pytest.mark.parametrize(
    ("name", "check", "text"),
    [
        ("PRINTS", "prints-nothing", "schedule: it wrote 'here' to standard output"),
        slow("STARTS_THREADS", "starts-no-threads", "schedule: Thread.start"),
        slow("EXITS_POLITELY", "process-survives", "schedule raised SystemExit(3), which ends the process"),
        slow("HANGS", "calls-return", "schedule did not return within 1 seconds"),
    ],
)
def test_it_is_named_with_the_call(name: str, check: str, text: str) -> None:
    report = tried(name, check)
    failed, said = only_failure(report)
    assert failed == check
    assert said.startswith(text)
    assert report.results[0].calls


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("EXITS", "the process ended by itself, with status 3 in life.ask"),
        ("KILLS_ITSELF", "the process was ended by SIGKILL in life.ask"),
    ],
)
def test_the_end_of_the_process_is_named_with_the_calls_of_its_last_life(name: str, text: str) -> None:
    report = tried(name, "process-survives", "only-offered-nodes")
    check, said = only_failure(report)
    assert (check, said.startswith(text)) == ("process-survives", True), said
    by_name = {each.check: each for each in report.results}
    assert type(by_name["process-survives"].calls[-1]).__name__ == "Ask"
    assert by_name["only-offered-nodes"].status == "not-run"
    assert not report.conforms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("COMPLAINS", "prints-nothing"),
        ("STARTS_PROCESSES", "starts-no-threads"),
        ("OPENS_SOCKETS", "opens-no-sockets"),
        ("OPENS_FILES", "opens-no-files"),
        ("READS_THE_ENVIRONMENT", "reads-no-environment"),
        ("READS_THE_CLOCK", "reads-no-clock"),
        ("DRAWS_LOTS", "uses-no-random-numbers"),
        ("HANGS_AND_SWALLOWS", "calls-return"),
        ("HANGS_DEAF", "calls-return"),
    ],
)
def test_others_are_named_too(name: str, check: str) -> None:
    assert only_failure(tried(name, check))[0] == check


def test_a_plugin_that_ends_the_process_at_its_import_is_named() -> None:
    report = run(Request(plugin="tests.support.conformance.dies_at_import:PLUGIN", lives=1))
    assert "the process ended by itself, with status 9 while it was imported" in report.unusable
    assert not report.conforms


def test_what_an_algorithm_says_is_shortened() -> None:
    assert shortened("a" * LONGEST_TEXT) == "a" * LONGEST_TEXT
    assert shortened("a" * (LONGEST_TEXT + 5)) == "a" * LONGEST_TEXT + "... (5 characters more)"
    report = run(Request(plugin="tests.support.conformance.wordy_at_import:PLUGIN", lives=1))
    assert report.unusable.startswith("tests.support.conformance.wordy_at_import cannot be imported: ValueError('aaa")
    assert len(report.unusable) < LONGEST_TEXT + 100


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        ("no.such.module:PLUGIN", "no.such.module cannot be imported: ModuleNotFoundError"),
        ("no_such_file.py:PLUGIN", "no_such_file.py cannot be imported: FileNotFoundError"),
        (f"{ROGUES}:NOTHING", f"{ROGUES} has no NOTHING"),
        (f"{ROGUES}:NO_PLUGIN", "is a str, not an algorithm.registry.Plugin"),
        (f"{ROGUES}:", "expected PACKAGE:PLUGIN"),
        ("pakcing", "expected PACKAGE:PLUGIN, or the name of an installed algorithm (fgd, hived, packing)"),
        ("tests.support.conformance.fails_at_import:PLUGIN", "cannot be imported: ZeroDivisionError"),
        ("tests.support.conformance.ends_at_import:PLUGIN", "it ends the process (SystemExit(7))"),
    ],
)
def test_a_plugin_that_cannot_be_tried_is_named_with_the_reason(plugin: str, text: str) -> None:
    with pytest.raises(UnusableError, match=re.escape(text)):
        plugin_of(plugin)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"slots": 0}, "settings: slots: Input should be greater than or equal to 1"),
        ({"slot": 1}, "settings: slot: there is no such field; did you mean slots?"),
    ],
)
def test_wrong_settings_name_the_field(settings: dict[str, object], text: str) -> None:
    with pytest.raises(UnusableError, match=re.escape(text)):
        settings_of(PLUGIN, settings)


@pytest.mark.parametrize("text", ["slots: [", "- 1", "slots: {a: *b}"])
def test_a_settings_file_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(UnusableError, match="^settings: "):
        settings_of(PLUGIN, read_settings(PLUGIN, text))
