"""Whatever its values hold, an event is one line, of bounded size, that does nothing to a terminal."""

from __future__ import annotations

import io
import json
import logging
import ssl
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from extender.logs import setup as logs
from extender.logs.limits import LINES, TRACEBACKS, LineLimiter
from extender.logs.setup import ELEMENTS, LINE, TRACEBACK, VALUE
from extender.settings import LogSettings

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e\u2028\r\n2026-01-01T00:00:00Z [info     ] all is well"


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., io.StringIO]]:
    root, hook, ignored = logging.getLogger(), threading.excepthook, sys.unraisablehook
    handlers, level = root.handlers[:], root.level
    limiter = LineLimiter(now=lambda: 0.0, said_after=3600)
    monkeypatch.setattr(logs, "_limiter", limiter)

    def configure(form: str = "json", out: io.StringIO | None = None) -> io.StringIO:
        out = out or io.StringIO()
        logs.configure(LogSettings(format=form), out)
        return out

    yield configure
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    threading.excepthook = hook
    sys.unraisablehook = ignored


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def log() -> Any:
    return structlog.get_logger()


def fail(text: str = "boom", depth: int = 0) -> None:
    if depth:
        fail(text, depth - 1)
    raise RuntimeError(text)


def log_failure(**how: Any) -> None:
    try:
        fail(**how)
    except RuntimeError:
        log().exception("fault")


