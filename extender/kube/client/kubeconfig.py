"""Finds the API server and the credentials for it: kubeconfig, in-cluster service account, or a bare URL.

The `kubernetes` package reads configuration and credentials (exec plug-ins, rotating tokens, OIDC); nothing else of it
is used. Its import takes a second, so it is imported only if needed: a bare URL goes without.

    server alone             that URL, no authentication
    kubeconfig or context    that file (else the usual one), that context; `server` overrides the URL
    nothing                  the service account when running in a pod, else the usual kubeconfig
"""

from __future__ import annotations

import os
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import structlog

from extender.kube.client.api import ApiServer
from extender.kube.client.transport import Endpoint, Proxy, Tls
from extender.settings import ClusterSettings

log = structlog.get_logger(__name__)

#: Seconds between two reloads of credentials that were refused.
_RELOAD_PAUSE = 10.0
#: Seconds for which a token is used before the configuration is asked again. The configuration asks its own source once
#: a minute, or minutes before the token expires, but even asking the configuration costs as much as half a request.
_TOKEN_REUSE = 1.0
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ConnectionSettingsError(ValueError):
    """The API server cannot be reached as configured; the message names the setting."""


def connect(settings: ClusterSettings, *, agent: str = "waggle") -> ApiServer:
    """Return a client for the API server that `settings` name, with this agent name; nothing is sent yet.

    Raises ConnectionSettingsError.
    """
    if settings.server and settings.kubeconfig is None and settings.context is None:
        url = _url(settings.server, "cluster.server")
        endpoint = _endpoint(url, tls=Tls() if url.scheme == "https" else None)
    else:
        endpoint = _configured(settings)
    return ApiServer(endpoint, timeout=settings.request_timeout_seconds, agent=agent)


