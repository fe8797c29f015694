"""Rules about kube-scheduler itself: what it offers, its lease, its profiles and plug-ins, its patience."""

from __future__ import annotations

from collections.abc import Iterator

from extender.embedded.kubescheduler.config import DEFAULT_SCHEDULER
from extender.operate.document import At, Section
from extender.operate.rules import Severity, rule
from extender.operate.rules_connection import url_of
from extender.operate.scheduler_config import is_loopback

#: kube-scheduler's own defaults.
_LEASE_NAME, _LEASE_NAMESPACE = "kube-scheduler", "kube-system"
_QPS = 50
_LONGEST_BACKOFF_SECONDS = 60
_LEAST_PARALLELISM = 4


def scheduler_names(config: Section) -> list[str]:
    """Of the profiles; there is one if none is written."""
    return [profile.text("schedulerName") or DEFAULT_SCHEDULER for profile in config.items("profiles")] or [
        DEFAULT_SCHEDULER
    ]


def for_trying(config: Section) -> bool:
    """One kube-scheduler without leader election that calls nobody but this machine: no cluster depends on it."""
    alone = not config.section("leaderElection").flag("leaderElect", default=True)
    hosts = [url_of(extender).hostname or "" for extender in config.items("extenders")]
    return alone and all(is_loopback(host) for host in hosts)


def managed(extender: Section) -> list[str]:
    return [resource.text("name") for resource in extender.items("managedResources")]


@rule(
    "WL201",
    "sample-of-nodes",
    Severity.WARNING,
    happens="With 100 nodes or more, kube-scheduler offers only a sample (420 of 1,000). The node that Waggle wants "
    "may not be in it: after some fast attempts the pod waits until an unrelated event wakes it.",
    mend="percentageOfNodesToScore: 100, and no other value in a profile.",
)
def sample_of_nodes(config: Section) -> Iterator[At]:
    if not config.items("extenders"):
        return
    profiles = config.items("profiles")
    own = [profile for profile in profiles if "percentageOfNodesToScore" in profile]
    yield from (
        profile.at("percentageOfNodesToScore") for profile in own if profile.number("percentageOfNodesToScore") != 100
    )
    all_have_their_own = profiles and len(own) == len(profiles)
    if not all_have_their_own and config.number("percentageOfNodesToScore") != 100:
        yield config.at("percentageOfNodesToScore")


@rule(
    "WL202",
    "shared-lease",
    Severity.ERROR,
    happens="A second scheduler with the default lease waits for the cluster's own scheduler to go away, and then "
    "that one waits: only one of them works at a time, and the pods of the other stay Pending without a word.",
    mend="Give leaderElection a resourceName and resourceNamespace of its own (and the right to get, create and "
    "update it).",
)
def shared_lease(config: Section) -> Iterator[At]:
    election = config.section("leaderElection")
    name = election.text("resourceName") or _LEASE_NAME
    namespace = election.text("resourceNamespace") or _LEASE_NAMESPACE
    second = DEFAULT_SCHEDULER not in scheduler_names(config)
    if second and election.flag("leaderElect", default=True) and (name, namespace) == (_LEASE_NAME, _LEASE_NAMESPACE):
        yield election.at("resourceName")


@rule(
    "WL203",
    "no-leader-election",
    Severity.INFO,
    happens="Two replicas, or the old and the new one during a rollout, would both schedule the same pods. This is not "
    "reported if all extenders are on the loopback.",
    mend="Leave it so for one process on one machine; otherwise leaderElect: true.",
)
def no_leader_election(config: Section) -> Iterator[At]:
    election = config.section("leaderElection")
    if not election.flag("leaderElect", default=True) and not for_trying(config):
        yield election.at("leaderElect")


@rule(
    "WL204",
    "extenders-of-all-profiles",
    Severity.WARNING,
    happens="Extenders belong to all profiles, not to one: an extender without managedResources gets every pod of "
    "every profile, and those wait for it too.",
    mend="Give the extender managedResources, or the other profiles a kube-scheduler of their own.",
)
def extenders_of_all_profiles(config: Section) -> Iterator[At]:
    if len(config.items("profiles")) > 1:
        yield from (e.at("managedResources") for e in config.items("extenders") if not managed(e))


# -- plug-ins -----------------------------------------------------------------------------------------------------


