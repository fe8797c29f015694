"""How the server logs: structured lines on standard error, for people (console) or machines (json)."""

from __future__ import annotations

import logging
import sys

import structlog

from extender.settings import LogSettings


def configure(settings: LogSettings) -> None:
    """Sets up structlog for the whole process, and lets the standard library's warnings through."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    machine = settings.format == "json"
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if machine else _keep,
            structlog.processors.JSONRenderer() if machine else _for_people(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def _for_people() -> structlog.dev.ConsoleRenderer:
    """Plain tracebacks: the default ones show local variables, which may be whole pods, or secrets."""
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)


def _keep(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return event
