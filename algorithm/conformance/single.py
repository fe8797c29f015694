"""Checks that need no life of a cluster: the plug-in's declarations, its settings, other processes, and the time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from algorithm.conformance.catalogue import ABILITIES
from algorithm.conformance.guard import CallCut
from algorithm.conformance.harness import ContractBroken
from algorithm.conformance.hashseeds import hash_seeds_decide_alike
from algorithm.conformance.independence import lives_are_independent
from algorithm.conformance.judge import promise
from algorithm.conformance.results import Result, shown
from algorithm.conformance.survey import Trial
from algorithm.conformance.timing import decides_in_time
from algorithm.reads import LONGEST_WISH
from algorithm.registry import explain
from algorithm.suggest import near

_ANNOTATION = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
#: The longest name of an annotation: a domain, a slash and a name.
_LONGEST_KEY = 317
#: A setting that no model has.
_NO_SETTING = "noSuchSetting"
#: What somebody may have written in a settings file.
ODD_FILES = (
    "",
    "a: [",
    "{",
    "\x00",
    "- 1\n- 2\n",
    "a: *x",
    "a: &a [*a]",
    "!!python/object:os.system {}",
    "\u00e9: 1",
    "1e400",
)

Abilities = Iterable[str]


def _plugin_well_formed(trial: Trial, abilities: Abilities) -> Result:
    plugin = trial.plugin
    named = {
        "annotations": plugin.annotations or (),
        "decisions": plugin.decisions,
        "claims": plugin.claims,
        "lengths": plugin.lengths,
        "gang_texts": plugin.gang_texts,
        "node_annotations": plugin.node_annotations or (),
    }
    for field, names in named.items():
        promise(not isinstance(names, str), f"{field} is the text {names!r}, not a collection of names")
        for name in names:
            good = isinstance(name, str) and len(name) <= _LONGEST_KEY and _ANNOTATION.fullmatch(name)
            promise(bool(good), f"{field} has {name!r}, which cannot be the name of an annotation")
    strange = sorted(set(plugin.lengths) - set(plugin.annotations or ()))
    promise(not strange, f"lengths has {', '.join(strange)}, which is not among annotations")
    for name, length in plugin.lengths.items():
        promise(0 < length <= LONGEST_WISH, f"lengths: {name} has {length}, not 1 to {LONGEST_WISH}")
    for field in ("claims", "gang_texts"):
        strange = sorted(set(named[field]) - set(plugin.decisions))
        promise(not strange, f"{field} has {', '.join(strange)}, which is not among decisions")
    both = sorted(set(plugin.annotations or ()) & set(plugin.decisions))
    promise(
        not both, f"{', '.join(both)} is among annotations and among decisions; a waiting pod's author writes the first"
    )
    return Result(check="plugin-well-formed", status="passed")


def _abilities_as_declared(trial: Trial, abilities: Abilities) -> Result:
    has, declared = set(abilities), trial.request.abilities
    if declared is None:
        return Result(check="abilities-as-declared", status="passed", text=f"it has {', '.join(sorted(has)) or 'none'}")
    for name in declared:
        promise(name in ABILITIES, f"there is no ability {name!r}{near(name, ABILITIES)}")
    absent, silent = sorted(set(declared) - has), sorted(has - set(declared))
    promise(not absent, f"declared, but absent: {', '.join(absent)}")
    promise(not silent, f"absent from the declaration, but there: {', '.join(silent)}")
    return Result(check="abilities-as-declared", status="passed")


def _settings_accepted(trial: Trial, abilities: Abilities) -> Result:
    model = trial.plugin.settings
    again = trial.settings.model_dump(by_alias=True, exclude_unset=True)
    try:
        checked = model.model_validate(again)
    except Exception as error:
        promise(False, f"settings that were accepted are refused when they are read again: {shown(error)}")
    defaults = {
        name: field.get_default(call_default_factory=True, validated_data={})
        for name, field in model.model_fields.items()
        if not field.is_required() and name not in trial.settings.model_fields_set
    }
    try:
        model.model_validate({**again, **{_key(model, name): value for name, value in defaults.items()}})
    except ValidationError as error:
        promise(False, f"a default is no valid setting: {explain(error, model)}")
    try:
        trial.guard.call("create", trial.plugin.create, checked)
    except Exception as error:
        promise(False, f"a second algorithm cannot be made from the same settings: {shown(error)}")
    return Result(check="settings-accepted", status="passed")


def _key(model: Any, name: str) -> str:
    """The name of a field in a settings file."""
    field = model.model_fields[name]
    return str(field.validation_alias if isinstance(field.validation_alias, str) else field.alias or name)


def _settings_errors_name_fields(trial: Trial, abilities: Abilities) -> Result:
    model = trial.plugin.settings
    given = trial.settings.model_dump(by_alias=True, exclude_unset=True)
    said = _said(model, {**given, _NO_SETTING: 1})
    promise(said is not None, f"an unknown setting {_NO_SETTING!r} is accepted, so a misspelt one would be, too")
    promise(_NO_SETTING in (said or ""), f"the error about an unknown setting {_NO_SETTING!r} does not name it: {said}")
    for name in model.model_fields:
        key = _key(model, name)
        said = _said(model, {**given, key: {"unexpected": [object]}})
        named = said is None or key in said or name in said
        promise(named, f"the error about a wrong {key!r} does not name it: {said}")
    return Result(check="settings-errors-name-fields", status="passed")


def _said(model: Any, settings: dict[str, Any]) -> str | None:
    """What is said of wrong settings; None if they are accepted."""
    try:
        model.model_validate(settings)
    except ValidationError as error:
        return explain(error, model)
    except Exception as error:
        promise(False, f"the settings' model raised {shown(error)}, not ValidationError")
    return None


def _settings_file_parsed(trial: Trial, abilities: Abilities) -> Result:
    parse = trial.plugin.parse
    assert parse is not None
    for text in ODD_FILES:
        try:
            trial.guard.call("parse", parse, text)
        except ValueError:
            continue
        except Exception as error:
            promise(False, f"parse({text!r}) raised {shown(error)}, not ValueError")
    return Result(check="settings-file-parsed", status="passed")


def _failing(name: str, check: Callable[[Trial, Abilities], Result]) -> Callable[[Trial, Abilities], Result]:
    def run(trial: Trial, abilities: Abilities) -> Result:
        try:
            return check(trial, abilities)
        except ContractBroken as broken:
            return Result(check=name, status="failed", text=str(broken))
        except CallCut:
            method, what = trial.guard.cut[-1]
            return Result(check=name, status="failed", text=f"{method} {what}")
        except Exception as error:
            return Result(check=name, status="failed", text=f"it could not be tried: {shown(error)}")

    return run


SINGLE: dict[str, Callable[[Trial, Abilities], Result]] = {
    name: _failing(name, check)
    for name, check in {
        "plugin-well-formed": _plugin_well_formed,
        "abilities-as-declared": _abilities_as_declared,
        "settings-accepted": _settings_accepted,
        "settings-errors-name-fields": _settings_errors_name_fields,
        "settings-file-parsed": _settings_file_parsed,
        "hash-seeds-decide-alike": hash_seeds_decide_alike,
        "lives-are-independent": lives_are_independent,
        "decides-in-time": decides_in_time,
    }.items()
}
