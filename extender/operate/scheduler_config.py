"""Writes the KubeSchedulerConfiguration v1 with which a kube-scheduler calls Waggle, each line with its reason.

    local               both on one machine, over the loopback, without TLS: for trying and for tests
    second-scheduler    a kube-scheduler of its own in the cluster, beside the default one: also on managed clusters
    static-pod          the control plane's own kube-scheduler, as kubeadm runs it

What is written is held against the same checks that kube-scheduler makes at its start, and `waggle lint` finds nothing
in it. The reasons behind the lines are in docs/protocol.md.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import yaml

from algorithm.suggest import near
from extender.embedded.kubescheduler.config import (
    API_VERSION,
    DEFAULT_SCHEDULER,
    KIND,
    ConfigError,
    from_kube_scheduler_configuration,
)
from extender.operate.topology import NAMESPACE, Topology
from extender.settings import Settings

#: The DNS name of the Service in the shipped manifests, which its certificate has to hold.
SERVICE = f"waggle.{NAMESPACE}.svc"
PORT = 9096
#: Resources that only mark pods: no node has them, so kube-scheduler must not look for them.
MARKERS = frozenset({"hivedscheduler.microsoft.com/pod-scheduling-enable"})
VERBS = ("filter", "prioritize", "preempt", "bind")
#: What a Lease may be called.
_LEASE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class OptionError(ValueError):
    """The options do not make a working configuration; the message names the option as the command line does."""


@dataclass(frozen=True, kw_only=True)
class SchedulerOptions:
    """What may be chosen. None is "as the topology has it"; an empty text is "without"."""

    topology: Topology
    #: Each becomes a profile; the topology has one.
    scheduler_names: tuple[str, ...] = ()
    #: Where Waggle is, as kube-scheduler reaches it.
    url: str | None = None
    #: Which of VERBS kube-scheduler shall call.
    verbs: tuple[str, ...] = ("filter", "preempt", "bind")
    #: Factor of the scores, if prioritize is among the verbs.
    weight: int = 1
    #: PEM files, as kube-scheduler sees them. Only for https.
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    #: The name in Waggle's certificate, where it is not the host of the URL.
    server_name: str | None = None
    kubeconfig: str | None = None
    node_cache_capable: bool = True
    ignorable: bool = False
    #: Extended resources; only pods that ask for one of them are sent. None at all: every pod.
    managed_resources: tuple[str, ...] = ()
    #: The control plane's own scheduler shall really send every pod, its own add-ons included.
    all_pods: bool = False
    #: A Go duration; None is 10s, or Waggle's own time-out if that is longer.
    http_timeout: str | None = None
    leader_elect: bool | None = None
    #: Requests per second to the API server; None leaves kube-scheduler's default (50).
    qps: int | None = None


@dataclass(frozen=True)
class _Defaults:
    scheduler_name: str
    url: str | None
    kubeconfig: str
    tls_folder: str
    leader_elect: bool
    next_steps: str


def _defaults(topology: Topology) -> _Defaults:
    match topology:
        case Topology.LOCAL:
            return _Defaults(DEFAULT_SCHEDULER, f"http://127.0.0.1:{PORT}", "", "", False, _LOCAL)
        case Topology.SECOND_SCHEDULER:
            url = f"https://{SERVICE}:{PORT}"
            return _Defaults("waggle-scheduler", url, "", "/etc/waggle/client", True, _SECOND_SCHEDULER)
        case Topology.STATIC_POD:
            kubeconfig = "/etc/kubernetes/scheduler.conf"
            return _Defaults(DEFAULT_SCHEDULER, None, kubeconfig, "/etc/kubernetes/waggle", True, _STATIC_POD)


_LOCAL = "Start it with: kube-scheduler --config FILE."
_SECOND_SCHEDULER = """\
Mount it into a kube-scheduler Deployment of its own, with the folder of the certificates, and start that with --config.
Pods choose this scheduler with spec.schedulerName. The default scheduler of the cluster is left as it is."""
_STATIC_POD = """\
Put it and the certificates on every control-plane node, mount both in /etc/kubernetes/manifests/kube-scheduler.yaml
(hostPath), and add --config there. kubelet restarts kube-scheduler then; extenders are read only at its start."""


def kube_scheduler_config(options: SchedulerOptions, settings: Settings | None = None) -> str:
    """The YAML text. Raises OptionError.

    `settings` are Waggle's own: what is not chosen and has to agree with them is taken from them.
    """
    chosen = _complete(options if settings is None else _agreeing(options, settings))
    text = "\n".join([*_head(chosen), *_scheduler(chosen), *_extender(chosen)]) + "\n"
    try:
        from_kube_scheduler_configuration(yaml.safe_load(text))
    except ConfigError as error:
        raise OptionError(f"kube-scheduler would refuse this: {error}") from error
    return text


# -- what Waggle's own configuration says ---------------------------------------------------------------------------


def _agreeing(options: SchedulerOptions, settings: Settings) -> SchedulerOptions:
    """The options, and for what they leave open what Waggle's own settings say. Raises OptionError."""
    seconds = math.ceil(settings.cluster.request_timeout_seconds)
    names, resource = settings.pods.scheduler_names, settings.pods.resource
    return replace(
        options,
        scheduler_names=options.scheduler_names or names,
        url=_agreeing_url(options, settings) if options.url is None else options.url,
        managed_resources=options.managed_resources or ((resource,) if resource else ()),
        http_timeout=options.http_timeout or f"{max(10, seconds)}s",
    )


