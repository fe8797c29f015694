"""The conformance kit finds mistakes that authors make, and blames no right plug-in.

`make test` tries some of them, the slow tests try each, with the one check that has to name it. With all checks, as an
author runs them, a hang or the end of the process hides the others, and what is left is found as well.
"""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

import pytest

from algorithm.conformance.catalogue import BY_NAME, CHECKS
from algorithm.conformance.guard import Guard
from algorithm.conformance.judges import JUDGES, side_effects
from algorithm.conformance.life import Life
from algorithm.conformance.machine import live
from algorithm.conformance.results import Report
from algorithm.conformance.session import request_of, run
from algorithm.conformance.survey import ENDS, trial_of
from tests.conformance.mistakes.registry import MISTAKES, Mistake

FOLDER = Path(__file__).parent / "mistakes"
for _file in sorted(FOLDER.glob("*.py")):
    import_module(f"tests.conformance.mistakes.{_file.stem}")

#: Less than a second of CPU each: the names of those that `make test` tries.
QUICK = ("ForkSharesADict", "EndsTheProcess")
#: Those that the slow tests try with all checks, too.
AMONG_ALL = (
    *QUICK,
    "CountsBeforeItReads",
    "ExplainsWithoutEnd",
    "HivedDeclaresNothing",
)
#: Seconds within which a mistake has to be found.
LIMIT = 60.0
#: Checks that no small mistake breaks but by way of another check.
WITHOUT_MISTAKE = {"abilities-as-declared"}
#: Checks of lives that need no process of their own: it could end, and side effects are noticed by hooks that stay.
IN_LIVES = JUDGES.keys() - ENDS - {judge.name for judge in vars(side_effects).values() if hasattr(judge, "name")}


def tried(mistake: Mistake, only: tuple[str, ...] = (), lives: int = 300) -> Report:
    return run(
        request_of(
            plugin=mistake.reference,
            settings=mistake.settings,
            only=only,
            until=(mistake.check,),
            lives=lives,
            seconds=LIMIT,
            limit=2.0,
        )
    )


def failures(report: Report) -> dict[str, str]:
    assert not report.unusable, report.unusable
    return {result.check: result.text for result in report.results if result.status == "failed"}


def test_there_are_mistakes_of_every_check() -> None:
    assert len(MISTAKES) >= 100
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)
    assert {mistake.check for mistake in MISTAKES} == BY_NAME.keys() - WITHOUT_MISTAKE
    assert {mistake.name for mistake in MISTAKES} >= set(AMONG_ALL)


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.name in QUICK], ids=lambda each: each.name)
def test_a_mistake_is_named(mistake: Mistake) -> None:
    assert mistake.check in failures(tried(mistake, (mistake.check,))), mistake.text


def is_named(mistake: Mistake) -> bool:
    """Whether the check's judge breaks off one of many lives. A rare mistake needs more lives than most.

    The lives are those of `run`, but in this process, and nothing is made shorter: two thirds of its time.
    """
    request = request_of(plugin=mistake.reference, settings=mistake.settings, lives=1000)
    trial = trial_of(request, Guard(2.0))
    found: list[str] = []
    begun = time.process_time()

    def begin() -> Life | None:
        if found or time.process_time() - begun > LIMIT:
            return None
        return trial.life([mistake.check], report=lambda check, _: found.append(check), look="sometimes")

    live(trial.world, begin, lambda _: None, lives=request.lives, steps=request.steps, at=request.seed)
    return found == [mistake.check]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.check in IN_LIVES], ids=lambda each: each.name)
def test_each_mistake_is_named_in_time(mistake: Mistake) -> None:
    assert is_named(mistake), mistake.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake", [each for each in MISTAKES if each.check not in IN_LIVES], ids=lambda each: each.name
)
def test_each_mistake_that_needs_a_process_is_named_in_time(mistake: Mistake) -> None:
    assert mistake.check in failures(tried(mistake, (mistake.check,))), mistake.text


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.name in AMONG_ALL], ids=lambda each: each.name)
def test_a_mistake_is_named_among_all_checks(mistake: Mistake) -> None:
    found = failures(tried(mistake, lives=50))
    assert mistake.check in found, (mistake.text, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "twin", ["tests.conformance.mistakes.everything:PLUGIN", "extender.operate.scaffold.slots:PLUGIN"]
)
def test_a_right_twin_is_not_blamed(twin: str) -> None:
    assert failures(run(request_of(plugin=twin, settings={"slots": 1}, lives=40))) == {}


def test_every_check_has_a_promise() -> None:
    assert all(check.promise.endswith(".") for check in CHECKS)
