"""`waggle doctor`: one check of everything that an installation needs, each with what to do if it fails.

    configuration -> API server -> rights, nodes, versions
                  -> certificates of both sides
                  -> kube-scheduler's configuration, compared with Waggle's

Promises: it changes nothing (a SelfSubjectAccessReview is a question); every call has a time-out; a check that cannot
be made says so, instead of being left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from algorithm.registry import AlgorithmError, create
from extender import DISTRIBUTION
from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.client.kubeconfig import ConnectionSettingsError, connect
from extender.operate import lint, lint_pools, lint_sets, pool_scene, set_scene
from extender.operate.document import Document, DocumentError, read
from extender.operate.inventory import InventoryError, from_cluster
from extender.operate.rights import Right, allowed
from extender.operate.rules import Severity
from extender.operate.scene_rules import SceneFinding
from extender.operate.scheduler_config import MARKERS
from extender.server.claims.score_plugins import configured_score
from extender.server.leadership import own_namespace
from extender.server.ordering.resources import APIS
from extender.settings import ClusterSettings, Settings, SettingsError, algorithm_settings, load
from extender.web.http.authorities import first, lifetime, not_signed_by
from extender.web.http.certificates import Certificates

#: A certificate that ends sooner is worth a warning.
SOON: Final = timedelta(days=14)
#: Minor versions of Kubernetes 1.x: older ones lack what Waggle needs, newer ones are untried (docs/install.md).
OLDEST, OLDEST_TRIED, NEWEST_TRIED = 27, 30, 36
_TIMEOUT: Final = 10.0
_RBAC: Final = "manifests/base/rbac.yaml has them all; docs/security.md says what each is for"


class Status(StrEnum):
    """OK; WARN: it works, and somebody should look; FAIL: it does not work."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Check:
    """One line of the report. `todo` says what to do about it; "" if nothing."""

    name: str
    status: Status
    what: str
    todo: str = ""


def examine(config: Path | None, scheduler_config: Path | None = None, readyz: str = "") -> list[Check]:
    """Make every check.

    `config` is Waggle's own configuration, `scheduler_config` kube-scheduler's; `readyz` is the URL of a running
    Waggle's health port.
    """
    try:
        settings = load(config) if config else Settings()
        create(settings.algorithm.name, algorithm_settings(settings.algorithm))
        configured_score(settings.claims)
    except (SettingsError, AlgorithmError) as error:
        return [
            Check("configuration", Status.FAIL, str(error), "correct the field; docs/configuration.md has them all")
        ]
    where = config or "the default configuration"
    checks = [Check("configuration", Status.OK, f"{where}: algorithm {settings.algorithm.name}")]
    checks += [Check("configuration", Status.WARN, text) for text in settings.server.remarks()]
    checks += _cluster(settings)
    checks += _certificates(settings)
    checks += _kube_scheduler(scheduler_config, settings)
    if readyz:
        checks.append(_running(readyz))
    return checks


def failed(checks: Iterable[Check]) -> bool:
    return any(check.status is Status.FAIL for check in checks)


