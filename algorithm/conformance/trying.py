"""Everything that is tried of one algorithm in one process, and in which order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from algorithm.conformance.calls import Call
from algorithm.conformance.catalogue import CHECKS, chosen
from algorithm.conformance.guard import CallCut, Guard
from algorithm.conformance.judges import JUDGES
from algorithm.conformance.reference import UnusableError
from algorithm.conformance.results import Request, Result, shortened, shown
from algorithm.conformance.single import SINGLE
from algorithm.conformance.survey import ENDS, Trial, abilities_of, is_applicable, survey, trial_of


def tried(request: Request, guard: Guard, on_call: Callable[[Call | None], None]) -> Iterator[dict[str, Any]]:
    """Yield what came of each check, as messages for the parent. Raises UnusableError."""
    yield {"stage": "it was imported"}
    trial = trial_of(request, guard, on_call)
    yield {"stage": "it was created"}
    try:
        algorithm = guard.call("create", trial.create)
    except Exception as error:
        raise UnusableError(f"the algorithm cannot be made from its settings: {shown(error)}") from error
    except CallCut:
        raise UnusableError(f"the algorithm cannot be made from its settings: it {guard.cut[-1][1]}") from None
    abilities = abilities_of(trial.plugin, algorithm)
    yield {"abilities": list(abilities), "settings": _plain(trial.given), "world": request.world}
    checks = chosen(request.only)
    for check in checks:
        if not is_applicable(check.name, abilities):
            text = (
                f"the algorithm has no `{check.ability}`" if check.ability != "parse" else "the plug-in has no `parse`"
            )
            yield _told(Result(check=check.name, status="not-applicable", text=text))
    names = [check.name for check in checks if is_applicable(check.name, abilities)]
    yield {"stage": "it lived"}
    ended = ""
    for result in _lives(trial, [name for name in names if name in JUDGES]):
        ended = result.check if result.check in ENDS and result.status == "failed" else ended
        yield _told(result)
    for name in names:
        if name in SINGLE and ended:
            yield _told(Result(check=name, status="not-run", text=f"nothing more was tried: see {ended}"))
        elif name in SINGLE:
            yield {"stage": f"it was tried: {name}"}
            begun = time.monotonic()
            result = SINGLE[name](trial, abilities)
            yield _told(_with_seconds(result, time.monotonic() - begun))
    yield {"done": True}


def _lives(trial: Trial, names: list[str]) -> list[Result]:
    return survey(trial, names) if names else []


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON has them, for the test that is printed. A parser may return subclasses of str."""
    return dict(json.loads(json.dumps(dict(settings), default=str)))


def _told(result: Result) -> dict[str, Any]:
    return {"result": msgspec.structs.replace(result, text=shortened(result.text))}


def _with_seconds(result: Result, seconds: float) -> Result:
    return msgspec.structs.replace(result, seconds=seconds)


def all_are_judged() -> list[str]:
    """Names of checks that nobody judges: there should be none."""
    return [check.name for check in CHECKS if check.name not in (*JUDGES, *SINGLE)]
