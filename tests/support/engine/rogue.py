"""What a plug-in may raise: each kind of exception, and those that cannot even be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


class _Nameless(type):
    def __getattribute__(cls, name: str) -> object:
        if name in ("__name__", "__qualname__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Unnamed(Exception, metaclass=_Nameless):
    """Its class has a name that cannot be read through its metaclass."""


class Text(str):
    """A text that can be neither formatted nor cut."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise RuntimeError("no format")

    def __getitem__(self, key: object) -> str:
        raise RuntimeError("no part")


class Deceptive(BaseException):
    """Its text and its traceback are code of the plug-in."""

    def __str__(self) -> str:
        return Text("left \ud800")

    @property
    def __traceback__(self) -> None:  # type: ignore[override]
        raise RuntimeError("no traceback")

    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")


class Panic(BaseException):
    """As what a Rust extension raises when it panics."""


#: Exceptions, each with what is said of it.
RAISED = [
    pytest.param(ValueError("left"), "ValueError: left", id="Exception"),
    pytest.param(Panic("left"), "Panic: left", id="BaseException"),
    pytest.param(SystemExit("left"), "SystemExit: left", id="SystemExit"),
    pytest.param(GeneratorExit("left"), "GeneratorExit: left", id="GeneratorExit"),
    pytest.param(StopIteration("left"), "StopIteration: left", id="StopIteration"),
    pytest.param(asyncio.CancelledError("left"), "CancelledError: left", id="CancelledError"),
    pytest.param(Unnamed("left"), "Unnamed: left", id="unnamed"),
    pytest.param(Deceptive(), "Deceptive: left \\ud800", id="deceptive"),
]


def raising(error: BaseException) -> object:
    """Return a method that raises this."""

    def fails(*_: object) -> object:
        raise error

    return fails


def endless() -> Iterator[bytes]:
    """Pieces of a page that has no end."""
    while True:
        yield b"x" * (1 << 20)