def as_text(checks: Sequence[Check]) -> str:
    """One line a check; what to do stands below it."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.status:<4}  {check.name:<{width}}  {check.what}")
        if check.todo:
            lines.append(f"{'':<{width + 8}}do: {check.todo}")
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    lines += ["", ", ".join(f"{count} {status}" for status, count in counts.items() if count)]
    return "\n".join(lines)


def as_json(checks: Sequence[Check]) -> str:
    """One object: the checks, and whether one of them failed."""
    return json.dumps({"checks": [asdict(check) for check in checks], "failed": failed(checks)}, indent=2)


# -- the cluster --------------------------------------------------------------------------------------------------


def _cluster(settings: Settings) -> list[Check]:
    try:
        api = connect(settings.cluster)
    except ConnectionSettingsError as error:
        todo = "set cluster.kubeconfig, cluster.context or cluster.server in Waggle's configuration, or KUBECONFIG"
        return [Check("API server", Status.FAIL, str(error), todo)]
    try:
        reached, theirs = _reach(api)
        if reached.status is Status.FAIL:
            return [reached]
        served = (*_pools(api, settings), *_sets(api, settings))
        return [reached, _version(theirs), *_rights(api, settings), *_nodes(settings), *served]
    finally:
        api.close()


def _reach(api: ApiServer) -> tuple[Check, str]:
    """Whether the API server answers, and the version that it says it has."""
    try:
        response = api.request("GET", "/version", timeout=_TIMEOUT, most=bounds.SMALL_OBJECT)
        answer = msgspec.json.decode(response.body, type=dict[str, Any]) if response.ok else {}
    except ApiError as error:
        todo = "is it the right address, and may this machine reach it? With a NetworkPolicy, its port has to be in it"
        return Check("API server", Status.FAIL, str(error), todo), ""
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Check("API server", Status.FAIL, f"{api.endpoint.url} is no API server: {error}"), ""
    if not response.ok:
        what = f"{api.endpoint.url} answers {response.status}: {response.message}"
        return Check("API server", Status.FAIL, what, "are the credentials of the kubeconfig or the token valid?"), ""
    return Check("API server", Status.OK, f"{api.endpoint.url} answers"), str(answer.get("gitVersion", ""))


def _version(text: str) -> Check:
    found = re.match(r"v1\.(\d+)", text)
    name, tried = "versions", f"tried with 1.{OLDEST_TRIED} to 1.{NEWEST_TRIED}"
    what = f"Waggle {version(DISTRIBUTION)}, Kubernetes {text or 'of an unknown version'}"
    if found is None:
        return Check(name, Status.WARN, what, f"Waggle was {tried}")
    minor = int(found.group(1))
    if minor < OLDEST:
        return Check(name, Status.FAIL, what, f"Kubernetes 1.{OLDEST} or newer is needed")
    if not OLDEST_TRIED <= minor <= NEWEST_TRIED:
        return Check(name, Status.WARN, what, f"Waggle was {tried}; docs/install.md says what older ones lack")
    return Check(name, Status.OK, what)


def needed_rights(settings: Settings) -> list[Right]:
    """The rights that this configuration needs."""
    rights = _rights_of_extender(settings) if settings.extender.enabled else []
    if settings.claims.enabled:
        rights += [Right(verb, "nodes") for verb in ("list", "watch") if not settings.extender.enabled]
        if settings.claims.share_pools:
            lease = "coordination.k8s.io"
            rights += [Right(verb, "leases", "", lease, "", True) for verb in ("create", "list", "patch", "delete")]
        for namespace in sorted({pool.namespace for pool in settings.claims.pools}):
            rights += lint_pools.rights_of_claims(namespace)
    if settings.vpods.enabled:
        rights += _rights_of_vpods(settings)
    if settings.ordering.enabled:
        rights += _rights_of_ordering(settings)
    inspects = settings.extender.enabled or settings.vpods.enabled or settings.ordering.enabled
    reviews = inspects and settings.server.inspect_authorization == "kubernetes"
    if reviews or (settings.claims.enabled and settings.claims.authorization == "kubernetes"):
        rights.append(Right("create", "tokenreviews", group="authentication.k8s.io"))
        rights.append(Right("create", "subjectaccessreviews", group="authorization.k8s.io"))
    return rights


def _rights_of_vpods(settings: Settings) -> list[Right]:
    rights = lint_sets.rights_of_resources(settings)
    for each in set_scene.configured(settings):
        rights += lint_sets.rights_of_set(each)
    if settings.extender.enabled:
        return rights
    if not settings.claims.enabled:
        rights += [Right(verb, "nodes") for verb in ("list", "watch")]
    rights += [Right(verb, "events") for verb in ("create", "patch")]
    return rights + _rights_of_lease(settings, "-vpods")


def _rights_of_ordering(settings: Settings) -> list[Right]:
    apis = [api for kind in settings.ordering.kinds for api in APIS[kind]]
    rights = [Right(verb, api.plural, group=api.group) for api in apis for verb in ("list", "watch")]
    if settings.extender.enabled:
        return rights
    rights += [Right(verb, "pods") for verb in ("get", "list", "watch", "patch")]
    rights += [Right(verb, "events") for verb in ("create", "patch")]
    return rights + _rights_of_lease(settings, "-ordering")


def _rights_of_lease(settings: Settings, suffix: str = "") -> list[Right]:
    """The rights of an election, if there is one."""
    if not settings.leader_election.enabled:
        return []
    lease, group = f"{settings.leader_election.name}{suffix}", "coordination.k8s.io"
    return [
        Right("create", "leases", group=group, namespaced=True),
        *(Right(verb, "leases", "", group, lease, True) for verb in ("get", "update")),
    ]


def _rights_of_extender(settings: Settings) -> list[Right]:
    rights = [Right(verb, "nodes") for verb in ("get", "list", "watch")]
    rights += [Right(verb, "pods") for verb in ("get", "list", "watch", "patch")]
    rights += [Right("create", "pods", "binding"), Right("create", "events"), Right("patch", "events")]
    if settings.preemption.mode != "kube-scheduler":
        rights.append(Right("create", "pods", "eviction"))
    return rights + _rights_of_lease(settings)


def _rights(api: ApiServer, settings: Settings) -> Iterator[Check]:
    """Ask the API server what it would let us do: nothing is tried."""
    namespace = settings.leader_election.namespace or own_namespace()
    rights = needed_rights(settings)
    missing = []
    for right in rights:
        try:
            if not allowed(api, right, namespace):
                missing.append(right)
        except (ApiError, msgspec.DecodeError, ValueError) as error:
            yield Check("rights", Status.WARN, f"cannot be asked for: {error}", _RBAC)
            return
    for right in missing:
        where = f" in namespace {right.namespace or namespace}" if right.namespaced or right.namespace else ""
        yield Check("rights", Status.FAIL, f"may not {right}{where}", _RBAC)
    if not missing:
        yield Check("rights", Status.OK, f"all {len(rights)} that this configuration needs")


def _nodes(settings: Settings) -> Iterator[Check]:
    """Whether some node has the resource by which pods are Waggle's."""
    resource = settings.pods.resource
    try:
        nodes = from_cluster(settings.cluster, pods=False).nodes
    except (InventoryError, ConnectionSettingsError) as error:
        yield Check("nodes", Status.FAIL, str(error), "Waggle has to list them")
        return
    ready = sum(node.ready for node in nodes)
    if not resource or resource in MARKERS:
        yield Check("nodes", Status.OK if nodes else Status.WARN, f"{len(nodes)}, of which {ready} are ready")
        return
    having = sum(dict(node.allocatable).get(resource, 0) > 0 for node in nodes)
    if having:
        yield Check("nodes", Status.OK, f"{len(nodes)}, of which {having} have {resource} (pods.resource)")
    else:
        todo = "is its device plug-in running? If it only marks pods, kube-scheduler must not count it (WL601)"
        yield Check("nodes", Status.WARN, f"none of {len(nodes)} has {resource} (pods.resource)", todo)


