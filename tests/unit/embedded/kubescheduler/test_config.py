"""What the stand-in reads of a KubeSchedulerConfiguration, and what the real one refuses at start."""

import pytest
import yaml

from extender.embedded.kubescheduler.config import ConfigError, SchedulerConfig, from_kube_scheduler_configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(text: str) -> SchedulerConfig:
    return from_kube_scheduler_configuration(yaml.safe_load(HEAD + text))


def test_a_whole_extender_entry_is_read():
    config = read("""
leaderElection: {leaderElect: false}
percentageOfNodesToScore: 100
podMaxBackoffSeconds: 20
profiles:
- schedulerName: default-scheduler
- schedulerName: other
  percentageOfNodesToScore: 30
  plugins: {}
extenders:
- urlPrefix: http://127.0.0.1:9096/
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 5
  bindVerb: bind
  preemptVerb: preempt
  httpTimeout: 1m30s
  nodeCacheCapable: true
  ignorable: true
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
""")
    extender = config.extenders[0]
    assert extender.url == "http://127.0.0.1:9096"
    assert extender.http_timeout == 90.0
    assert extender.node_cache_capable
    assert extender.manages == {"example.com/gpu"}
    assert config.ignored_resources == {"example.com/gpu"}
    assert config.percentage("default-scheduler") == 100
    assert config.percentage("other") == 30
    assert config.scheduler_names == {"default-scheduler", "other"}


def test_defaults_are_those_of_the_real_one():
    config = read("extenders: [{urlPrefix: 'http://x'}]")
    assert config.extenders[0].http_timeout == 5.0
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert config.percentage("default-scheduler") == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [('"5s"', 5), ('"250ms"', 0.25), ('"1.5s"', 1.5), ('"2m3s"', 123), ('"0"', 5), ('"0s"', 5), ("null", 5)],
)
def test_the_timeout_is_a_go_duration(text: str, seconds: float):
    assert read(f"extenders: [{{urlPrefix: x, httpTimeout: {text}}}]").extenders[0].http_timeout == seconds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("extenders: [{urlPrefix: x, filterverb: f}]", "filterverb"),
        ("extenders: [{filterVerb: f}]", "urlPrefix"),
        ("extenders: [{urlPrefix: x, prioritizeVerb: p}]", "weight"),
        ("extenders: [{urlPrefix: x, prioritizeVerb: p, weight: -1}]", "weight"),
        ("extenders: [{urlPrefix: x, httpTimeout: 5}]", "httpTimeout"),
        ("extenders: [{urlPrefix: x, httpTimeout: 5 s}]", "httpTimeout"),
        ("extenders: [{urlPrefix: x, bindVerb: b}, {urlPrefix: y, bindVerb: b}]", "bindVerb"),
        ("extenders: [{urlPrefix: x, managedResources: [{name: cpu}]}]", "cpu"),
        ("extenders: [{urlPrefix: x, managedResources: [{name: a/b}, {name: a/b}]}]", "a/b"),
        (
            "extenders: [{urlPrefix: x, managedResources: &m [{name: a/b}]}, {urlPrefix: y, managedResources: *m}]",
            "a/b",
        ),
        ("extenders: [{urlPrefix: x, tlsConfig: {insecure: true, caFile: /ca}}]", "insecure"),
        ("podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 1", "podMaxBackoffSeconds"),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore"),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]", "profiles"),
        ("unknownKey: 1", "unknownKey"),
        ("seed: 1", "seed"),
    ],
)
def test_what_the_real_one_refuses_is_refused_naming_the_field(text: str, names: str):
    with pytest.raises(ConfigError, match=names):
        read(text)


@pytest.mark.parametrize("document", [None, [], "x", {"kind": "Policy"}])
def test_another_kind_of_document_is_refused(document: object):
    with pytest.raises(ConfigError):
        from_kube_scheduler_configuration(document)


def test_ignorable_extenders_are_called_last():
    config = read("extenders: [{urlPrefix: a, ignorable: true}, {urlPrefix: b}, {urlPrefix: c, ignorable: true}]")
    assert [extender.url for extender in config.called_extenders] == ["b", "a", "c"]
