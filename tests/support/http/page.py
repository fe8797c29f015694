"""The web page of a runtime, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from extender.server.runtime import Runtime
from extender.settings import AlgorithmSettings, ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.http.browser import Browser


@contextmanager
def on_port(runtime: Runtime, algorithm: str, port: int = 0) -> Iterator[str]:
    """The URL of a server for this runtime while it is up."""
    settings = Settings(server=ServerSettings(port=port), algorithm=AlgorithmSettings(name=algorithm))
    with serve_in_thread(create_app(runtime, settings), settings) as server:
        yield server.url


def show(browser: Browser, url: str, query: str = "") -> None:
    """Open the page in light colours, and wait until it shows the cluster."""
    browser.dark(False)
    browser.open(f"{url}/ui{query}")
    on_map = "view=" not in query
    browser.wait(f"waggle.stats().looks > 0 && ({str(not on_map).lower()} || waggle.stats().frames > 0)")