def _url(text: str, setting: str) -> SplitResult:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ConnectionSettingsError(f"{setting}: {text!r}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise ConnectionSettingsError(f"{setting}: {text!r} must be http(s)://host:port")
    if url.username or url.query or url.fragment:
        raise ConnectionSettingsError(f"{setting}: must hold no user, query or fragment, only http(s)://host:port")
    return url


def _endpoint(url: SplitResult, **more: Any) -> Endpoint:
    port = url.port or (443 if url.scheme == "https" else 80)
    return Endpoint(url.hostname or "", port, url.path.rstrip("/"), **more)


def _configured(settings: ClusterSettings) -> Endpoint:
    setting = _setting(settings)
    load = _loader(settings)
    credentials = _Credentials(load, setting)
    configuration = credentials.configuration
    url = _url(settings.server or configuration.host, "cluster.server" if settings.server else setting)
    tls = None
    if url.scheme == "https":
        tls = Tls(
            ca_file=configuration.ssl_ca_cert,
            ca_data=configuration.ca_cert_data,
            cert_file=configuration.cert_file,
            key_file=configuration.key_file,
            verify=configuration.verify_ssl,
            server_name=configuration.tls_server_name,
        )
        _check(tls, setting)
    return _endpoint(
        url,
        tls=tls,
        proxy=_proxy(configuration, url, setting),
        authorization=credentials.header,
        at_hand=credentials.at_hand,
        refused=credentials.refused,
    )


def _check(tls: Tls, setting: str) -> None:
    try:
        tls.context()
    except OSError as error:
        raise ConnectionSettingsError(f"{setting}: certificates: {error}") from error


def _setting(settings: ClusterSettings) -> str:
    if settings.kubeconfig is not None:
        return f"cluster.kubeconfig ({settings.kubeconfig})"
    return f"cluster.context ({settings.context})" if settings.context else "cluster"


def _loader(settings: ClusterSettings) -> Callable[[], Any]:
    """A function that reads a fresh `kubernetes` Configuration from the source that the settings name."""
    if settings.kubeconfig is None and settings.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _load_in_cluster
    if settings.kubeconfig is not None and not settings.kubeconfig.expanduser().is_file():
        raise ConnectionSettingsError(f"cluster.kubeconfig: there is no file {settings.kubeconfig}")
    path = _kubeconfig_path(settings)
    if settings.kubeconfig is None and not any(
        Path(part).expanduser().is_file() for part in path.split(os.pathsep) if part
    ):
        raise ConnectionSettingsError(
            f"cluster: not in a pod, and there is no kubeconfig ({path}); set cluster.kubeconfig or cluster.server"
        )
    return lambda: _load_kubeconfig(path, settings.context)


def _kubeconfig_path(settings: ClusterSettings) -> str:
    if settings.kubeconfig is not None:
        return str(settings.kubeconfig.expanduser())
    # Read it here: the package reads the variable only once, when it is imported.
    return os.environ.get("KUBECONFIG", "") or "~/.kube/config"


def _load_in_cluster() -> Any:
    from kubernetes import client, config  # noqa: PLC0415  takes a second; only when needed

    configuration = client.Configuration()
    config.load_incluster_config(client_configuration=configuration)
    return configuration


def _load_kubeconfig(path: str, context: str | None) -> Any:
    from kubernetes import client, config  # noqa: PLC0415  takes a second; only when needed

    configuration = client.Configuration()
    config.load_kube_config(path, context=context, client_configuration=configuration, persist_config=False)
    if not (configuration.api_key or configuration.cert_file) and _wants_credentials(path, context):
        # The package logs the failure of a plug-in and goes on without authorization, which helps nobody.
        raise ValueError("the user's exec plug-in or auth-provider gave no credentials")
    return configuration


def current_namespace(settings: ClusterSettings) -> str:
    """Return the namespace of objects that name none, as kubectl has it: that of the context, else "default".

    A kubeconfig that cannot be used has "default" here, and raises ConnectionSettingsError in `connect`.
    """
    if settings.server and settings.kubeconfig is None and settings.context is None:
        return "default"
    try:
        if settings.kubeconfig is None and settings.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or "default"
        _, chosen = _chosen_context(_kubeconfig_path(settings), settings.context)
        return str(chosen.safe_get("namespace") or "default")
    except Exception:  # the package raises what the file's contents provoke
        return "default"


def _chosen_context(path: str, context: str | None) -> tuple[Any, Any]:
    """The merged kubeconfig, and the context in it."""
    from kubernetes.config import kube_config  # noqa: PLC0415  takes a second; only when needed

    merged = kube_config.KubeConfigMerger(path).config
    return merged, merged["contexts"].get_with_name(context or merged["current-context"])["context"]


def _wants_credentials(path: str, context: str | None) -> bool:
    merged, chosen = _chosen_context(path, context)
    user = merged["users"].get_with_name(chosen.safe_get("user"), safe=True)
    return user is not None and any(kind in user["user"] for kind in ("exec", "auth-provider"))


class _Credentials:
    """The Authorization header, as the configuration gives it now. Thread-safe."""

    def __init__(self, load: Callable[[], Any], setting: str) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._header: str | None = None
        self._asked = float("-inf")
        self._loaded = time.monotonic()
        try:
            self.configuration = load()
        except Exception as error:
            raise ConnectionSettingsError(f"{setting}: {error}") from error

    def header(self) -> str | None:
        with self._lock:
            now = time.monotonic()
            if now - self._asked >= _TOKEN_REUSE:
                setting = self.configuration.auth_settings().get("BearerToken")
                self._header = setting["value"].strip() if setting and setting["value"] else None
                self._asked = now
            return self._header

    def at_hand(self) -> bool:
        """Whether `header` returns without asking a source, which may be a file or a program."""
        return time.monotonic() - self._asked < _TOKEN_REUSE

    def refused(self) -> None:
        """The API server refused the credentials: the configuration may hold outdated ones (a token file, a plug-in).
        Reload."""
        with self._lock:
            now = time.monotonic()
            if now - self._loaded < _RELOAD_PAUSE:
                return
            self._loaded = now
            self._asked = float("-inf")
            try:
                self.configuration = self._load()
            except Exception as error:
                log.warning("credentials cannot be read anew", error=str(error))


def _proxy(configuration: Any, url: SplitResult, setting: str) -> Proxy | None:
    if not configuration.proxy:
        return None
    from kubernetes.client.rest import should_bypass_proxies  # noqa: PLC0415  takes a second; only when needed

    if should_bypass_proxies(url.geturl(), configuration.no_proxy or ""):
        return None
    proxy = urlsplit(configuration.proxy)
    if proxy.scheme != "http" or not proxy.hostname:
        raise ConnectionSettingsError(f"{setting}: proxy {configuration.proxy!r} must be http://host:port")
    return Proxy(proxy.hostname, proxy.port or 80, _proxy_headers(configuration, proxy))


def _proxy_headers(configuration: Any, proxy: SplitResult) -> dict[str, str]:
    headers = dict(configuration.proxy_headers or {})
    if proxy.username:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + b64encode(pair.encode()).decode()
    return headers
