"""Algorithms that take more and more end the test in bounded time and memory, with a finding that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from algorithm.conformance.limits import MARK, end_marked
from algorithm.conformance.results import Report, Request, shown
from algorithm.conformance.session import run

GREEDY = "tests.support.conformance.greedy"


def tried(name: str, *only: str, limit: float = 1.0) -> Report:
    request = Request(plugin=f"{GREEDY}:{name}", only=only, lives=5, steps=20, limit=limit, memory=512, seconds=10)
    return run(request)


def failures(name: str, *only: str, limit: float = 1.0) -> dict[str, str]:
    """By check: all of them, or these. `limit`: seconds of a call."""
    report = tried(name, *only, limit=limit)
    assert not report.unusable
    assert not report.conforms
    return {each.check: each.text for each in report.results if each.status == "failed"}


@pytest.mark.parametrize(
    ("name", "check", "text"),
    [
        pytest.param(
            "ALLOCATES",
            "memory-limited",
            "schedule took more memory than the limit",
            marks=pytest.mark.slow,
        ),
        ("NO_REPR", "questions-raise-only-refusals", "raised a Bad, of which repr raises RuntimeError"),
    ],
)
def test_it_is_named(name: str, check: str, text: str) -> None:
    """With time enough for a busy machine to give half a gigabyte."""
    assert text in failures(name, check, limit=5.0)[check]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "check", "text"),
    [
        ("ALLOCATES_AND_SWALLOWS", "calls-return", "schedule did not return"),
        ("GROWS", "memory-limited", "add_node took more memory than the limit"),
        ("PRINTS", "prints-nothing", "to standard output"),
        ("WRITES", "prints-nothing", "bytes past `print`"),
        ("THREADS", "starts-no-threads", "Thread.start"),
        ("FORKS", "starts-no-threads", "os.fork"),
        ("SLEEPERS", "starts-no-threads", "subprocess.Popen"),
        ("SOCKETS", "opens-no-sockets", "socket.__new__"),
        ("LONG_ERROR", "questions-raise-only-refusals", "characters)"),
        ("SLOW", "decides-in-time", "schedule did not return"),
    ],
)
def test_others_are_named_too(name: str, check: str, text: str) -> None:
    found = failures(name, check)
    assert text in found[check], found
    assert all(len(each) < 3000 for each in found.values())


@pytest.mark.slow
def test_no_process_is_left_behind() -> None:
    tried("SLEEPERS")
    assert [each for each in map(_command, Path("/proc").glob("[0-9]*")) if b"4711" in each] == []


def test_a_text_without_the_mark_ends_no_process() -> None:
    end_marked(f"no process has this in {MARK}")


def test_what_is_shown_of_a_value_is_bounded() -> None:
    assert shown([1, "a"]) == "[1, 'a']"
    assert shown("x" * 1000).endswith("... (1,002 characters)")
    assert len(shown("x" * 1000)) < 530


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""
