"""What the stand-in reads of a KubeSchedulerConfiguration, and what the real one refuses at start.

The `extenders` part is decoded strictly: an unknown key is an error. Of the rest only what the stand-in honours is
kept; keys that the real one knows and the stand-in has no use for are accepted and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from algorithm.registry import explain

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER = "default-scheduler"

_IGNORED_KEYS = {
    "clientConnection",
    "delayCacheUntilActive",
    "enableContentionProfiling",
    "enableProfiling",
    "leaderElection",
    "parallelism",
}
_IGNORED_PROFILE_KEYS = {"plugins", "pluginConfig"}
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
#: A qualified name with a domain, as the real one checks it: example.com/gpu.
_DOMAIN_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_LONGEST_DOMAIN, _LONGEST_QUALIFIED = 253, 63
#: The quota of a resource is named after it.
_QUOTA_PREFIX = "requests."
#: As the real one decodes: "true" in quotes is no flag, "5" no number.
_Flag = Annotated[bool, Strict()]
_Int = Annotated[int, Strict()]
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the field and what was expected."""


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


class ManagedResource(_Section):
    """A resource that the extender looks after. Pods that name it are the extender's."""

    name: str
    #: kube-scheduler's own resource check leaves this resource out.
    ignored_by_scheduler: _Flag = False

    @field_validator("name")
    @classmethod
    def _extended(cls, name: str) -> str:
        domain, _, rest = name.partition("/")
        if not _is_qualified(domain, rest) or f".{domain}".endswith(".kubernetes.io"):
            raise ValueError(f"{name!r} is not an extended resource name like example.com/gpu")
        if name.startswith(_QUOTA_PREFIX):
            raise ValueError(f"{name!r} is not an extended resource name: it must not begin with {_QUOTA_PREFIX}")
        return name


def _is_qualified(domain: str, name: str) -> bool:
    return (
        len(_QUOTA_PREFIX + domain) <= _LONGEST_DOMAIN
        and len(name) <= _LONGEST_QUALIFIED
        and all(_DOMAIN_LABEL.fullmatch(label) for label in domain.split("."))
        and _QUALIFIED.fullmatch(name) is not None
    )


class TlsConfig(_Section):
    """How an https extender is verified, and how kube-scheduler proves itself to it."""

    insecure: _Flag = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""

    @model_validator(mode="after")
    def _one_way(self) -> TlsConfig:
        if self.insecure and self.ca_file:
            raise ValueError("insecure together with caFile is refused")
        return self


class ExtenderConfig(_Section):
    """One entry of `extenders`. A verb that is empty is not called."""

    url_prefix: str = Field(alias="urlPrefix")
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    #: Factor of the extender's scores.
    weight: _Int = 0
    bind_verb: str = ""
    #: Does not choose the scheme: without a CA it only means "do not verify".
    enable_https: _Flag = Field(False, alias="enableHTTPS")
    tls_config: TlsConfig | None = None
    #: Seconds; in the file a Go duration such as "5s". 0 or absent is 5 s.
    http_timeout: float = Field(5.0, alias="httpTimeout")
    node_cache_capable: _Flag = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: _Flag = False

    @field_validator("http_timeout", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError('must be a duration in quotes such as "5s", not a number')  # noqa: TRY004
        return go_duration(value) or 5.0

    @model_validator(mode="after")
    def _positive_weight(self) -> ExtenderConfig:
        if self.prioritize_verb and self.weight <= 0:
            raise ValueError("weight must be positive when prioritizeVerb is set")
        return self

    @property
    def url(self) -> str:
        """The prefix as calls begin with it."""
        return self.url_prefix.rstrip("/")

    @property
    def manages(self) -> frozenset[str]:
        return frozenset(resource.name for resource in self.managed_resources)


class Profile(_Section):
    """Pods of one schedulerName. All profiles share one queue, one loop and all extenders."""

    scheduler_name: str = Field(DEFAULT_SCHEDULER, min_length=1)
    #: None: the configuration's own.
    percentage_of_nodes_to_score: _Int | None = Field(None, ge=0, le=100)


class SchedulerConfig(_Section):
    """The whole configuration of the stand-in."""

    profiles: tuple[Profile, ...] = (Profile(),)
    #: 0 is adaptive: 50 - nodes/125 percent, at least 5.
    percentage_of_nodes_to_score: _Int = Field(0, ge=0, le=100)
    #: Seconds.
    pod_initial_backoff_seconds: _Int = Field(1, gt=0)
    #: Seconds.
    pod_max_backoff_seconds: _Int = Field(10, gt=0)
    extenders: tuple[ExtenderConfig, ...] = ()
    #: Of the random choice between nodes with equal scores. The real one has no such field.
    seed: int = 0

    @model_validator(mode="after")
    def _consistent(self) -> SchedulerConfig:
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            raise ValueError("podMaxBackoffSeconds must not be less than podInitialBackoffSeconds")
        if sum(bool(extender.bind_verb) for extender in self.extenders) > 1:
            raise ValueError("extenders: only one extender may have a bindVerb")
        names = [resource.name for extender in self.extenders for resource in extender.managed_resources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"extenders: managedResources names {', '.join(twice)} twice")
        schedulers = [profile.scheduler_name for profile in self.profiles]
        if not schedulers or len(set(schedulers)) != len(schedulers):
            raise ValueError("profiles: each needs its own schedulerName, and there must be one")
        return self

    @property
    def scheduler_names(self) -> frozenset[str]:
        return frozenset(profile.scheduler_name for profile in self.profiles)

    @property
    def called_extenders(self) -> tuple[ExtenderConfig, ...]:
        """In the order in which they are called: ignorable ones behind all others."""
        return tuple(sorted(self.extenders, key=lambda extender: extender.ignorable))

    @property
    def ignored_resources(self) -> frozenset[str]:
        """Resources that the in-tree check leaves to an extender."""
        return frozenset(r.name for e in self.extenders for r in e.managed_resources if r.ignored_by_scheduler)

    def percentage(self, scheduler_name: str) -> int:
        """percentageOfNodesToScore that holds for pods of this scheduler; 0 is adaptive."""
        for profile in self.profiles:
            if profile.scheduler_name == scheduler_name and profile.percentage_of_nodes_to_score is not None:
                return profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score


def from_kube_scheduler_configuration(document: Any, *, seed: int = 0) -> SchedulerConfig:
    """The configuration in a decoded KubeSchedulerConfiguration v1. Raises ConfigError, naming each field at fault."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"expected a {KIND}, got {type(document).__name__}")
    if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
        raise ConfigError(f"apiVersion and kind must be {API_VERSION} and {KIND}")
    kept = {k: v for k, v in document.items() if k not in _IGNORED_KEYS | {"apiVersion", "kind"} and v is not None}
    if "seed" in kept:
        raise ConfigError("seed: unknown field")
    if isinstance(kept.get("profiles"), list):
        kept["profiles"] = [_supported_profile(profile) for profile in kept["profiles"]]
    try:
        return SchedulerConfig.model_validate({**kept, "seed": seed})
    except ValidationError as error:
        raise ConfigError(explain(error)) from error


def _supported_profile(profile: Any) -> Any:
    if not isinstance(profile, Mapping):
        return profile
    return {key: value for key, value in profile.items() if key not in _IGNORED_PROFILE_KEYS}


def go_duration(text: str) -> float:
    """A Go duration ("1m30s", "250ms") in seconds. Raises ValueError."""
    if text == "0":
        return 0.0
    parts = list(_DURATION_PART.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        raise ValueError(f'{text!r} is not a duration such as "5s" or "250ms"')
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts)