def _pools(api: ApiServer, settings: Settings) -> Iterator[Check]:
    """What `waggle lint pool --cluster` finds; rights are a check of their own."""
    if not settings.claims.enabled:
        return
    try:
        scene = pool_scene.from_cluster(api, settings)
    except ApiError as error:
        yield Check("pools", Status.WARN, str(error))
        return
    yield from (Check("pools", Status.WARN, f"not looked at: {text}") for text in scene.unread)
    yield from _linted("pools", "waggle lint pool", len(scene.pools), lint_pools.lint(scene))


def _sets(api: ApiServer, settings: Settings) -> Iterator[Check]:
    """What `waggle lint vpods --cluster` finds; rights are a check of their own."""
    if not settings.vpods.enabled:
        return
    try:
        scene = set_scene.from_cluster(api, settings)
    except ApiError as error:
        yield Check("vpods", Status.WARN, str(error))
        return
    yield from (Check("vpods", Status.WARN, f"not looked at: {text}") for text in scene.unread)
    yield from _linted("vpods", "waggle lint vpods", len(scene.sets), lint_sets.lint(scene))


def _linted(name: str, command: str, subjects: int, findings: Iterable[SceneFinding]) -> Iterator[Check]:
    found = [each for each in findings if each.rule.severity is not Severity.INFO]
    for finding in found:
        status = Status.FAIL if finding.rule.severity is Severity.ERROR else Status.WARN
        where = f"{finding.subject}: " if finding.subject else ""
        what = f"{where}{finding.rule.code} {finding.rule.name}: {finding.detail}"
        yield Check(name, status, what, finding.rule.mend)
    if not found:
        yield Check(name, Status.OK, f"{subjects}, in which `{command}` finds nothing")


# -- certificates -------------------------------------------------------------------------------------------------


