"""The result of each check, as plain data that the testing process sends to the reporting one."""

from __future__ import annotations

import gc
from typing import Literal

import msgspec

from algorithm.conformance.calls import Call

#: `excused`: an opted-out check fails, as expected. `unexpected`: an opted-out check passes. `not-run`: it could not be
#: tried, because the process ended before.
Status = Literal["passed", "warned", "failed", "not-applicable", "excused", "unexpected", "not-run"]

#: Those after which the algorithm does not conform.
BAD: frozenset[str] = frozenset({"failed", "unexpected", "not-run"})


#: Characters of one text: an algorithm may raise an error of any length.
LONGEST_TEXT = 20_000


#: Characters of an exception, or of another value of an algorithm, in a text.
_LONGEST_SHOWN = 500


def _repr(value: object) -> str:
    """Exceptions that nobody needs any more may hold much memory, until a collection."""
    try:
        return repr(value)
    except MemoryError:
        gc.collect()
        return repr(value)


def shown(value: object) -> str:
    """Return the beginning of a value's repr, which is code of the algorithm: it may raise, or be of any length."""
    try:
        text = _repr(value)
    except Exception as error:
        return f"a {type(value).__name__}, of which repr raises {type(error).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}... ({len(text):,} characters)"


def shortened(text: str) -> str:
    """Return the text, or its first part and how much was left out."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({len(text) - LONGEST_TEXT:,} characters more)"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one check. `calls` is the shortest program that was found and that fails."""

    check: str
    status: Status
    text: str = ""
    calls: tuple[Call, ...] = ()
    #: When the judge looked: at every call, or only at the end.
    look: str = "always"
    #: How often the check was tried: lives of clusters.
    lives: int = 0
    seconds: float = 0.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be tried, and how long."""

    #: `package.module:PLUGIN`, `file.py:PLUGIN`, or the name of an installed algorithm.
    plugin: str
    #: None: those of the world.
    settings: dict[str, object] | None = None
    #: The text of a settings file, in place of `settings`: read by the plug-in's `parse`, or as YAML.
    settings_text: str | None = None
    #: Where the settings are from, for messages.
    settings_name: str = "settings"
    world: str = ""
    #: Names of checks; empty: all.
    only: tuple[str, ...] = ()
    #: Names of checks: once one of them has failed, no more lives are lived.
    until: tuple[str, ...] = ()
    #: Optional methods that the algorithm has, as its author says; None: the author does not say.
    abilities: tuple[str, ...] | None = None
    #: Lives of clusters, the most steps of one, and the most CPU seconds for everything.
    lives: int = 100
    steps: int = 40
    seconds: float = 60.0
    seed: int = 0
    #: The most seconds of one call.
    limit: float = 10.0
    #: The most memory of the process, in MiB.
    memory: int = 2048
    #: Times what `packing` takes: more is a warning, or a failure.
    warn_ratio: float = 50.0
    fail_ratio: float = 500.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one algorithm, in the order of the catalogue."""

    plugin: str
    contract: int
    results: tuple[Result, ...] = ()
    #: Why nothing could be tried; "" if it could.
    unusable: str = ""
    #: The optional methods that the algorithm has.
    abilities: tuple[str, ...] = ()
    lives: int = 0
    seconds: float = 0.0
    #: What the algorithm was tried with.
    settings: dict[str, object] = {}
    world: str = ""

    @property
    def conforms(self) -> bool:
        return not self.unusable and not any(result.status in BAD for result in self.results)
