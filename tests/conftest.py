"""For all tests: what each of thousands would do again is done once.

Those that were collected are not looked through for garbage again and again, a command line is made once, certificates
of authorities are read once, parts of routes are made once, and servers in this process end at once.
With `--budget SECONDS`, tests that would begin later are skipped, and say so: for a machine that has not time for all.
No example of Hypothesis has a limit of time, which a busy machine would exceed by chance. With `--few-examples`, it
tries a twentieth of the examples; .ci/run tries all of them among the slow tests.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import ssl
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
import uvicorn.server
from typer import testing

from tests.support.http.fast_apps import make_once, module_with

# `CliRunner.invoke` makes the whole command line again for each call: 30 ms, ten times what most commands need.
assert callable(testing._get_command)
testing._get_command = functools.cache(testing._get_command)

# uvicorn looks every 100 ms whether it has to end, and then whether connections have ended: with two servers a third of
# a second for each of hundreds of tests. Processes that tests start have uvicorn as it is.
assert uvicorn.server.asyncio is asyncio
_OFTEN = SimpleNamespace(**{**vars(asyncio), "sleep": lambda seconds: asyncio.sleep(seconds / 10)})
uvicorn.server.asyncio = _OFTEN  # type: ignore[assignment]

# Each client of httpx reads the certificates of all authorities, also for plain HTTP: an eighth of the CPU of tests
# that talk to a server. They are read once for each place that the environment names.
_httpx = module_with("httpx._transports.default", "create_ssl_context")
_make_context = _httpx.create_ssl_context if _httpx is not None else None


@functools.cache
def _context_of(*_places: str | None) -> ssl.SSLContext:
    assert _make_context is not None
    return cast("ssl.SSLContext", _make_context())


def _create_ssl_context(
    verify: ssl.SSLContext | str | bool = True, cert: Any = None, trust_env: bool = True
) -> ssl.SSLContext:
    if (verify, cert, trust_env) == (True, None, True):
        return _context_of(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    assert _make_context is not None
    return cast("ssl.SSLContext", _make_context(verify=verify, cert=cert, trust_env=trust_env))


if _httpx is not None:
    _httpx.create_ssl_context = _create_ssl_context


make_once()

# Where a test configures no log, an exception is written in a frame with colours: thirty milliseconds for each.
for _processor in structlog.get_config()["processors"]:
    if isinstance(_processor, structlog.dev.ConsoleRenderer):
        _processor.exception_formatter = structlog.dev.plain_traceback

# A command that a test runs here configures the log of the process. Loggers must not keep that configuration for the
# tests after it, which look at lines that it leaves out.
_configure_log = structlog.configure


def _configure_log_without_cache(**given: Any) -> None:
    _configure_log(**(given | {"cache_logger_on_first_use": False}))


structlog.configure = _configure_log_without_cache


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    if structlog.is_configured():
        structlog.reset_defaults()


# Tests make much garbage and hold little: Python's own thresholds let it look for that again and again, a tenth of the
# CPU time of all tests. A server that a test starts here sets a threshold of its own; processes have Python's.
_COLLECT_AFTER = (50_000, 50, 50)

# A new configuration lets go of the old one, which had been frozen: here of all tests, too, half a second for each.
gc.unfreeze = lambda: None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without a search for garbage, and leave them out of all later searches.

    Each search takes half a second otherwise, and there is one whenever a test starts a service. It is a tenth of the
    CPU time of all tests, and a quarter of that of the collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.collect()  # a tuple is let go once those that it holds were, and never when it is frozen
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        gc.enable()


_BEGAN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--budget", type=float, metavar="SECONDS", help="skip tests that would begin after so many seconds"
    )
    parser.addoption("--few-examples", action="store_true", help="let Hypothesis try a twentieth of the examples")


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests in this hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = [item for item in items if isinstance(item, pytest.Function) and item.get_closest_marker("hypothesis")]
    if tests:
        from tests.support.examples import take_time, try_fewer

        # Hypothesis runs a state machine in a class; the cases of a parametrized test share its function.
        machines = {item.cls for item in tests if hasattr(item.cls, "settings")}
        for test in machines | {item.function for item in tests if item.cls not in machines}:
            take_time(test)
            if config.getoption("few_examples"):
                try_fewer(test)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    budget = item.config.getoption("budget")
    if budget is not None and time.monotonic() - _BEGAN >= budget:
        pytest.skip("the budget of time is spent (--budget): this machine is too slow for all tests")
