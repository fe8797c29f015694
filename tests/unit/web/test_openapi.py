"""What /openapi.json says is written for callers, not for people who work on the handlers."""

from __future__ import annotations

import inspect

from fastapi.routing import APIRoute

from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.parts import Parts
from extender.web.verbs.routes import verb_routes
from tests.support.http.fixed_runtime import FixedRuntime


def test_no_docstring_of_a_handler_is_published() -> None:
    runtime = FixedRuntime()
    paths = create_app(runtime, Settings()).openapi()["paths"]
    routes = verb_routes(Parts.of(runtime, ServerSettings()).verbs).routes
    docstrings = {inspect.getdoc(route.endpoint) for route in routes if isinstance(route, APIRoute)} - {None}
    assert docstrings
    published = {methods[verb].get("description") for methods in paths.values() for verb in methods}
    assert published & docstrings == set()


def test_each_verb_says_what_a_caller_has_to_know() -> None:
    paths = create_app(FixedRuntime(), Settings()).openapi()["paths"]
    told = {path: methods["post"]["description"] for path, methods in paths.items() if "post" in methods}
    for verb in ("filter", "prioritize", "preempt", "bind"):
        assert told[f"/{verb}"] == told[f"/v1/extender/{verb}"]
    assert len(set(told.values())) == 4
