"""The conformance kit tests whether a plug-in keeps the promises of `algorithm.interface`.

    from algorithm.conformance import conformance

    @conformance(PLUGIN, settings={"slots": 2})
    def test_it_keeps_the_contract() -> None: ...

and `waggle conformance PACKAGE:PLUGIN` (docs/conformance.md). `harness.py` drives an algorithm by hand.

    catalogue.py     the checks, by name          results.py     requests, results and reports, as data
    decorator.py     one test per check           pytest_plugin.py    what pytest loads at its start
    session.py       has a plug-in tried in another process      child.py, trying.py    that process
    patience.py      how long that may take    installed.py   the name that a log carries for it
    survey.py        lives of clusters            machine.py, moves.py, worlds/    draw them
    life.py          carries out calls.py         judges/        watch, each for one check
    shrink.py        makes failures shorter       printed.py, replayed.py    prints them as tests
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from algorithm.conformance.decorator import conformance

__all__ = ["conformance"]


def __getattr__(name: str) -> Any:
    """`conformance`, imported when it is first used: pytest imports this package at every start."""
    if name == "conformance":
        from algorithm.conformance.decorator import conformance as found

        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