def _disabled(profile: Section, point: str, plugin: str) -> Iterator[At]:
    """Where a plug-in is switched off, at its point or everywhere."""
    for where in (point, "multiPoint"):
        for entry in profile.section("plugins").section(where).items("disabled"):
            if entry.text("name") in (plugin, "*"):
                yield entry.at("name")


def _enabled(profile: Section, *points: str) -> set[str]:
    plugins = profile.section("plugins")
    return {entry.text("name") for point in points for entry in plugins.section(point).items("enabled")}


@rule(
    "WL205",
    "no-preemption",
    Severity.WARNING,
    happens="Without the plug-in DefaultPreemption nobody is evicted and the extender's preemptVerb is never called: "
    "pods of high priority wait.",
    mend="Leave DefaultPreemption enabled, or let Waggle evict by itself (preemption.mode in its configuration).",
)
def no_preemption(config: Section) -> Iterator[At]:
    if not any(extender.text("preemptVerb") for extender in config.items("extenders")):
        return
    for profile in config.items("profiles"):
        if "DefaultPreemption" not in _enabled(profile, "postFilter", "multiPoint"):
            yield from _disabled(profile, "postFilter", "DefaultPreemption")


@rule(
    "WL206",
    "no-binder",
    Severity.ERROR,
    refused=True,
    happens="kube-scheduler does not start: a profile needs a bind plug-in, even if an extender binds.",
    mend="Leave DefaultBinder enabled; for pods of an extender with bindVerb it is not used.",
)
def no_binder(config: Section) -> Iterator[At]:
    for profile in config.items("profiles"):
        if not _enabled(profile, "bind", "multiPoint"):
            yield from _disabled(profile, "bind", "DefaultBinder")


@rule(
    "WL207",
    "fit-leaves-out-resource",
    Severity.WARNING,
    happens="kube-scheduler's own check does not count the resource, so it never sees that evicting pods would help, "
    "and the preemptVerb is not called for it.",
    mend="Let NodeResourcesFit count what the extender manages.",
)
def fit_leaves_out_resource(config: Section) -> Iterator[At]:
    names = [name for extender in config.items("extenders") for name in managed(extender)]
    for profile in config.items("profiles"):
        if names and "NodeResourcesFit" not in _enabled(profile, "filter", "multiPoint"):
            yield from _disabled(profile, "filter", "NodeResourcesFit")
        for plugin in profile.items("pluginConfig"):
            if plugin.text("name") == "NodeResourcesFit":
                yield from _ignored(plugin.section("args"), names)


def _ignored(args: Section, names: list[str]) -> Iterator[At]:
    for field, wanted in (
        ("ignoredResources", set(names)),
        ("ignoredResourceGroups", {name.partition("/")[0] for name in names}),
    ):
        given = args.fields.get(field)
        both = sorted(wanted & {str(each) for each in given}) if isinstance(given, list) else []
        if both:
            yield args.at(field, ", ".join(both))


# -- how fast -----------------------------------------------------------------------------------------------------


@rule(
    "WL208",
    "long-backoff",
    Severity.WARNING,
    happens="A pod whose call to the extender failed waits this long before it is tried again, and nothing shortens "
    "that: after an outage of Waggle pods go on waiting although all is well.",
    mend="Leave podMaxBackoffSeconds at 10 and podInitialBackoffSeconds at 1.",
)
def long_backoff(config: Section) -> Iterator[At]:
    for field in ("podInitialBackoffSeconds", "podMaxBackoffSeconds"):
        if (config.number(field) or 0) > _LONGEST_BACKOFF_SECONDS:
            yield config.at(field)


@rule(
    "WL209",
    "low-parallelism",
    Severity.WARNING,
    happens="Nodes are looked at by so few workers that with all nodes offered each attempt takes long; below 1 "
    "kube-scheduler does not start.",
    mend="Leave parallelism at its default, 16.",
)
def low_parallelism(config: Section) -> Iterator[At]:
    workers = config.number("parallelism")
    if workers is not None and workers < _LEAST_PARALLELISM:
        yield config.at("parallelism")


@rule(
    "WL210",
    "slow-client",
    Severity.WARNING,
    happens="kube-scheduler writes no more than this to the API server per second: conditions and events of pods that "
    "wait, evictions, and the bindings that it writes itself.",
    mend=f"Leave clientConnection.qps at its default of {_QPS}, or raise it (and burst).",
)
def slow_client(config: Section) -> Iterator[At]:
    client = config.section("clientConnection")
    qps = client.number("qps")
    if qps is not None and 0 < qps < _QPS:
        yield client.at("qps")
