"""Rules about the way from kube-scheduler to the extender: URL, TLS, time-out."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from extender.embedded.kubescheduler.config import go_duration
from extender.operate.document import At, Section
from extender.operate.rules import Severity, rule
from extender.operate.scheduler_config import is_loopback

VERBS = ("filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb")
_DEFAULT_TIMEOUT_SECONDS = 5
_LONGEST_TIMEOUT_SECONDS = 30


def url_of(extender: Section) -> SplitResult:
    """Its parts; of a URL that cannot be taken apart, none."""
    try:
        url = urlsplit(extender.text("urlPrefix"))
        url.port  # noqa: B018 - may raise
    except ValueError:
        return urlsplit("")
    return url


def _extenders(config: Section, scheme: str) -> Iterator[tuple[Section, SplitResult]]:
    for extender in config.items("extenders"):
        url = url_of(extender)
        if url.scheme == scheme:
            yield extender, url


def _has_ca(extender: Section) -> bool:
    tls = extender.section("tlsConfig")
    return bool(tls.text("caFile") or tls.text("caData"))


# -- the URL ------------------------------------------------------------------------------------------------------


@rule(
    "WL301",
    "url-unusable",
    Severity.ERROR,
    happens="kube-scheduler starts all the same, and then every call fails: the pods get SchedulerError.",
    mend="urlPrefix: https://host:port, perhaps with a path, but without query or fragment; the verb is appended to "
    "it.",
)
def url_unusable(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        url = url_of(extender)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
            yield extender.at("urlPrefix")


@rule(
    "WL302",
    "trailing-slash",
    Severity.INFO,
    happens="Nothing: kube-scheduler takes trailing slashes of urlPrefix away before it appends the verb.",
    mend="Leave the slash out; other programs that read this file may not be as kind.",
)
def trailing_slash(config: Section) -> Iterator[At]:
    yield from (e.at("urlPrefix") for e in config.items("extenders") if e.text("urlPrefix").endswith("/"))


@rule(
    "WL303",
    "slash-in-verb",
    Severity.WARNING,
    happens="The verb is appended with a slash of its own, so the call goes to //filter or filter/: a 404 with most "
    "servers, or a redirect that doubles every call. Waggle serves it all the same.",
    mend="Write the verb without slashes around it: filterVerb: filter.",
)
def slash_in_verb(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        for verb in VERBS:
            if extender.text(verb) != extender.text(verb).strip("/"):
                yield extender.at(verb)


@rule(
    "WL304",
    "plain-http",
    Severity.WARNING,
    happens="Anyone on the way reads all pods and can answer in Waggle's name; and anyone who reaches the port can "
    "bind pods, since kube-scheduler cannot show a certificate.",
    mend="https with tlsConfig.caFile, certFile and keyFile (`waggle certs` makes them). Plain HTTP is for the "
    "loopback.",
)
def plain_http(config: Section) -> Iterator[At]:
    yield from (e.at("urlPrefix") for e, url in _extenders(config, "http") if not is_loopback(url.hostname or ""))


@rule(
    "WL305",
    "password-in-url",
    Severity.WARNING,
    happens="kube-scheduler writes the URL into its error messages, and these into the events of pods: users of the "
    "cluster read the password there.",
    mend="Let kube-scheduler show a client certificate instead: tlsConfig.certFile and keyFile.",
)
def password_in_url(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if url_of(extender).username is not None:
            yield extender.at("urlPrefix")


@rule(
    "WL306",
    "cluster-dns",
    Severity.WARNING,
    happens="This looks like the control plane's static pod, which uses the DNS of its node: that does not know the "
    "names of Services, and every call fails with `no such host`.",
    mend="Name the Service's IP and set tlsConfig.serverName to its DNS name; or give the static pod dnsPolicy: "
    "ClusterFirstWithHostNet, which then needs the cluster's DNS for scheduling.",
)
def cluster_dns(config: Section) -> Iterator[At]:
    if not config.section("clientConnection").text("kubeconfig").startswith("/etc/kubernetes/"):
        return
    for extender in config.items("extenders"):
        if (url_of(extender).hostname or "").endswith((".svc", ".cluster.local")):
            yield extender.at("urlPrefix")


# -- TLS ----------------------------------------------------------------------------------------------------------


@rule(
    "WL311",
    "tls-without-https",
    Severity.ERROR,
    happens="Calls go in clear text: urlPrefix alone chooses the scheme, and it says http. enableHTTPS and tlsConfig "
    "are not used.",
    mend="https:// in urlPrefix, if that is what is served; otherwise take enableHTTPS and tlsConfig away.",
)
def tls_without_https(config: Section) -> Iterator[At]:
    for extender, _ in _extenders(config, "http"):
        if extender.flag("enableHTTPS"):
            yield extender.at("enableHTTPS")
        elif "tlsConfig" in extender:
            yield extender.at("tlsConfig")


@rule(
    "WL312",
    "https-without-ca",
    Severity.ERROR,
    happens="enableHTTPS without a CA means 'do not verify': kube-scheduler silently accepts any certificate, and "
    "anyone who answers in Waggle's place decides where pods go.",
    mend="tlsConfig.caFile with the CA of Waggle's certificate. enableHTTPS is then not needed.",
)
def https_without_ca(config: Section) -> Iterator[At]:
    for extender, _ in _extenders(config, "https"):
        verifying = _has_ca(extender) or extender.section("tlsConfig").flag("insecure")
        if extender.flag("enableHTTPS") and not verifying:
            yield extender.at("enableHTTPS")


@rule(
    "WL313",
    "insecure",
    Severity.ERROR,
    happens="kube-scheduler accepts any certificate, and anyone who answers in Waggle's place decides where pods go. "
    "Together with a CA it does not even start.",
    mend="Take tlsConfig.insecure away and name the CA in caFile. If the name does not fit, set serverName.",
)
def insecure(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.section("tlsConfig").flag("insecure") and not _has_ca(extender):
            yield extender.section("tlsConfig").at("insecure")


@rule(
    "WL314",
    "insecure-with-ca",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: verifying and not verifying exclude each other.",
    mend="Take tlsConfig.insecure away.",
)
def insecure_with_ca(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.section("tlsConfig").flag("insecure") and _has_ca(extender):
            yield extender.section("tlsConfig").at("insecure")


@rule(
    "WL315",
    "system-authorities",
    Severity.WARNING,
    happens="Waggle's certificate is checked against the authorities of the system that kube-scheduler runs on. One "
    "from `waggle certs` or cert-manager is signed by none of these: every call fails with `unknown authority`.",
    mend="tlsConfig.caFile with the CA of Waggle's certificate.",
)
def system_authorities(config: Section) -> Iterator[At]:
    for extender, _ in _extenders(config, "https"):
        unverified = extender.flag("enableHTTPS") or extender.section("tlsConfig").flag("insecure")
        if not unverified and not _has_ca(extender):
            yield extender.section("tlsConfig").at("caFile")


@rule(
    "WL316",
    "no-client-certificate",
    Severity.WARNING,
    happens="kube-scheduler proves nothing about itself. A Waggle with server.tls.client_ca_file refuses every call; "
    "one without serves anybody who reaches its port.",
    mend="tlsConfig.certFile and keyFile; `waggle certs` makes a certificate for kube-scheduler.",
)
def no_client_certificate(config: Section) -> Iterator[At]:
    for extender, _ in _extenders(config, "https"):
        if not any(_client_certificate(extender)):
            yield extender.section("tlsConfig").at("certFile")


@rule(
    "WL317",
    "half-client-certificate",
    Severity.ERROR,
    happens="kube-scheduler starts, and silently shows no certificate at all: it needs certificate and key.",
    mend="tlsConfig.certFile and tlsConfig.keyFile, both.",
)
def half_client_certificate(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        certificate, key = _client_certificate(extender)
        if certificate != key:
            yield extender.section("tlsConfig").at("keyFile" if certificate else "certFile")


def has_client_certificate(extender: Section) -> bool:
    """Whether kube-scheduler shows a certificate: it has one, and its key."""
    return all(_client_certificate(extender))


def _client_certificate(extender: Section) -> tuple[bool, bool]:
    """Whether there is a certificate, and a key."""
    tls = extender.section("tlsConfig")
    return bool(tls.text("certFile") or tls.text("certData")), bool(tls.text("keyFile") or tls.text("keyData"))


# -- time ---------------------------------------------------------------------------------------------------------


def go_timeout(extender: Section) -> float | None:
    """Seconds; 0 if it is not set, None if it is no duration."""
    text = extender.text("httpTimeout")
    try:
        return -1.0 if text.startswith("-") else go_duration(text or "0")
    except ValueError:
        return None


@rule(
    "WL321",
    "default-timeout",
    Severity.WARNING,
    happens="5 s for a call, the connection included. A bind waits for the API server: if that takes longer, the "
    "binding is written and the pod is marked as failed to schedule all the same, for good.",
    mend="httpTimeout: 10s, and cluster.request_timeout_seconds of Waggle not above it.",
)
def default_timeout(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        if extender.text("bindVerb") and "httpTimeout" not in extender:
            yield extender.at("httpTimeout")
        elif extender.text("bindVerb") and go_timeout(extender) == 0:
            yield extender.at("httpTimeout", "0 means 5s")


@rule(
    "WL322",
    "short-timeout",
    Severity.WARNING,
    happens="A busy moment of Waggle or the API server fails pods: SchedulerError, seconds of back-off, and for a "
    "bind perhaps a running pod that is marked as failed.",
    mend="httpTimeout: 10s. It bounds the worst case, it slows nothing down.",
)
def short_timeout(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        seconds = go_timeout(extender)
        if seconds is not None and 0 < seconds < _DEFAULT_TIMEOUT_SECONDS:
            yield extender.at("httpTimeout")


@rule(
    "WL323",
    "long-timeout",
    Severity.WARNING,
    happens="While filter is not answered, kube-scheduler schedules nothing at all: one hanging call stops the "
    "cluster for this long. A negative time-out waits for ever.",
    mend="httpTimeout: 10s.",
)
def long_timeout(config: Section) -> Iterator[At]:
    for extender in config.items("extenders"):
        seconds = go_timeout(extender)
        if seconds is not None and (seconds > _LONGEST_TIMEOUT_SECONDS or seconds < 0):
            yield extender.at("httpTimeout")
