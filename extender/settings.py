"""The configuration file: every field with its default, its unit and its meaning.

`waggle serve --config FILE` reads YAML into `Settings`. Unknown keys are refused, and every error names the field. All
fields have defaults: an empty file is a working configuration for a cluster found by the usual kubeconfig rules.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from algorithm.registry import AlgorithmError, explain, explain_yaml, parser
from extender.claim_settings import ClaimSettings
from extender.ordering_settings import OrderingSettings
from extender.vpod_settings import VPodSettings

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_LABEL_OR_EMPTY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"


class SettingsError(ValueError):
    """The configuration cannot be used; the message names the file and each invalid field."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ExtenderSettings(_Section):
    """The verbs of kube-scheduler. Switched off, this process serves claims, vpods or start-up ordering only."""

    enabled: bool = True


class TlsSettings(_Section):
    """Serve HTTPS. With `client_ca_file` callers must show a certificate that it signed (mutual TLS)."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    #: Names of the clients that may call the verbs, and of those that may read the pages. A name must exactly match the
    #: certificate's common name or a subject alternative name (DNS, URI, email, IP address). Empty: every client of
    #: `client_ca_file`.
    verb_clients: tuple[str, ...] = ()
    page_clients: tuple[str, ...] = ()
    #: Seconds between two checks of these files for changes; changed files are applied if they are usable.
    reload_seconds: float = Field(10, gt=0, le=3600)

    @field_validator("verb_clients", "page_clients")
    @classmethod
    def _names_are_in_certificates(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if value and info.data.get("client_ca_file") is None:
            raise ValueError("needs client_ca_file: without it no client shows a certificate")
        if any(not name.strip() or "*" in name for name in value):
            raise ValueError("expected whole names, without wildcards")
        return value


class ServerSettings(_Section):
    """The HTTP layer."""

    host: str = "127.0.0.1"
    port: int = Field(9096, ge=0, le=65535)  # 9096 is HiveD's; 0 takes any free port
    #: A second port with probes and metrics only, in plain HTTP: kubelet has no client certificate.
    health_port: int | None = Field(None, ge=0, le=65535)
    #: How long an idle connection is kept, seconds. Must be more than 90: kube-scheduler's client keeps its idle ones
    #: for 90 s, and does not retry a POST that fails on a closed connection.
    keep_alive_seconds: int = Field(120, ge=91)
    #: Largest number of connections. Beyond it, useless ones are closed first; see `web/http/connections.py`.
    max_connections: int = Field(1000, ge=16, le=50_000)
    #: Largest body of a request of kube-scheduler. 5,000 full Node objects are some 45 MB.
    max_body_mib: int = Field(32, ge=1, le=1024)
    #: Seconds that the engine may be busy with one event; then /livez fails, and kubelet restarts the process. 0: no
    #: limit.
    hang_seconds: float = Field(20, ge=0, le=3600)
    #: Seconds from which on one event of an engine is slow: that is logged with the stack, counted, shown in /readyz,
    #: and held against the algorithm, if the engine has one.
    slow_seconds: float = Field(1, gt=0, le=3600)
    tls: TlsSettings | None = None
    #: Further host names under which browsers may request pages; `*.example.com` is every name below it, `*` any name.
    #: The names of the certificate, `host`, IP addresses, single words and `*.svc` are always allowed.
    allowed_hosts: tuple[str, ...] = ()
    #: Who may read /v1/inspect/*, /v1/explain/* and /ui. none: any client that can reach the port. kubernetes: clients
    #: with a token that the API server accepts and the right to `get` the page as a non-resource URL.
    inspect_authorization: Literal["none", "kubernetes"] = "none"

    def remarks(self) -> list[str]:
        """Return warnings about settings that an operator may not have intended."""
        if self.tls is None or self.tls.client_ca_file is None:
            return []
        lists = {"verb_clients": "may call the verbs", "page_clients": "may see the pages"}
        return [
            f"server.tls.{field} is empty: every client of {self.tls.client_ca_file} {what} (docs/security.md)"
            for field, what in lists.items()
            if not getattr(self.tls, field)
        ]

    @field_validator("health_port")
    @classmethod
    def _another_port(cls, health_port: int | None, info: ValidationInfo) -> int | None:
        if health_port and health_port == info.data.get("port"):
            raise ValueError(f"expected another port than server.port ({health_port})")
        return health_port


class ClusterSettings(_Section):
    """How to reach the API server. All empty: in-cluster service account, else the usual kubeconfig."""

    kubeconfig: Path | None = None
    context: str | None = None
    #: http(s)://host:port; overrides the server of the kubeconfig. With neither `kubeconfig` nor `context` set: no
    #: authentication.
    server: str | None = None
    #: Time-out of one API call, seconds.
    request_timeout_seconds: float = Field(10, gt=0, le=300)
    #: Seconds between two comparisons of the cache with a live list; 0 is never.
    compare_seconds: float = Field(300, ge=0, le=86_400)
    #: Memory that nodes and pods may take, in MiB, estimated: some 4.5 KB each. Lists that need more fail.
    cache_mib: int = Field(1024, ge=64, le=65_536)
    #: Upper limit of concurrent bindings, evictions and verifying reads; the number adapts to the API server.
    concurrent_writes: int = Field(32, ge=1, le=128)
    #: Lower limit of the same number, even if the API server is slow or fails.
    least_concurrent_writes: int = Field(1, ge=1, le=128)

    @field_validator("least_concurrent_writes")
    @classmethod
    def _is_not_more_than_the_most(cls, value: int, info: ValidationInfo) -> int:
        most = info.data.get("concurrent_writes")
        if most is not None and value > most:
            raise ValueError(f"expected at most concurrent_writes ({most}), got {value}")
        return value


class AlgorithmSettings(_Section):
    """The installed algorithm to use, and its own settings (checked by the algorithm's model)."""

    name: str = "packing"
    settings: dict[str, Any] = Field(default_factory=dict)
    #: A file with more of these settings, in the algorithm's own format: HiveD's own configuration, for example.
    settings_file: Path | None = None
    #: Seconds between two checks of the configuration for changes; changed settings of the algorithm are applied. 0:
    #: only at SIGHUP.
    reload_seconds: float = Field(10, ge=0, le=3600)


class PodSettings(_Section):
    """Which pods are ours. A pod must match every criterion that is set; if none is set, all pods are ours.

    All offered nodes pass for other pods, which are still counted on their nodes.
    """

    scheduler_names: tuple[str, ...] = ()
    #: Pods that name this resource in a request or limit of any container.
    resource: str = ""
    #: Pods that have this annotation.
    annotation: str = ""


class HoldSettings(_Section):
    """Proposals: a filter answer holds its place this long unless a bind follows."""

    #: Seconds from the filter answer to the bind. kube-scheduler binds within milliseconds, but waits at Permit.
    lease_seconds: float = Field(60, gt=0)
    #: Seconds until a failed or undecided verification is tried again.
    verify_seconds: float = Field(5, gt=0)
    #: How long a gang's seats are kept for members that kube-scheduler does not ask about, seconds.
    seat_seconds: float = Field(300, gt=0)


class ForceBindSettings(_Section):
    """When the server writes a binding itself instead of waiting for kube-scheduler's bind call."""

    #: After this many filter calls for a placed pod without a bind; 0 is never.
    after_filters: int = Field(0, ge=0)
    #: At once if the chosen node is not among the offered ones.
    when_not_offered: bool = False


class PreemptionSettings(_Section):
    """Who evicts the victims of a preemption."""

    #: kube-scheduler: it evicts, as we answer /preempt. direct: this server evicts. auto: this server evicts what
    #: kube-scheduler cannot.
    mode: Literal["auto", "kube-scheduler", "direct"] = "auto"
    #: Seconds that a preemption of ours may take to begin, and its victims to go beyond their own grace periods.
    patience_seconds: float = Field(120, gt=0)
    #: Seconds until the eviction of a pod that could not be evicted is retried.
    retry_seconds: float = Field(60, gt=0)


class LeaderElectionSettings(_Section):
    """Several replicas: one decides, the others stay informed and take over. See `kube/lease/election.py`."""

    enabled: bool = False
    #: The namespace of the Lease. Empty: the namespace of the pod that this runs in, outside a pod `default`.
    namespace: str = Field("", pattern=_LABEL_OR_EMPTY, max_length=63)
    name: str = Field("waggle", pattern=_NAME, max_length=253)
    #: The holder's name in the Lease; something unique is always added. Empty: the host's name.
    identity: str = Field("", max_length=200)
    #: Put the label `waggle.dev/leads` on the leader's pod, for a Service to select. See `server/leader_label.py`.
    label_pod: bool = False
    #: Seconds without a renewal after which other replicas may take over the lease.
    lease_seconds: float = Field(10, ge=1, le=120)
    #: Seconds without a renewal after which a leader stops deciding. The difference to `lease_seconds` is for writes in
    #: flight and for clocks that run at different speeds.
    renew_deadline_seconds: float = Field(7, gt=0, validate_default=True)
    #: Seconds between two renewals by the leader, and between two attempts of the other replicas.
    retry_seconds: float = Field(1.5, gt=0, validate_default=True)

    @field_validator("renew_deadline_seconds")
    @classmethod
    def _ends_before_others_begin(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease_seconds")
        if lease is not None and value > 0.8 * lease:
            raise ValueError(f"expected at most 0.8 * lease_seconds ({lease:g}), got {value:g}")
        return value

    @field_validator("retry_seconds")
    @classmethod
    def _leaves_time_for_another_try(cls, value: float, info: ValidationInfo) -> float:
        deadline = info.data.get("renew_deadline_seconds")
        if deadline is not None and value > 0.4 * deadline:
            raise ValueError(f"expected at most 0.4 * renew_deadline_seconds ({deadline:g}), got {value:g}")
        return value


class PlanSettings(_Section):
    """`POST /v1/plan`: what would happen if something were applied. A process of its own makes each plan."""

    enabled: bool = True
    #: Seconds of CPU time, and of time, that one plan may take.
    seconds: float = Field(60, ge=1, le=600)
    #: Memory that the process of a plan may take, MiB. A plan that would need more is refused, as is any plan if the
    #: container has less left.
    memory_mib: int = Field(1024, ge=128, le=65_536)
    #: Pods and nodes of the cluster and of the manifests together.
    most_pods: int = Field(100_000, ge=1, le=1_000_000)
    most_nodes: int = Field(20_000, ge=1, le=100_000)
    #: kube-scheduler's own configuration (KubeSchedulerConfiguration). None: one profile with the default plugins, and
    #: this server as its extender.
    scheduler_config: Path | None = None


class LogSettings(_Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(_Section):
    """The whole configuration file."""

    server: ServerSettings = ServerSettings()
    cluster: ClusterSettings = ClusterSettings()
    algorithm: AlgorithmSettings = AlgorithmSettings()
    pods: PodSettings = PodSettings()
    holds: HoldSettings = HoldSettings()
    force_bind: ForceBindSettings = ForceBindSettings()
    preemption: PreemptionSettings = PreemptionSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    extender: ExtenderSettings = ExtenderSettings()
    claims: ClaimSettings = ClaimSettings()
    vpods: VPodSettings = VPodSettings()
    ordering: OrderingSettings = Field(default=OrderingSettings(), validate_default=True)
    plans: PlanSettings = PlanSettings()
    log: LogSettings = LogSettings()

    @field_validator("ordering")
    @classmethod
    def _something_is_served(cls, ordering: OrderingSettings, info: ValidationInfo) -> OrderingSettings:
        others = [info.data.get(name) for name in ("extender", "claims", "vpods")]
        if all(each is not None and not each.enabled for each in others) and not ordering.enabled:
            raise ValueError(
                "expected extender.enabled, claims.enabled, vpods.enabled or ordering.enabled: "
                "this process would serve nothing"
            )
        return ordering

    @model_validator(mode="before")
    @classmethod
    def _empty_sections_are_defaults(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data


#: Largest number of values in a configuration: ten times that of a real one. A few lines of nested aliases could expand
#: to billions.
_MOST_VALUES = 1_000_000
#: Largest size of a configuration file, bytes.
_LARGEST = 64 << 20


class _Loader(yaml.SafeLoader):
    """A YAML loader for which a duplicate key is an error; usually the last one silently wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value}: appears twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: Path) -> Settings:
    """Return the settings in a YAML file. Raises SettingsError, naming the file and each invalid field."""
    return parse(read_text(path, str(path)), path)


def parse(text: str, path: Path) -> Settings:
    """Return the settings in the text of that file. Raises SettingsError, naming the file and each invalid field."""
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error
    try:
        return Settings.model_validate({} if data is None else data)
    except ValidationError as error:
        if isinstance(data, dict) and "physicalCluster" in data:
            raise SettingsError(
                f"{path}: this is HiveD's own file, not Waggle's; name it in a file of Waggle's: "
                f"algorithm: {{name: hived, settings_file: {path}}}"
            ) from error
        raise SettingsError(f"{path}: {explain(error, Settings)}") from error


def read_text(path: Path, field: str) -> str:
    """Return the text of a file. Raises SettingsError, naming the field that has the file's name."""
    where = field if field == str(path) else f"{field}: {path}"
    try:
        is_too_large = path.stat().st_size > _LARGEST
        text = "" if is_too_large else path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # from the file, its text, or its name
        raise SettingsError(f"{where}: {_unreadable(error)}") from error
    if is_too_large:
        raise SettingsError(f"{where} is larger than {_LARGEST >> 20} MiB")
    return text


def _unreadable(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)


def algorithm_settings(algorithm: AlgorithmSettings) -> dict[str, Any]:
    """Return all settings of the algorithm, with those of `settings_file`. The algorithm's model has not checked them.

    Raises SettingsError, and AlgorithmError if there is no such algorithm.
    """
    file = algorithm.settings_file
    if file is None:
        return algorithm.settings
    return merged_settings(algorithm, read_text(file, "algorithm.settings_file"))


def merged_settings(algorithm: AlgorithmSettings, text: str) -> dict[str, Any]:
    """Return all settings of the algorithm, with `text` as the contents of `settings_file`.

    Raises as `algorithm_settings`.
    """
    where = f"algorithm.settings_file: {algorithm.settings_file}"
    try:
        found = (parser(algorithm.name) or parse_yaml)(text)
    except AlgorithmError:
        raise
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
    if found is None:
        return algorithm.settings
    if not isinstance(found, dict):
        raise SettingsError(f"{where}: expected fields, as `name: value`")
    twice = sorted(found.keys() & algorithm.settings.keys())
    if twice:
        raise SettingsError(f"{where}: {', '.join(twice)}: stands in algorithm.settings too; leave one out")
    return {**found, **algorithm.settings}


def parse_yaml(text: str) -> Any:
    """Parse one YAML document, within the bounds of a configuration. Raises ValueError."""
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        raise ValueError(explain_yaml(error)) from error
    except (yaml.YAMLError, TypeError, IndexError) as error:  # PyYAML raises the last two for nonsensical values
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _size(found, {}) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values, aliases followed")
    return found


def _size(value: Any, known: dict[int, float]) -> float:
    """Return the number of values with all aliases expanded, as in a copy; infinite for a value that contains itself.

    `known` has the sizes of the containers counted so far; each is counted once, so that counting is quick.
    """
    if not isinstance(value, dict | list | tuple | set):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf
        inside = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(each, known) for each in inside)
    return known[id(value)]