def _agreeing_url(options: SchedulerOptions, settings: Settings) -> str | None:
    """Where the topology has Waggle, with its scheme and port."""
    usual = _defaults(options.topology).url
    if usual is None:
        return None
    scheme = "http" if settings.server.tls is None else "https"
    host = urlsplit(usual).hostname or ""
    if scheme == "http" and not is_loopback(host):
        raise OptionError(
            f"--config: Waggle's server.tls is not set, and {options.topology} needs https; "
            "`waggle certs` makes certificates"
        )
    port = settings.server.port or PORT
    return f"{scheme}://{host}:{port}"


# -- what was chosen ----------------------------------------------------------------------------------------------


def _complete(options: SchedulerOptions) -> SchedulerOptions:
    """The options with the topology's defaults. Raises OptionError."""
    usual = _defaults(options.topology)
    _check_verbs(options)
    _check_pods(options)
    address = options.url if options.url is not None else usual.url
    if address is None:
        raise OptionError(
            "--url: needed for static-pod. kube-scheduler runs there with the node's DNS, which knows no Services. "
            "Give the Service's IP: https://$(kubectl -n "
            f"{NAMESPACE} get service waggle -o 'jsonpath={{.spec.clusterIP}}'):{PORT}"
        )
    url = _url(address)
    chosen = replace(
        _with_tls(options, url, usual.tls_folder),
        url=address.rstrip("/"),
        scheduler_names=options.scheduler_names or (usual.scheduler_name,),
        kubeconfig=_kubeconfig(options, usual),
        leader_elect=usual.leader_elect if options.leader_elect is None else options.leader_elect,
        http_timeout=options.http_timeout or "10s",
    )
    _check_lease(chosen)
    return chosen


def _kubeconfig(options: SchedulerOptions, usual: _Defaults) -> str:
    """The file by which kube-scheduler reaches the API server; "" in a pod. Raises OptionError."""
    if options.kubeconfig is not None:
        return options.kubeconfig
    if options.topology is not Topology.LOCAL:
        return usual.kubeconfig
    files = [file for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]
    if len(files) > 1:
        raise OptionError(f"--kubeconfig: KUBECONFIG names {len(files)} files, and kube-scheduler reads one: name it")
    return str(Path(files[0]).absolute() if files else Path.home() / ".kube" / "config")


def _check_lease(chosen: SchedulerOptions) -> None:
    name = chosen.scheduler_names[0]
    if _has_lease_of_its_own(chosen) and not _LEASE_NAME.fullmatch(name):
        raise OptionError(f"--scheduler-name: {name!r} cannot be the name of its lease too: a-z, 0-9, - and dots")


def _has_lease_of_its_own(chosen: SchedulerOptions) -> bool:
    return bool(chosen.leader_elect) and DEFAULT_SCHEDULER not in chosen.scheduler_names


