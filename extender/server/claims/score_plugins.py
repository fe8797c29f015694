"""Makes the function that scores pods from the configuration, and logs what goes wrong in it."""

from __future__ import annotations

import math

import structlog
from pydantic import ValidationError

from algorithm.plugins import PluginError, load
from algorithm.registry import explain
from extender.claim_settings import ClaimSettings
from extender.claims.events import ClaimAsked
from extender.claims.records import WarmPod
from extender.claims.scores import API_VERSION, GROUP, LONGEST, Score, ScorePlugin
from extender.core.said import said_by
from extender.settings import SettingsError

log = structlog.get_logger(__name__)

#: Distinct failures that are logged. All are counted.
_MOST_LOGGED = 20


def configured_score(settings: ClaimSettings) -> Score | None:
    """Return the function that `claims.score` names; None if it names none. Raises SettingsError."""
    chosen = settings.score
    if chosen is None:
        return None
    try:
        plugin = load(GROUP, "score", chosen.name, ScorePlugin, API_VERSION)
    except PluginError as error:
        raise SettingsError(f"claims.score.name: {error}") from error
    try:
        checked = plugin.settings.model_validate(chosen.settings)
    except ValidationError as error:
        raise SettingsError(f"claims.score.settings: {explain(error, plugin.settings)}") from error
    try:
        return _logged(chosen.name, plugin.create(checked))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise anything, and call sys.exit()
        raise SettingsError(f"claims.score: score {chosen.name!r} cannot be made: {error!r}") from error


def _logged(name: str, score: Score) -> Score:
    """The same function, which logs each distinct failure once. It still fails: the engine counts that."""
    known: set[str] = set()

    def say(what: str, *, traceback: bool) -> None:
        if what not in known and len(known) < _MOST_LOGGED:
            known.add(what)
            log.error("the score of pods failed; it counts as 0", score=name, failure=what, exc_info=traceback)

    def scored(pod: WarmPod, asked: ClaimAsked) -> float:
        try:
            found = float(score(pod, asked))
        except BaseException as error:
            say(said_by(error, LONGEST), traceback=True)
            raise
        if not math.isfinite(found):
            say(f"expected a finite number, got {found}", traceback=False)
        return found

    return scored
