"""What decides in a plan: the algorithm and the policy of Waggle's settings, and kube-scheduler's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.representer import RepresenterError

from algorithm.interface import SchedulerAlgorithm
from algorithm.reads import Reads
from algorithm.registry import AlgorithmError, create, reads
from extender.embedded.kubescheduler.config import (
    ConfigError,
    ExtenderConfig,
    SchedulerConfig,
    from_kube_scheduler_configuration,
)
from extender.plan.errors import PlanError
from extender.policies import policy_of
from extender.scheduling.policy import Policy
from extender.scheduling.reads import reads_for
from extender.settings import AlgorithmSettings, Settings, SettingsError, algorithm_settings, parse, parse_yaml

_SETTINGS = Path("settings")
#: As `waggle kube-scheduler-config` writes it, without a restriction to certain resources.
DEFAULT_EXTENDER = ExtenderConfig(
    url_prefix="waggle", filter_verb="filter", preempt_verb="preempt", bind_verb="bind", node_cache_capable=True
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What decides. `scheduler` has Waggle as its only extender, or none if the file names none."""

    algorithm_name: str
    algorithm: SchedulerAlgorithm
    policy: Policy
    reads: Reads
    scheduler: SchedulerConfig
    settings: Settings
    warnings: tuple[str, ...] = ()


def configure(settings: str, scheduler: str, *, algorithm: str | None = None, seed: int = 0) -> Configuration:
    """Return what the two files say. `algorithm` replaces that of the settings by another one, with its defaults.

    Raises PlanError, which names the field.
    """
    try:
        parsed = parse(settings, _SETTINGS)
        chosen = parsed.algorithm
        if algorithm is not None and algorithm != chosen.name:
            chosen = AlgorithmSettings(name=algorithm)
        if chosen.settings_file is not None:
            raise PlanError(
                f"settings: algorithm.settings_file: {chosen.settings_file}: a plan reads no files; "
                "expected the algorithm's settings in algorithm.settings"
            )
        read = reads(chosen.name)
        made = create(chosen.name, chosen.settings)
    except (SettingsError, AlgorithmError) as error:
        raise PlanError(str(error)) from error
    # There are no replicas in a plan; and `dependencies.py` holds pods back that wait for others, not the engine.
    policy = replace(policy_of(parsed), claims=read.claims, elected=False, ordering=False)
    config, warnings = _scheduler(scheduler, seed)
    return Configuration(chosen.name, made, policy, reads_for(read, policy), config, parsed, warnings)


def self_contained(text: str, path: Path) -> str:
    """Return settings with those of the algorithm's own file in them, as a plan needs them.

    Raises SettingsError, AlgorithmError.
    """
    settings = parse(text, path)
    if settings.algorithm.settings_file is None:
        return text
    return inlined(text, algorithm_settings(settings.algorithm))


def inlined(text: str, algorithm: Mapping[str, Any]) -> str:
    """Return settings that name a file of the algorithm's own with all of its settings in place of the name."""
    document = parse_yaml(text)
    document["algorithm"].pop("settings_file")
    document["algorithm"]["settings"] = dict(algorithm)
    return as_yaml(document)


class _Dumper(yaml.SafeDumper):
    """Writes texts of every kind: a plug-in's parser may mark texts, as that of `hived` marks what was not quoted."""


_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return settings as YAML. Raises SettingsError for values that YAML cannot express."""
    try:
        return str(yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False))
    except RepresenterError as error:
        value = error.args[-1]
        raise SettingsError(
            f"algorithm.settings: expected texts, numbers, lists and fields, got a {type(value).__name__}"
        ) from error


def _scheduler(text: str, seed: int) -> tuple[SchedulerConfig, tuple[str, ...]]:
    if not text.strip():
        return SchedulerConfig(percentage_of_nodes_to_score=100, extenders=(DEFAULT_EXTENDER,), seed=seed), ()
    try:
        config = from_kube_scheduler_configuration(parse_yaml(text), seed=seed)
    except (ConfigError, ValueError) as error:
        raise PlanError(f"scheduler configuration: {error}") from error
    ours = _ours(config.extenders)
    others = [extender for extender in config.extenders if extender is not ours]
    warnings = tuple(
        f"extender {extender.url} is not Waggle and is not asked: what it would refuse, this plan does not know"
        for extender in others
    )
    return config.model_copy(update={"extenders": () if ours is None else (ours,)}), warnings


def _ours(extenders: tuple[ExtenderConfig, ...]) -> ExtenderConfig | None:
    """Waggle among the extenders: the one that binds, else the first that filters."""
    binding = [extender for extender in extenders if extender.bind_verb]
    filtering = [extender for extender in extenders if extender.filter_verb]
    return next(iter([*binding, *filtering]), None)
