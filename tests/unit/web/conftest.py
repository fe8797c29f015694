"""A face with settable answers behind it, on a real socket; one server for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.http.fixed_runtime import Client, FixedRuntime


class _Current:
    """Hands everything on to the runtime of the running test: starting a server for each would take the time."""

    def __init__(self) -> None:
        self.runtime = FixedRuntime()

    def __getattr__(self, name: str):
        return getattr(self.runtime, name)


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[_Current, str]]:
    current = _Current()
    settings = Settings(server=ServerSettings(port=0, max_body_mib=1))
    with serve_in_thread(create_app(current, settings), settings) as server:
        yield current, server.url


@pytest.fixture
def runtime(server: tuple[_Current, str]) -> FixedRuntime:
    """The runtime behind the face, fresh for each test."""
    server[0].runtime = FixedRuntime()
    return server[0].runtime


@pytest.fixture
def client(server: tuple[_Current, str], runtime: FixedRuntime) -> Client:
    """A client of the face whose runtime is `runtime`. Bodies may have 1 MiB."""
    return Client(server[1])
