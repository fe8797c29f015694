"""What pytest loads at its start where Waggle is installed: options and a marker. The rest is loaded when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the conformance kit."""
    group = parser.getgroup("conformance", "conformance of Waggle's scheduling algorithms")
    group.addoption(
        "--conformance-lives", type=int, metavar="N", help="Lives of clusters that each algorithm is tried in."
    )
    group.addoption("--conformance-seed", type=int, metavar="N", help="Draw other lives: another number, others.")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker that `@conformance` sets."""
    config.addinivalue_line("markers", "conformance: a promise of a Waggle algorithm (algorithm.conformance)")
