"""Rules about the file as a whole: is it what kube-scheduler reads, and does kube-scheduler read all of it?"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from algorithm.registry import in_plain_words
from extender.embedded.kubescheduler.config import (
    API_VERSION,
    KIND,
    ConfigError,
    ExtenderConfig,
    ManagedResource,
    TlsConfig,
    from_kube_scheduler_configuration,
)
from extender.operate.document import At, Section
from extender.operate.rules import Severity, rule

_GROUP = "kubescheduler.config.k8s.io/"
_HEAD = f"apiVersion: {API_VERSION}, kind: {KIND}"


@rule(
    "WL101",
    "removed-api-version",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: v1beta1 was removed in 1.23, v1beta2 in 1.28, v1beta3 in 1.29.",
    mend=f"Write apiVersion: {API_VERSION} (since 1.25); the fields of extenders are the same.",
)
def removed_api_version(config: Section) -> Iterator[At]:
    version = config.text("apiVersion")
    if version.startswith(_GROUP) and version != API_VERSION:
        yield config.at("apiVersion")


@rule(
    "WL102",
    "policy-file",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: the Policy file was removed in 1.23. Nothing else in it is looked at.",
    mend="Begin anew with `waggle kube-scheduler-config`. httpTimeout was nanoseconds there and is a text now.",
)
def policy_file(config: Section) -> Iterator[At]:
    if config.text("kind") == "Policy":
        yield config.at("kind")


@rule(
    "WL103",
    "another-kind",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: this is not its configuration.",
    mend=f"Begin the file with {_HEAD}. For Waggle's own configuration there is `waggle lint pool`.",
)
def another_kind(config: Section) -> Iterator[At]:
    if config.text("kind") not in (KIND, "Policy"):
        yield config.at("kind", f"expected {KIND}")
    elif not config.text("apiVersion").startswith(_GROUP) and config.text("kind") == KIND:
        yield config.at("apiVersion", f"expected {API_VERSION}")


# -- fields that do not exist -------------------------------------------------------------------------------------


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    return {str(field.alias): None for field in model.model_fields.values()}


def _names(text: str) -> dict[str, Any]:
    return dict.fromkeys(text.split())


_PLUGIN_SET = {"enabled": [_names("name weight")], "disabled": [_names("name weight")]}
_POINTS = _names(
    "preEnqueue queueSort preFilter filter postFilter preScore score reserve permit preBind bind postBind multiPoint "
    "placementGenerate placementScore"
)
_PROFILE = _names("schedulerName percentageOfNodesToScore") | {
    "plugins": dict.fromkeys(_POINTS, _PLUGIN_SET),
    "pluginConfig": [_names("name args")],
}
_EXTENDER = _keys(ExtenderConfig) | {
    "tlsConfig": _keys(TlsConfig) | _names("caData certData keyData"),
    "managedResources": [_keys(ManagedResource)],
}
#: The fields of a KubeSchedulerConfiguration v1: None is a plain value, a list with one entry describes its items.
_SCHEMA: Mapping[str, Any] = _names(
    "apiVersion kind parallelism enableProfiling enableContentionProfiling delayCacheUntilActive "
    "percentageOfNodesToScore podInitialBackoffSeconds podMaxBackoffSeconds"
) | {
    "leaderElection": _names(
        "leaderElect leaseDuration renewDeadline retryPeriod resourceLock resourceName resourceNamespace"
    ),
    "clientConnection": _names("kubeconfig acceptContentTypes contentType qps burst"),
    "profiles": [_PROFILE],
    "extenders": [_EXTENDER],
}


@rule(
    "WL104",
    "unknown-field",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: it decodes this file strictly, case included.",
    mend="Correct the name or take the field away.",
)
def unknown_field(config: Section) -> Iterator[At]:
    yield from _unknown(config, _SCHEMA)


def _unknown(section: Section, schema: Mapping[str, Any]) -> Iterator[At]:
    for key in section.fields:
        if key not in schema:
            yield section.at(str(key), _suggestion(str(key), schema))
        elif isinstance(schema[key], list):
            for item in section.items(key):
                yield from _unknown(item, schema[key][0])
        elif schema[key] is not None:
            yield from _unknown(section.section(key), schema[key])


def _suggestion(key: str, schema: Mapping[str, Any]) -> str:
    by_lower = {name.lower(): name for name in schema}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]}?" if near else "there is no such field here"


# -- values that cannot be ----------------------------------------------------------------------------------------


@rule(
    "WL105",
    "refused-value",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: it checks types and ranges of what it reads.",
    mend="Write what is expected there. A duration is a text (10s), a flag is true or false without quotes.",
)
def refused_value(config: Section) -> Iterator[At]:
    """What the checks of the kube-scheduler stand-in say, as far as no other rule says it better."""
    try:
        from_kube_scheduler_configuration({**config.fields, "apiVersion": API_VERSION, "kind": KIND})
    except ConfigError as error:
        cause = error.__cause__
        found = cause.errors(include_url=False) if isinstance(cause, ValidationError) else []
        yield from (At(item["loc"], in_plain_words(item)) for item in found if item["type"] != "extra_forbidden")


@rule(
    "WL106",
    "second-document",
    Severity.WARNING,
    happens="kube-scheduler reads the first document of the file and silently leaves out whatever follows a `---`.",
    mend="Put everything into one document.",
)
def second_document(_config: Section) -> Iterator[At]:
    """Nothing in the first document tells; `lint` itself finds it."""
    return iter(())


@rule(
    "WL107",
    "no-extender",
    Severity.WARNING,
    happens="Waggle is never called: kube-scheduler schedules every pod by itself.",
    mend="Add the extenders part that `waggle kube-scheduler-config` writes.",
)
def no_extender(config: Section) -> Iterator[At]:
    if config.text("kind") == KIND and not config.items("extenders"):
        yield config.at("extenders")
