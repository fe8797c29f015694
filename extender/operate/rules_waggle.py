"""Rules that compare kube-scheduler's configuration with Waggle's own file: `waggle lint FILE --config waggle.yaml`.

Each file alone may be right, and both together wrong: pods that are never sent, a port on which nobody listens, a
client certificate that Waggle requires and kube-scheduler does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import SplitResult

from extender.operate.document import At, Section
from extender.operate.rules import Severity, waggle_rule
from extender.operate.rules_connection import go_timeout, has_client_certificate, url_of
from extender.operate.rules_scheduler import scheduler_names
from extender.operate.scheduler_config import MARKERS, SERVICE, is_loopback
from extender.settings import Settings

#: kube-scheduler's own httpTimeout.
_DEFAULT_SECONDS = 5


def _ours(config: Section, settings: Settings) -> list[Section]:
    """The extenders that are this Waggle: the only one, or of several those with its port."""
    extenders = config.items("extenders")
    same_port = [extender for extender in extenders if url_of(extender).port == settings.server.port]
    return extenders if len(extenders) == 1 or not same_port else same_port


def _resources(extender: Section) -> list[Section]:
    return [each for each in extender.items("managedResources") if each.text("name")]


def _ignored(extender: Section, name: str) -> bool:
    return any(each.text("name") == name and each.flag("ignoredByScheduler") for each in _resources(extender))


@waggle_rule(
    "WL601",
    "marker-not-managed",
    Severity.ERROR,
    happens="`pods.resource` in Waggle's configuration only marks pods, and no node has it. Unless it stands in "
    "managedResources with ignoredByScheduler: true, kube-scheduler counts it itself: its pods wait for ever on "
    "`Insufficient` that resource, without a call to Waggle.",
    mend="managedResources with this name and ignoredByScheduler: true; `waggle kube-scheduler-config --config FILE` "
    "writes it.",
)
def marker_not_managed(config: Section, settings: Settings) -> Iterator[At]:
    name = settings.pods.resource
    if name not in MARKERS:
        return
    for extender in _ours(config, settings):
        if not any(each.text("name") == name for each in _resources(extender)):
            yield extender.at("managedResources", f"pods.resource of Waggle is {name}")


@waggle_rule(
    "WL602",
    "pods-not-sent",
    Severity.ERROR,
    happens="The pods that Waggle is to schedule are not sent to it: kube-scheduler places them alone, and Waggle only "
    "sees them appear on nodes.",
    mend="managedResources with the resource that `pods.resource` in Waggle's configuration names.",
)
def pods_not_sent(config: Section, settings: Settings) -> Iterator[At]:
    name = settings.pods.resource
    if not name or name in MARKERS:
        return
    for extender in _ours(config, settings):
        names = [each.text("name") for each in _resources(extender)]
        if names and name not in names:
            yield extender.at("managedResources", f"pods.resource of Waggle is {name}")


@waggle_rule(
    "WL603",
    "sent-for-nothing",
    Severity.WARNING,
    happens="Pods that ask for this resource are sent to Waggle, which lets all nodes pass: it is not its "
    "`pods.resource`. Each of their attempts costs a call, and they wait while Waggle is away.",
    mend="Take the resource out of managedResources, or make it the `pods.resource` of Waggle's configuration.",
)
def sent_for_nothing(config: Section, settings: Settings) -> Iterator[At]:
    if not settings.pods.resource:
        return
    for extender in _ours(config, settings):
        for each in _resources(extender):
            if each.text("name") != settings.pods.resource:
                yield each.at("name", f"pods.resource of Waggle is {settings.pods.resource}")


@waggle_rule(
    "WL604",
    "other-scheduler-names",
    Severity.ERROR,
    happens="No profile here has a name of `pods.scheduler_names` in Waggle's configuration: Waggle lets all nodes "
    "pass for every pod that it is asked about, and its own pods wait for a scheduler that does not exist.",
    mend="The same names on both sides.",
)
def other_scheduler_names(config: Section, settings: Settings) -> Iterator[At]:
    wanted = settings.pods.scheduler_names
    if wanted and not set(wanted) & set(scheduler_names(config)):
        yield config.at("profiles", f"pods.scheduler_names of Waggle: {', '.join(wanted)}")


@waggle_rule(
    "WL605",
    "other-port",
    Severity.WARNING,
    happens="Waggle listens on another port: every call fails, unless a Service or a proxy on the way maps the one to "
    "the other.",
    mend="The port of `server.port` in urlPrefix.",
)
def other_port(config: Section, settings: Settings) -> Iterator[At]:
    for extender in _ours(config, settings):
        url = url_of(extender)
        port = url.port or (443 if url.scheme == "https" else 80)
        if url.hostname and settings.server.port not in (0, port) and _is_direct(url):
            yield extender.at("urlPrefix", f"server.port of Waggle is {settings.server.port}")


def _is_direct(url: SplitResult) -> bool:
    """Whether nothing but the shipped Service, which maps no ports, is on the way."""
    return is_loopback(url.hostname or "") or url.hostname == SERVICE


@waggle_rule(
    "WL606",
    "other-scheme",
    Severity.ERROR,
    happens="One side speaks TLS and the other does not: every call fails.",
    mend="https:// in urlPrefix if Waggle's configuration has `server.tls`; http://, on the loopback only, if it has "
    "not.",
)
def other_scheme(config: Section, settings: Settings) -> Iterator[At]:
    serves = "http" if settings.server.tls is None else "https"
    for extender in _ours(config, settings):
        if url_of(extender).scheme not in ("", serves):
            is_set = "set" if settings.server.tls is not None else "not set"
            yield extender.at("urlPrefix", f"Waggle serves {serves}: server.tls is {is_set}")


@waggle_rule(
    "WL607",
    "certificate-asked-for",
    Severity.ERROR,
    happens="Waggle has `server.tls.client_ca_file` and asks each caller for a certificate. kube-scheduler shows none, "
    "and every TLS handshake fails.",
    mend="tlsConfig.certFile and keyFile; `waggle certs` makes them.",
)
def certificate_asked_for(config: Section, settings: Settings) -> Iterator[At]:
    if settings.server.tls is None or settings.server.tls.client_ca_file is None:
        return
    for extender in _ours(config, settings):
        if url_of(extender).scheme == "https" and not has_client_certificate(extender):
            yield extender.section("tlsConfig").at("certFile")


@waggle_rule(
    "WL608",
    "timeout-below-waggles",
    Severity.WARNING,
    happens="A bind waits for the API server for up to `cluster.request_timeout_seconds`. kube-scheduler gives up "
    "before, and marks a pod as failed that is bound a moment later.",
    mend="An httpTimeout that is not below cluster.request_timeout_seconds of Waggle's configuration.",
)
def timeout_below_waggles(config: Section, settings: Settings) -> Iterator[At]:
    needed = settings.cluster.request_timeout_seconds
    for extender in _ours(config, settings):
        seconds = go_timeout(extender)
        if (
            extender.text("bindVerb")
            and seconds is not None
            and seconds >= 0
            and (seconds or _DEFAULT_SECONDS) < needed
        ):
            yield extender.at("httpTimeout", f"cluster.request_timeout_seconds of Waggle is {needed:g}")


@waggle_rule(
    "WL609",
    "nobody-evicts",
    Severity.WARNING,
    happens="Waggle leaves evictions to kube-scheduler (`preemption.mode: kube-scheduler`), and kube-scheduler never "
    "asks for them: no pod is ever preempted.",
    mend="preemptVerb: preempt, and ignoredByScheduler: false where nodes have the resource; or preemption.mode: auto.",
)
def nobody_evicts(config: Section, settings: Settings) -> Iterator[At]:
    if settings.preemption.mode != "kube-scheduler":
        return
    for extender in _ours(config, settings):
        if not extender.text("preemptVerb"):
            yield extender.at("preemptVerb")
        elif settings.pods.resource and _ignored(extender, settings.pods.resource):
            yield extender.at("managedResources", f"{settings.pods.resource} is ignored by kube-scheduler")