def _check_verbs(options: SchedulerOptions) -> None:
    unknown = [verb for verb in options.verbs if verb not in VERBS]
    if unknown:
        raise OptionError(f"--verb: {unknown[0]!r} is none of {', '.join(VERBS)}{near(unknown[0], VERBS)}")
    if "filter" not in options.verbs:
        raise OptionError("--verb: filter is needed: Waggle decides there, and binds only what it proposed there")
    if options.ignorable and "bind" in options.verbs:
        raise OptionError(
            "--ignorable: not together with the verb bind: a bind that Waggle refuses would be done all the same"
        )
    if options.weight != 1 and "prioritize" not in options.verbs:
        raise OptionError("--weight: counts only with --verb prioritize, beside --verb filter and the others")


def _check_pods(options: SchedulerOptions) -> None:
    names = options.scheduler_names or (_defaults(options.topology).scheduler_name,)
    everybody = options.topology is Topology.STATIC_POD and DEFAULT_SCHEDULER in names
    if everybody and not options.managed_resources and not options.all_pods:
        raise OptionError(
            "--managed-resource: needed for static-pod (example.com/gpu, say): without it every pod of the cluster "
            "waits for Waggle, Waggle's own and those of kube-system too. --all-pods if that is what you want"
        )


def _url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        port_is_fine = url.port != 0
    except ValueError as error:
        raise OptionError(f"--url: {text!r}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or not port_is_fine:
        raise OptionError(f"--url: {text!r} must be http(s)://host:port")
    if url.username or url.query or url.fragment:
        raise OptionError("--url: must hold no user, query or fragment: kube-scheduler puts it into pods' events")
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise OptionError(f"--url: plain http only on the loopback; {url.hostname} needs https")
    return url


def is_loopback(host: str) -> bool:
    """Whether a name or address in a URL stays on this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _with_tls(options: SchedulerOptions, url: SplitResult, folder: str) -> SchedulerOptions:
    chosen = _no_tls(options) if url.scheme == "http" else _mutual_tls(options, url.hostname or "", folder)
    if url.scheme == "https" and not chosen.ca_file:
        raise OptionError("--ca-file: needed for https: without it kube-scheduler trusts the system's authorities only")
    if bool(chosen.cert_file) != bool(chosen.key_file):
        raise OptionError("--cert, --key: only both together; kube-scheduler silently sends no certificate otherwise")
    return chosen


def _no_tls(options: SchedulerOptions) -> SchedulerOptions:
    if options.ca_file or options.cert_file or options.key_file or options.server_name:
        raise OptionError("--ca-file, --cert, --key, --server-name: of no use with an http:// URL")
    return replace(options, ca_file="", cert_file="", key_file="", server_name="")


def _mutual_tls(options: SchedulerOptions, host: str, folder: str) -> SchedulerOptions:
    def usual(given: str | None, default: str) -> str:
        return (default if folder else "") if given is None else given

    return replace(
        options,
        ca_file=usual(options.ca_file, f"{folder}/ca.crt"),
        cert_file=usual(options.cert_file, f"{folder}/tls.crt"),
        key_file=usual(options.key_file, f"{folder}/tls.key"),
        server_name=usual(options.server_name, SERVICE if _is_address(host) else ""),
    )


# -- what is written ----------------------------------------------------------------------------------------------


def _head(chosen: SchedulerOptions) -> list[str]:
    steps = _defaults(chosen.topology).next_steps.splitlines()
    return [
        f"# kube-scheduler with Waggle as its extender, topology {chosen.topology}.",
        "# Written by `waggle kube-scheduler-config`.",
        *(f"# {line}" for line in steps),
        "# `waggle lint FILE` checks it after a change; docs/kube-scheduler-config.md explains every line.",
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
    ]


def _scheduler(chosen: SchedulerOptions) -> list[str]:
    return [
        *_client_connection(chosen),
        *_leader_election(chosen),
        "# Offer all nodes that fit. The default is a sample, which may not hold the one node that Waggle wants.",
        "percentageOfNodesToScore: 100",
        "profiles:",
        *(f"  - schedulerName: {_scalar(name)}" for name in chosen.scheduler_names),
    ]


def _client_connection(chosen: SchedulerOptions) -> list[str]:
    fields = [f"  kubeconfig: {_scalar(chosen.kubeconfig)}"] if chosen.kubeconfig else []
    if chosen.qps is not None:
        fields += [f"  qps: {chosen.qps}", f"  burst: {2 * chosen.qps}"]
    without = [] if chosen.kubeconfig else ["# No kubeconfig: it uses the service account of its pod."]
    return [*without, *(["clientConnection:", *fields] if fields else [])]


def _leader_election(chosen: SchedulerOptions) -> list[str]:
    if not chosen.leader_elect:
        return ["# One replica only.", "leaderElection:", "  leaderElect: false"]
    lines = ["leaderElection:", "  leaderElect: true"]
    if _has_lease_of_its_own(chosen):
        lines += [
            "  # A lease of its own: with the default one it would wait until the cluster's scheduler is gone.",
            f"  resourceName: {_scalar(chosen.scheduler_names[0])}",
            f"  resourceNamespace: {NAMESPACE}",
        ]
    return lines


def _extender(chosen: SchedulerOptions) -> list[str]:
    return [
        "extenders:",
        f"  - urlPrefix: {_scalar(chosen.url)}",
        *(f"    {line}" for part in (_verbs, _calls, _tls_config, _managed_resources) for line in part(chosen)),
    ]


def _verbs(chosen: SchedulerOptions) -> list[str]:
    lines = ["# Waggle decides here.", "filterVerb: filter"]
    if "prioritize" in chosen.verbs:
        lines += [
            "# Score x 10 x weight is added to what the other plug-ins say (some 470 for an idle node).",
            "prioritizeVerb: prioritize",
            f"weight: {chosen.weight}",
        ]
    if "preempt" in chosen.verbs:
        lines += ["# Without it, pods are evicted for a pod that Waggle then refuses.", "preemptVerb: preempt"]
    if "bind" in chosen.verbs:
        lines += ["# Waggle writes the binding, with the annotations that a restart reads back.", "bindVerb: bind"]
    return lines


def _calls(chosen: SchedulerOptions) -> list[str]:
    flags = {True: "true", False: "false"}
    names = "Names" if chosen.node_cache_capable else "Whole Node objects"
    ignored = "A failing call counts as yes." if chosen.ignorable else "true would make a failing call count as yes."
    return [
        f"# {names} are sent; whole objects cost ten times the CPU, and falsify scores in 1.34 to 1.36.",
        f"nodeCacheCapable: {flags[chosen.node_cache_capable]}",
        f"# {ignored}",
        f"ignorable: {flags[chosen.ignorable]}",
        "# Covers a bind as well, for which the API server may need its time; 5s if absent.",
        f"httpTimeout: {_scalar(chosen.http_timeout)}",
    ]


def _tls_config(chosen: SchedulerOptions) -> list[str]:
    if not chosen.ca_file:
        return []
    lines = [
        "# https:// above chooses TLS; this says with which certificates. enableHTTPS would add nothing.",
        "tlsConfig:",
        f"  caFile: {_scalar(chosen.ca_file)}",
    ]
    if chosen.cert_file:
        lines += [f"  certFile: {_scalar(chosen.cert_file)}", f"  keyFile: {_scalar(chosen.key_file)}"]
    if chosen.server_name:
        lines += ["  # The name in Waggle's certificate.", f"  serverName: {_scalar(chosen.server_name)}"]
    return lines


def _managed_resources(chosen: SchedulerOptions) -> list[str]:
    if not chosen.managed_resources:
        return ["# No managedResources: every pod of the profiles above is sent, and waits for Waggle."]
    lines = [
        "# Only pods that ask for one of these are sent, and they are never bound without Waggle.",
        "managedResources:",
    ]
    for name in chosen.managed_resources:
        lines.append(f"  - name: {_scalar(name)}")
        if name in MARKERS:
            lines += ["    # It only marks pods: no node has it.", "    ignoredByScheduler: true"]
        else:
            lines += [
                "    # kube-scheduler counts it too, and so sees when preemption helps.",
                "    ignoredByScheduler: false",
            ]
    return lines


def _scalar(value: Any) -> str:
    """A value as it stands in YAML, quoted if need be."""
    return yaml.safe_dump(value, width=10_000, allow_unicode=True).removesuffix("\n").removesuffix("\n...")