def _certificates(settings: Settings) -> Iterator[Check]:
    tls = settings.server.tls
    if tls is None:
        local = settings.server.host in ("127.0.0.1", "::1", "localhost")
        status = Status.OK if local else Status.WARN
        todo = "" if local else "server.tls; `waggle certs` makes certificates, docs/security.md says why"
        yield Check("certificates", status, f"none: Waggle serves plain HTTP on {settings.server.host}", todo)
        return
    try:
        Certificates(tls).check()
    except SettingsError as error:
        yield Check("certificates", Status.FAIL, str(error), "docs/runbook.md#renewing-certificates")
        return
    files = {"server.tls.cert_file": tls.cert_file, "server.tls.client_ca_file": tls.client_ca_file}
    yield from (_age(field, path) for field, path in files.items() if path is not None)


def _age(field: str, path: Path) -> Check:
    """How long a certificate still holds."""
    try:
        begin, end = lifetime(path.read_bytes())
    except (OSError, ValueError) as error:
        return Check("certificates", Status.FAIL, f"{field}: {path}: {_why(error)}")
    now, todo = datetime.now(UTC), "docs/runbook.md#renewing-certificates"
    what = f"{field}: {path} is valid until {end:%Y-%m-%d} ({(end - now).days} days), since {begin:%Y-%m-%d}"
    if not begin <= now <= end:
        return Check("certificates", Status.FAIL, what, todo)
    return (
        Check("certificates", Status.WARN, what, todo) if end - now < SOON else Check("certificates", Status.OK, what)
    )


# -- kube-scheduler -----------------------------------------------------------------------------------------------


def _kube_scheduler(file: Path | None, settings: Settings) -> Iterator[Check]:
    name = "kube-scheduler"
    if file is None:
        todo = "name its configuration file: --kube-scheduler-config FILE"
        yield Check(name, Status.WARN, "its configuration was not looked at", todo)
        return
    try:
        document = read(file.read_text(encoding="utf-8"))
    except (DocumentError, OSError, UnicodeDecodeError) as error:
        yield Check(name, Status.FAIL, f"{file}: {_why(error)}")
        return
    found = [finding for finding in lint.lint(document, settings) if finding.rule.severity is not Severity.INFO]
    for finding in found:
        status = Status.FAIL if finding.rule.severity is Severity.ERROR else Status.WARN
        what = f"{file}:{finding.line}: {finding.rule.code} {finding.rule.name}: {lint.what(finding)}"
        yield Check(name, status, what, finding.rule.mend)
    if not found:
        yield Check(name, Status.OK, f"{file} agrees with Waggle's configuration")
    yield from _scheduler_certificates(document, settings)


def _scheduler_certificates(document: Document, settings: Settings) -> Iterator[Check]:
    """Check the certificates of kube-scheduler, if its files are on this machine too."""
    for extender in document.root.items("extenders"):
        text = extender.section("tlsConfig").text("certFile")
        path = Path(text) if text else None
        if path is None or not path.is_file():
            continue
        yield _age("kube-scheduler's tlsConfig.certFile", path)
        ca = settings.server.tls.client_ca_file if settings.server.tls else None
        if ca is None:
            continue
        try:
            signed = not not_signed_by(ca.read_bytes(), [first(path.read_bytes())])
        except (OSError, ValueError) as error:
            yield Check("certificates", Status.FAIL, f"{ca}: {_why(error)}")
            continue
        if not signed:
            what = f"{path} of kube-scheduler was not signed by {ca}: every call will be refused"
            yield Check("certificates", Status.FAIL, what, "make both with the same CA: `waggle certs`")


# -- a running Waggle ---------------------------------------------------------------------------------------------


def _running(url: str) -> Check:
    """Ask /readyz of a running Waggle."""
    name = "Waggle"
    try:
        api = connect(ClusterSettings(server=url.removesuffix("/readyz")))
    except ConnectionSettingsError as error:
        return Check(name, Status.FAIL, str(error).replace("cluster.server", "--readyz"))
    try:
        response = api.request("GET", "/readyz", timeout=_TIMEOUT, most=bounds.SMALL_OBJECT)
        answer = msgspec.json.decode(response.body, type=dict[str, Any])
    except ApiError as error:
        return Check(name, Status.FAIL, str(error), "does it run? `waggle serve`, or kubectl -n waggle-system get pods")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Check(name, Status.FAIL, f"{url} is no Waggle")
    finally:
        api.close()
    if not response.ok:
        return Check(name, Status.FAIL, f"{url}: {answer.get('error', response.status)}")
    detail = answer.get("detail", "")
    return Check(name, Status.WARN if detail else Status.OK, f"{url}: {detail or 'ready'}")


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