# -- escaping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    "fields",
    [
        {"field": HOSTILE},
        {"field": HOSTILE.encode()},
        {"field": [HOSTILE, {HOSTILE: HOSTILE}]},
        {"field": {HOSTILE: (HOSTILE,)}},
        {"field": ValueError(HOSTILE)},
        {"exc_info": ValueError(HOSTILE)},
    ],
    ids=["text", "bytes", "list", "mapping", "object", "traceback"],
)
def test_no_value_reaches_a_terminal(configured: Callable[..., io.StringIO], form: str, fields: dict[str, Any]) -> None:
    out = configured(form)
    log().warning("bad_request", **fields)
    log().warning(HOSTILE)
    text = out.getvalue().replace("\n", "")
    assert not [each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")]


def test_no_value_passes_for_a_line_of_its_own(configured: Callable[..., io.StringIO]) -> None:
    out = configured("console")
    log().warning("bad_request", field=HOSTILE, error="\n\n[info] forged")
    log_failure(text="\n2026-01-01T00:00:00Z [info     ] all is well\nforged")
    starts = [line for line in out.getvalue().splitlines() if not line.startswith("    ")]
    assert len(starts) == 2


def test_a_value_that_has_no_text_is_named(configured: Callable[..., io.StringIO]) -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError

    out = configured()
    log().info("event", thing=Broken(), things=[Broken()], named={Broken(): 1})
    logging.getLogger("library").warning(Broken())
    first, second = lines(out)
    assert first["thing"] == second["what"] == "(Broken has no text: ValueError)"


def test_an_exception_that_has_no_text_is_named(configured: Callable[..., io.StringIO]) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError

    out = configured()
    for _ in range(TRACEBACKS + 1):
        log().error("fault", exc_info=Broken())
    *_, last = lines(out)
    assert last["error"] == "Broken: (Broken has no text: ValueError)"


def test_numbers_and_truths_stay_what_they_are(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    log().info("event", count=7, share=0.5, yes=True, nothing=None, ends={"server": 1})
    got = lines(out)[0]
    assert (got["count"], got["share"], got["yes"], got["nothing"], got["ends"]) == (7, 0.5, True, None, {"server": 1})


# -- sizes ----------------------------------------------------------------------------------------------------------


def test_a_long_value_is_cut_and_says_so(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    log().warning("bad_request", field="a" * 8_000_000)
    assert lines(out)[0]["field"] == "a" * VALUE + "... (8000000 characters)"


def test_a_long_list_is_cut_and_says_so(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    log().warning("event", objects=["pod"] * 1000, counts={str(n): n for n in range(1000)}, big=10**5000)
    got = lines(out)[0]
    assert got["objects"] == ["pod"] * ELEMENTS + ["... (1000 in all)"]
    assert len(got["counts"]) == ELEMENTS + 1
    assert got["counts"]["..."] == 1000


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize("character", ["a", "é", "\U0001f41d", "\x1b", '"', "\\", "\u202e"])
def test_a_line_has_a_bound_in_bytes(configured: Callable[..., io.StringIO], form: str, character: str) -> None:
    out = configured(form)
    long = character * 10_000
    log().warning(long, **{f"field{n}": long for n in range(10)}, several=[long] * 50, exc_info=ValueError(long))
    assert len(out.getvalue().encode()) <= LINE
    assert form == "console" or len(lines(out)) == 1


def test_a_traceback_is_cut_in_its_middle(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    log_failure(depth=200, text="what went wrong")
    text = lines(out)[0]["exception"]
    assert "Traceback (most recent call last)" in text[:100]
    assert "what went wrong" in text[-100:]
    assert len(text) <= TRACEBACK + 100


def test_a_traceback_of_two_exceptions_shows_both(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    try:
        try:
            fail("first")
        except RuntimeError:
            fail("second")
    except RuntimeError:
        log().exception("fault")
    text = lines(out)[0]["exception"]
    assert "RuntimeError: first" in text
    assert "RuntimeError: second" in text


# -- limits ---------------------------------------------------------------------------------------------------------


def test_a_flood_is_a_few_lines_and_their_count(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    for _ in range(LINES + 5):
        log().warning("bad_request")
    logs.say_suppressed()
    *written, said = lines(out)
    assert len(written) == LINES
    assert (said["event"], said["count"], said["events"]) == ("log lines left out", 5, {"bad_request": 5})
    assert logs.suppressed_lines() == {"bad_request": 5}


def test_a_fault_that_repeats_leaves_few_tracebacks_and_still_says_what_it_was(
    configured: Callable[..., io.StringIO],
) -> None:
    out = configured()
    for _ in range(TRACEBACKS + 1):
        log_failure()
    *written, last = lines(out)
    assert all("exception" in line for line in written)
    assert "exception" not in last
    assert last["error"] == "RuntimeError: boom"


# -- libraries ------------------------------------------------------------------------------------------------------


def test_lines_of_libraries_go_the_same_way(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    logging.getLogger("uvicorn.error").warning("Invalid %s", HOSTILE)
    logging.getLogger("urllib3").warning("%s %s", "too few")  # noqa: PLE1206
    first, second = lines(out)
    assert (first["event"], first["level"]) == ("uvicorn.error", "warning")
    assert first["what"].startswith(r"Invalid \x1b]0;owned\x07")
    assert second["what"] == "%s %s"


def test_a_library_cannot_use_up_the_lines_of_another_message(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    logger = logging.getLogger("uvicorn.error")
    for number in range(1000):
        logger.warning("Invalid request %d", number)
    logger.error("Exception in ASGI application\n", exc_info=ValueError("ours"))
    assert len(lines(out)) == LINES + 1
    assert "ValueError: ours" in lines(out)[-1]["exception"]


def test_asyncio_cannot_use_up_the_budgets_with_addresses_of_objects(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    for number in range(100):
        logging.getLogger("asyncio").error("Fatal error on transport\nprotocol: <object at %x>" % number)  # noqa: UP031
    assert len(lines(out)) == LINES


@pytest.mark.parametrize("error", [ConnectionResetError("peer"), ssl.SSLError(1, "bad record mac"), TimeoutError()])
def test_what_peers_do_to_a_connection_leaves_no_traceback(
    configured: Callable[..., io.StringIO], error: Exception
) -> None:
    out = configured()
    logging.getLogger("asyncio").error("Fatal error on transport", exc_info=error)
    (line,) = lines(out)
    assert "exception" not in line
    assert line["error"].startswith(type(error).__name__)


def test_a_thread_that_fails_is_an_event(configured: Callable[..., io.StringIO]) -> None:
    out = configured()
    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    (line,) = lines(out)
    assert (line["event"], line["thread"]) == ("thread failed", "worker")
    assert "RuntimeError: boom" in line["exception"]


def test_an_exception_that_nobody_can_be_given_is_an_event(configured: Callable[..., io.StringIO]) -> None:
    class Fails:
        def __del__(self) -> None:
            fail(HOSTILE)

    out = configured()
    Fails()
    (line,) = lines(out)
    assert line["event"] == "exception ignored"
    assert r"RuntimeError: \x1b]0;owned" in line["exception"]


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_logging_fails_nothing_where_nothing_can_be_written(configured: Callable[..., io.StringIO]) -> None:
    configured(out=FullDisk())
    log().warning("event")
