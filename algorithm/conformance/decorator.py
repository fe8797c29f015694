"""`@conformance(PLUGIN)`: makes one test of pytest per check out of a test function or class."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import pytest
from pydantic import BaseModel

from algorithm.conformance.catalogue import CHECKS, chosen, known
from algorithm.conformance.installed import how_to_open
from algorithm.conformance.logs import write_logs
from algorithm.conformance.reference import reference_of
from algorithm.conformance.report import test_of
from algorithm.conformance.results import BAD, Report, Request, Result
from algorithm.conformance.session import opted_out, request_of, run
from algorithm.registry import Plugin

T = TypeVar("T", bound=Callable[..., Any])

#: What the parameter of each test is called; the name of the check is its id.
PARAMETER = "conformance_check"
#: Lives of a test of pytest: a few seconds. `--conformance-lives` asks for more.
LIVES = 25
#: What was tried already, by what was asked for.
_tried: dict[bytes, Report] = {}


def conformance(
    plugin: Plugin[Any] | str,
    settings: Mapping[str, Any] | BaseModel | None = None,
    *,
    world: Any = "",
    skip: Mapping[str, str] | None = None,
    only: Iterable[str] = (),
    abilities: Iterable[str] | None = None,
    lives: int = LIVES,
    seconds: float = 60.0,
    limit: float = 10.0,
    memory: int = 2048,
    warn_ratio: float = 50.0,
    fail_ratio: float = 500.0,
) -> Callable[[T], T]:
    """Make one test per check: does the algorithm of this plug-in keep the contract?

    `plugin` is a Plugin that has a name in a module, or its reference `package.module:PLUGIN`; `world` is a Worlds or
    its reference, by default that of the plug-in. `skip` opts out of checks: the name of each, with the reason. An
    opted-out check that passes fails its test. `only` names the checks that are tests. `abilities` are the optional
    methods that the algorithm has, if that is to be checked. `lives` bounds how many lives of clusters are lived,
    `seconds` how long all of it may take, `limit` how long one call may take, `memory` how many MiB the process may
    have. A decision that takes more than
    `fail_ratio` times as long as of `packing` fails.

    The function's body runs before each check; it is mostly empty. A class gets a method `test_contract`.

    Raises UnknownCheckError for an unknown name, ValueError for a reason without text.
    """
    if skip is not None and not isinstance(skip, Mapping):  # a list has no reasons
        raise ValueError(f"skip: expected {{check: reason}}, got {type(skip).__name__}")
    skipped = dict(skip or {})
    known(skipped)
    for name, why in skipped.items():
        if not isinstance(why, str) or not why.strip():
            raise ValueError(f"skip: {name} needs a reason, as a text")
    names = [check.name for check in chosen(only)] if only else [check.name for check in CHECKS]
    caller = sys._getframe(1).f_globals
    request = request_of(
        plugin=_reference(plugin, caller),
        settings=_plain(settings),
        world=_world_reference(world, plugin, caller),
        only=tuple(names),
        abilities=None if abilities is None else tuple(sorted(abilities)),
        lives=lives,
        seconds=seconds,
        limit=limit,
        memory=memory,
        warn_ratio=warn_ratio,
        fail_ratio=fail_ratio,
    )

    def decorate(tested: T) -> T:
        if inspect.isclass(tested):
            method = _one_test_per_check(_nothing, request, skipped, names)
            method.__name__ = method.__qualname__ = "test_contract"
            tested.test_contract = method  # type: ignore[attr-defined]
            return tested
        return _one_test_per_check(tested, request, skipped, names)  # type: ignore[return-value]

    return decorate


def _plain(settings: Mapping[str, Any] | BaseModel | None) -> dict[str, Any] | None:
    """The settings as JSON has them, for another process."""
    if isinstance(settings, BaseModel):
        return settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return None if settings is None else dict(settings)


def _nothing(self: Any) -> None:
    """The body of the test of a class."""


def _reference(plugin: Plugin[Any] | str, caller: Mapping[str, Any]) -> str:
    if isinstance(plugin, str):
        return plugin
    return reference_of(plugin, [getattr(plugin.create, "__module__", ""), plugin.settings.__module__], caller)


def _world_reference(world: Any, plugin: Plugin[Any] | str, caller: Mapping[str, Any]) -> str:
    if isinstance(world, str):
        return world
    modules = [getattr(world.make, "__module__", "")]
    return reference_of(world, modules, caller)


def _one_test_per_check(
    tested: Callable[..., Any], request: Request, skip: dict[str, str], names: list[str]
) -> Callable[..., Any]:
    signature = inspect.signature(tested)

    @functools.wraps(tested)
    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        name, config, items = kwargs.pop(PARAMETER), kwargs.pop("pytestconfig"), kwargs.pop("request").session.items
        tested(*args, **kwargs)
        selected = {
            item.callspec.params[PARAMETER]
            for item in items
            if getattr(getattr(item, "function", None), "conformance_request", None) is request
        }
        report = opted_out(_report(request, selected or {name}, config), skip)
        _judge(report, name, config)

    more = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in (PARAMETER, "pytestconfig", "request")]
    given = [each for each in signature.parameters.values() if each.name not in {PARAMETER, "pytestconfig", "request"}]
    test.__signature__ = signature.replace(parameters=[*given, *more])  # type: ignore[attr-defined]
    test.conformance_request = request  # type: ignore[attr-defined]
    marked: Callable[..., Any] = pytest.mark.conformance(pytest.mark.parametrize(PARAMETER, names, ids=names)(test))
    return marked


def _report(request: Request, selected: set[str], config: Any) -> Report:
    """What came of all selected checks: they are tried together, when the first of them is asked for."""
    lives = config.getoption("conformance_lives", None) or request.lives
    seed = config.getoption("conformance_seed", None) or 0
    only = tuple(sorted(selected))
    asked = msgspec.structs.replace(request, only=only, lives=lives, seed=seed)
    key = msgspec.json.encode(asked)
    if key not in _tried:
        _tried[key] = run(asked)
    return _tried[key]


def _judge(report: Report, name: str, config: pytest.Config) -> None:
    __tracebackhide__ = True
    if report.unusable:
        pytest.fail(f"{report.plugin}: {report.unusable}", pytrace=False)
    result = next((each for each in report.results if each.check == name), None)
    if result is None:
        pytest.fail(f"{name} was not tried", pytrace=False)
    if result.status == "not-applicable":
        pytest.skip(result.text)
    if result.status == "excused":
        pytest.xfail(result.text)
    if result.status in BAD:
        pytest.fail(_said(report, result, config), pytrace=False)


def _said(report: Report, result: Result, config: pytest.Config) -> str:
    from algorithm.conformance.catalogue import BY_NAME

    text = f"{result.check}: {BY_NAME[result.check].promise}\n\n{result.text}\n"
    test = test_of(report, result)
    if not test:
        return text
    return f"{text}\nThis test fails by itself:\n\n{test}\n{_log_of(report, result, config)}"


def _log_of(report: Report, result: Result, config: pytest.Config) -> str:
    """Where the failure stands as a log; "" where no log can be written."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return ""
    try:
        folder = cache.mkdir("waggle-conformance") / re.sub(r"[^A-Za-z0-9_.-]+", "-", report.plugin)[-80:]
        written = {each.check: path for each, path in write_logs(folder, report)}
    except OSError as error:
        return f"(no log was written: {error})\n"
    path = written.get(result.check)
    return f"As a log: {how_to_open(path, report.plugin)}\n" if path is not None else ""
