"""The configurations of the Waggle that runs in a cluster: what its Deployments mount, as the shipped manifests do.

Waggle's own is the `waggle.yaml` of a ConfigMap whose `extender` is not switched off, with the algorithm's own file in
it. kube-scheduler's is the KubeSchedulerConfiguration of a second scheduler beside it; that of the control plane's own
kube-scheduler is a file on its machine, which the API server does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from algorithm.registry import AlgorithmError
from extender.kube.client import bounds
from extender.kube.client.api import ApiServer
from extender.operate.document import Section
from extender.plan.run.configuration import inlined
from extender.settings import Settings, SettingsError, merged_settings, parse

_DEPLOYMENTS = "/apis/apps/v1/deployments"
_SELECTOR = "app.kubernetes.io/part-of=waggle"
_MOST = 50
_FILE = "waggle.yaml"
_SCHEDULER = "kubescheduler.config.k8s.io/"


@dataclass
class Installed:
    """The texts of the configurations, "" for those that were not found, and what has to be said about that."""

    configuration: str = ""
    scheduler: str = ""
    #: "NAMESPACE/NAME" of the ConfigMap with Waggle's own.
    source: str = ""
    problem: str = ""

    @property
    def warning(self) -> str:
        """For people; "" if Waggle's configuration was found."""
        if self.configuration:
            return ""
        why = self.problem or "no Deployment of the cluster is Waggle's"
        return f"Waggle's default configuration is used, since {why}; name its own with --config"


class _UnreadableError(Exception):
    """An answer of the API server; the message is for people."""


def installed_configuration(api: ApiServer) -> Installed:
    """Return the configurations of the Waggle in the cluster. Raises ApiError if the API server does not answer."""
    found = Installed()
    try:
        for namespace, name in _mounted(api):
            if found.configuration and found.scheduler:
                break
            _take(found, f"{namespace}/{name}", _config_map(api, namespace, name))
    except _UnreadableError as error:
        found.problem = str(error)
    return found


def _mounted(api: ApiServer) -> Iterator[tuple[str, str]]:
    """The ConfigMaps that Waggle's Deployments mount."""
    listed = _get(api, _DEPLOYMENTS, labelSelector=_SELECTOR, limit=str(_MOST))
    for deployment in listed.items("items"):
        namespace = deployment.section("metadata").text("namespace")
        spec = deployment.section("spec").section("template").section("spec")
        names = [volume.section("configMap").text("name") for volume in spec.items("volumes")]
        yield from ((namespace, name) for name in names if namespace and name)


def _config_map(api: ApiServer, namespace: str, name: str) -> dict[str, str]:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"
    data = _get(api, path).section("data")
    return {key: text for key, text in data.fields.items() if isinstance(text, str)}


def _get(api: ApiServer, path: str, **query: str) -> Section:
    response = api.request("GET", path, query=query, most=bounds.PAGE)
    if not response.ok:
        raise _UnreadableError(f"its own may not be read (GET {path}: {response.status} {response.message})")
    try:
        return Section(msgspec.json.decode(response.body, type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _UnreadableError(f"its own cannot be read (GET {path}: {error})") from error


def _take(found: Installed, source: str, data: dict[str, str]) -> None:
    scheduler = next((text for text in data.values() if _SCHEDULER in text), "")
    found.scheduler = found.scheduler or scheduler
    if _FILE not in data or found.configuration:
        return
    try:
        settings = parse(data[_FILE], Path(_FILE))
        if settings.extender.enabled:
            found.configuration, found.source = _whole(settings, data), source
    except (SettingsError, AlgorithmError) as error:
        found.problem = f"that in ConfigMap {source} cannot be used: {error}"


def _whole(settings: Settings, data: dict[str, str]) -> str:
    """The configuration with the algorithm's own file in it, which is mounted beside it."""
    own = settings.algorithm.settings_file
    if own is None:
        return data[_FILE]
    name = own.name
    if name not in data:
        raise SettingsError(f"algorithm.settings_file: {own} is not in the same ConfigMap")
    return inlined(data[_FILE], merged_settings(settings.algorithm, data[name]))
