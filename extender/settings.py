"""The configuration file: every field with its default, its unit and what it does.

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

from algorithm.registry import AlgorithmError, explain, parser

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_LABEL_OR_EMPTY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"


class SettingsError(ValueError):
    """The configuration cannot be used; the message names the file and each field at fault."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TlsSettings(_Section):
    """Serve HTTPS. With `client_ca_file` callers must show a certificate that it signed (mutual TLS)."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    #: Names of clients that may call the verbs, and of those that may see the pages: the common name of a certificate,
    #: or an alternative one (DNS, URI, email, IP address), exactly. Empty: every client of `client_ca_file`.
    verb_clients: tuple[str, ...] = ()
    page_clients: tuple[str, ...] = ()
    #: Seconds between two looks at these files; changed ones are taken into use if they are usable.
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
    """The HTTP face."""

    host: str = "127.0.0.1"
    port: int = Field(9096, ge=0, le=65535)  # 9096 is HiveD's; 0 takes any free port
    #: A second port with nothing but probes and metrics, in plain HTTP: kubelet has no client certificate.
    health_port: int | None = Field(None, ge=0, le=65535)
    #: Seconds an idle connection is kept. kube-scheduler's client keeps its own for 90 s and does not retry a POST that
    #: meets a closed one, so this must be more.
    keep_alive_seconds: int = Field(120, ge=91)
    #: Connections at once. Where there are more, those that are of no use end first; see `web/http/connections.py`.
    max_connections: int = Field(1000, ge=16, le=50_000)
    #: Largest body of a scheduler verb. 5,000 full Node objects are some 45 MB.
    max_body_mib: int = Field(32, ge=1, le=1024)
    tls: TlsSettings | None = None
    #: Further names under which browsers may ask for pages; `*.example.com` is every name below, `*` any name at all.
    #: The names of the certificate, `host`, IP addresses, single words and `*.svc` may always be used.
    allowed_hosts: tuple[str, ...] = ()
    #: Who may look at /v1/inspect/*, /v1/explain/* and /ui. none: whoever reaches the port. kubernetes: who shows a
    #: token that the API server knows, and may `get` the page as a non-resource URL.
    inspect_authorization: Literal["none", "kubernetes"] = "none"

    def remarks(self) -> list[str]:
        """What an operator may not have meant."""
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
    #: http(s)://host:port; overrides the server of the kubeconfig. Alone it means: no authentication.
    server: str | None = None
    #: Seconds that one API call may take.
    request_timeout_seconds: float = Field(10, gt=0, le=300)
    #: Seconds between two comparisons of the cache with a live list; 0 is never.
    compare_seconds: float = Field(300, ge=0, le=86_400)
    #: Memory that nodes and pods may take, in MiB, estimated: some 4.5 KB each. Where there is more, lists fail.
    cache_mib: int = Field(1024, ge=64, le=65_536)
    #: Bindings, evictions and verifying reads at the same time: never more. How many it is follows from the API server.
    concurrent_writes: int = Field(32, ge=1, le=128)
    #: However badly the API server does, so many are tried.
    least_concurrent_writes: int = Field(1, ge=1, le=128)

    @field_validator("least_concurrent_writes")
    @classmethod
    def _is_not_more_than_the_most(cls, value: int, info: ValidationInfo) -> int:
        most = info.data.get("concurrent_writes")
        if most is not None and value > most:
            raise ValueError(f"expected at most concurrent_writes ({most}), got {value}")
        return value


class AlgorithmSettings(_Section):
    """Which installed algorithm decides, and its own settings (checked by the algorithm's model)."""

    name: str = "packing"
    settings: dict[str, Any] = Field(default_factory=dict)
    #: A file with more of these settings, as the algorithm itself reads it: HiveD's own configuration, say.
    settings_file: Path | None = None
    #: Seconds between two looks at the configuration; changed settings of the algorithm are taken into use. 0 is never,
    #: but for SIGHUP.
    reload_seconds: float = Field(10, ge=0, le=3600)


class PodSettings(_Section):
    """Which pods are ours. A pod must match every criterion that is given; none given: all that arrive.

    Others pass every filter untouched, and are still counted on their nodes.
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
    #: How long a gang's seats are kept for members that kube-scheduler does not come for.
    seat_seconds: float = Field(300, gt=0)


class ForceBindSettings(_Section):
    """When the server writes a binding itself instead of waiting for kube-scheduler's bind call."""

    #: After that many filter calls for a placed pod that no bind followed; 0 is never.
    after_filters: int = Field(0, ge=0)
    #: At once when the decided node was not among those offered.
    when_not_offered: bool = False


class PreemptionSettings(_Section):
    """Who evicts the victims of a preemption."""

    #: kube-scheduler: answer /preempt and let it evict. direct: evict by ourselves. auto: by ourselves what it cannot.
    mode: Literal["auto", "kube-scheduler", "direct"] = "auto"
    #: Seconds that a preemption of ours may take to begin, and its victims to go beyond their own grace periods.
    patience_seconds: float = Field(120, gt=0)
    #: Seconds until a pod that could not be evicted is tried again.
    retry_seconds: float = Field(60, gt=0)


class LeaderElectionSettings(_Section):
    """Several replicas: one decides, the others stay informed and take over. See `kube/lease/election.py`."""

    enabled: bool = False
    #: Where the Lease is. Empty: the namespace of the pod that this runs in, elsewhere `default`.
    namespace: str = Field("", pattern=_LABEL_OR_EMPTY, max_length=63)
    name: str = Field("waggle", pattern=_NAME, max_length=253)
    #: How others see who leads; something unique is always added. Empty: the host's name.
    identity: str = Field("", max_length=200)
    #: Put the label `waggle.dev/leads` on the pod that leads, for a Service to select. See `server/leader_label.py`.
    label_pod: bool = False
    #: Seconds after which a leader that was not heard of is taken for dead.
    lease_seconds: float = Field(10, ge=1, le=120)
    #: Seconds after which a leader that could not renew its lease has ended. What lies between is for writes under way
    #: and for clocks that do not run alike.
    renew_deadline_seconds: float = Field(7, gt=0, validate_default=True)
    #: Seconds between two renewals, and between two looks of those that wait.
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
    log: LogSettings = LogSettings()

    @model_validator(mode="before")
    @classmethod
    def _empty_sections_are_defaults(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data


#: Of a configuration: ten times what a real one has. A few lines of aliases of aliases would be billions.
_MOST_VALUES = 1_000_000
#: Bytes.
_LARGEST = 64 << 20


class _Loader(yaml.SafeLoader):
    """YAML as usual, but a key that stands twice is an error and not silently the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value}: stands here twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: Path) -> Settings:
    """The settings in a YAML file. Raises SettingsError, naming the file and each field at fault."""
    return parse(read_text(path, str(path)), path)


def parse(text: str, path: Path) -> Settings:
    """The settings in the text of that file. Raises SettingsError, naming the file and each field at fault."""
    try:
        data = _yaml(text)
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
        raise SettingsError(f"{path}: {explain(error)}") from error


def read_text(path: Path, field: str) -> str:
    """Raises SettingsError, naming the field that the file's name is from."""
    where = field if field == str(path) else f"{field}: {path}"
    try:
        is_too_large = path.stat().st_size > _LARGEST
        text = "" if is_too_large else path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # of the file, its text, or its name
        raise SettingsError(f"{where}: {_unreadable(error)}") from error
    if is_too_large:
        raise SettingsError(f"{where} is larger than {_LARGEST >> 20} MiB")
    return text


def _unreadable(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)


def algorithm_settings(algorithm: AlgorithmSettings) -> dict[str, Any]:
    """All settings of the algorithm, those of `settings_file` too; the algorithm's model has yet to check them.

    Raises SettingsError, and AlgorithmError if there is no such algorithm.
    """
    file = algorithm.settings_file
    if file is None:
        return algorithm.settings
    return merged_settings(algorithm, read_text(file, "algorithm.settings_file"))


def merged_settings(algorithm: AlgorithmSettings, text: str) -> dict[str, Any]:
    """All settings of the algorithm, `text` being what `settings_file` holds. Raises as `algorithm_settings`."""
    where = f"algorithm.settings_file: {algorithm.settings_file}"
    try:
        found = (parser(algorithm.name) or _yaml)(text)
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


def _yaml(text: str) -> Any:
    """Raises ValueError."""
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, TypeError, IndexError) as error:  # the last two: PyYAML's, of values that make no sense
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _size(found, {}) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values, aliases followed")
    return found


def _size(value: Any, known: dict[int, float]) -> float:
    """How many values there are if each alias is followed, as whoever copies it does; of a value within itself, no end.

    `known` are the sizes of those that were counted; each is counted once, so that counting itself is quick.
    """
    if not isinstance(value, dict | list | tuple | set):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf
        inside = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(each, known) for each in inside)
    return known[id(value)]
