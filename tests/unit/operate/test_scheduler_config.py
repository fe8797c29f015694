"""`waggle kube-scheduler-config`: what is written works, and what would not is refused with the option at fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.kubescheduler.config import SchedulerConfig, from_kube_scheduler_configuration
from extender.operate.scheduler_config import OptionError, SchedulerOptions, kube_scheduler_config
from extender.operate.topology import Topology
from extender.settings import Settings
from tests.support.kubescheduler.binary import needs_kube_scheduler, refusal

GPU = "example.com/gpu"
STATIC = {"topology": Topology.STATIC_POD, "url": "https://10.96.0.7:9096", "managed_resources": (GPU,)}
LOCAL = {"topology": Topology.LOCAL}
SECOND = {"topology": Topology.SECOND_SCHEDULER}


def written(**options: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(kube_scheduler_config(SchedulerOptions(**options)))
    return document


def read(**options: Any) -> SchedulerConfig:
    return from_kube_scheduler_configuration(written(**options))


def extender(**options: Any) -> dict[str, Any]:
    (found,) = written(**options)["extenders"]
    return dict(found)


@pytest.mark.parametrize("options", [LOCAL, SECOND, STATIC], ids=lambda options: options["topology"])
def test_every_topology_has_what_every_topology_needs(options: dict[str, Any]):
    config = read(**options)

    (found,) = config.extenders
    assert (found.filter_verb, found.preempt_verb, found.bind_verb) == ("filter", "preempt", "bind")
    assert config.percentage_of_nodes_to_score == 100
    assert found.node_cache_capable
    assert not found.ignorable
    assert found.http_timeout == 10


def test_on_one_machine_everything_stays_on_the_loopback_without_tls():
    assert extender(**LOCAL)["urlPrefix"] == "http://127.0.0.1:9096"
    assert "tlsConfig" not in extender(**LOCAL)
    assert written(**LOCAL)["leaderElection"] == {"leaderElect": False}


@pytest.mark.parametrize(
    ("given", "file"), [("/a/b", "/a/b"), ("b", "{cwd}/b"), (":/a/b:", "/a/b"), ("", "~/.kube/config")]
)
def test_on_one_machine_the_kubeconfig_is_kubectls(
    given: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", given)
    wanted = str(Path(file.format(cwd=tmp_path)).expanduser())
    assert written(**LOCAL)["clientConnection"]["kubeconfig"] == wanted
    assert written(**LOCAL, kubeconfig="/own")["clientConnection"]["kubeconfig"] == "/own"
    assert written(**STATIC)["clientConnection"]["kubeconfig"] == "/etc/kubernetes/scheduler.conf"


def test_kube_scheduler_cannot_merge_several_kubeconfigs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    with pytest.raises(OptionError, match="--kubeconfig: KUBECONFIG names 2 files"):
        written(**LOCAL)
    assert written(**LOCAL, kubeconfig="/a")["clientConnection"]["kubeconfig"] == "/a"


@pytest.mark.parametrize("options", [SECOND, STATIC], ids=lambda options: options["topology"])
def test_in_a_cluster_both_sides_show_certificates(options: dict[str, Any]):
    found = extender(**options)

    assert found["urlPrefix"].startswith("https://")
    assert {"caFile", "certFile", "keyFile"} <= found["tlsConfig"].keys()
    assert "enableHTTPS" not in found


def test_a_second_scheduler_has_its_own_name_and_its_own_lease():
    config = written(**SECOND)

    assert config["profiles"] == [{"schedulerName": "waggle-scheduler"}]
    assert config["leaderElection"]["resourceName"] == "waggle-scheduler"
    assert "clientConnection" not in config


def test_an_address_is_verified_by_the_name_in_the_certificate():
    assert extender(**STATIC)["tlsConfig"]["serverName"] == "waggle.waggle-system.svc"
    assert "serverName" not in extender(**SECOND)["tlsConfig"]


def test_only_pods_with_the_managed_resources_are_sent():
    resources = extender(**LOCAL, managed_resources=(GPU, "example.com/fpga"))["managedResources"]

    assert resources == [
        {"name": GPU, "ignoredByScheduler": False},
        {"name": "example.com/fpga", "ignoredByScheduler": False},
    ]


def test_a_resource_that_only_marks_pods_is_not_looked_for_on_nodes():
    marker = "hivedscheduler.microsoft.com/pod-scheduling-enable"

    resources = extender(**LOCAL, managed_resources=(marker, GPU))["managedResources"]

    assert resources == [
        {"name": marker, "ignoredByScheduler": True},
        {"name": GPU, "ignoredByScheduler": False},
    ]


def test_a_static_pod_may_send_every_pod_if_that_is_said():
    assert "managedResources" not in extender(**STATIC | {"managed_resources": (), "all_pods": True})


def test_prioritize_comes_with_a_weight():
    found = extender(**LOCAL, verbs=("filter", "prioritize"), weight=7)

    assert (found["prioritizeVerb"], found["weight"]) == ("prioritize", 7)
    assert not {"preemptVerb", "bindVerb"} & found.keys()
    assert "weight" not in extender(**LOCAL)


def test_what_was_chosen_is_written():
    config = written(
        **LOCAL,
        url="https://[::1]:1234/v1/extender/",
        ca_file="/a b/ca.crt",
        server_name="waggle",
        cert_file="c",
        key_file="k",
        scheduler_names=("one", "two"),
        kubeconfig="/k: #",
        node_cache_capable=False,
        http_timeout="1m",
        leader_elect=True,
        qps=100,
    )

    assert config["clientConnection"] == {"kubeconfig": "/k: #", "qps": 100, "burst": 200}
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["one", "two"]
    (found,) = config["extenders"]
    assert found["urlPrefix"] == "https://[::1]:1234/v1/extender"
    assert found["tlsConfig"] == {"caFile": "/a b/ca.crt", "certFile": "c", "keyFile": "k", "serverName": "waggle"}
    assert (found["nodeCacheCapable"], found["httpTimeout"]) == (False, "1m")
    assert config["leaderElection"]["leaderElect"] is True


def test_only_a_scheduler_that_does_not_bind_may_ignore_failures():
    assert extender(**LOCAL, verbs=("filter",), ignorable=True)["ignorable"] is True


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topology": Topology.STATIC_POD, "managed_resources": (GPU,)}, "--url: needed for static-pod"),
        (STATIC | {"managed_resources": ()}, "--managed-resource: needed for static-pod"),
        (LOCAL | {"url": "127.0.0.1:9096"}, "--url: '127.0.0.1:9096' must be http"),
        (LOCAL | {"url": "http://[::1"}, "--url: "),
        (LOCAL | {"url": "http://127.0.0.1:port"}, "--url: "),
        (LOCAL | {"url": "https://u:p@host:1"}, "--url: must hold no user"),
        (LOCAL | {"url": "http://10.0.0.1:9096"}, "--url: plain http only on the loopback"),
        (LOCAL | {"url": "https://127.0.0.1:9096"}, "--ca-file: needed for https"),
        (LOCAL | {"ca_file": "ca.crt"}, "--ca-file, --cert, --key, --server-name: of no use with an http"),
        (SECOND | {"cert_file": ""}, "--cert, --key: only both together"),
        (LOCAL | {"verbs": ("bind",)}, "--verb: filter is needed"),
        (LOCAL | {"verbs": ("filter", "evict")}, "--verb: 'evict' is none of"),
        (LOCAL | {"ignorable": True}, "--ignorable: not together with the verb bind"),
        (LOCAL | {"http_timeout": "10"}, "httpTimeout"),
        (LOCAL | {"managed_resources": ("cpu",)}, "not an extended resource"),
        (LOCAL | {"managed_resources": ("example.com/two words",)}, "not an extended resource"),
        (LOCAL | {"scheduler_names": ("a", "a")}, "profiles"),
        (LOCAL | {"scheduler_names": ("",)}, "schedulerName"),
        (SECOND | {"scheduler_names": ("Two Words",)}, "--scheduler-name: 'Two Words' cannot be the name of its lease"),
        (LOCAL | {"weight": 5}, "--weight: counts only with --verb prioritize"),
        (LOCAL | {"verbs": ("filter", "prioritize"), "weight": 0}, "weight"),
    ],
)
def test_what_would_not_work_is_refused(options: dict[str, Any], text: str):
    with pytest.raises(OptionError) as refused:
        kube_scheduler_config(SchedulerOptions(**options))

    assert text in str(refused.value)


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command_writes_to_standard_output():
    done = CliRunner().invoke(app, ["kube-scheduler-config", "--topology", "second-scheduler"])

    assert done.exit_code == 0
    assert done.output == kube_scheduler_config(SchedulerOptions(**SECOND))


def test_the_command_writes_a_file(tmp_path: Path):
    file = tmp_path / "config.yaml"
    options = ["--url", "https://10.96.0.7:9096", "--managed-resource", GPU, "-o", str(file)]
    done = CliRunner().invoke(app, ["kube-scheduler-config", "--topology", "static-pod", *options])

    assert (done.exit_code, done.output) == (0, "")
    assert file.read_text() == kube_scheduler_config(SchedulerOptions(**STATIC))


def test_the_command_says_what_is_missing_and_writes_nothing(tmp_path: Path):
    file = tmp_path / "config.yaml"
    done = CliRunner().invoke(app, ["kube-scheduler-config", "--topology", "static-pod", "-o", str(file)])

    assert done.exit_code == 2
    assert "--managed-resource" in done.stderr
    assert not file.exists()


# -- the real one -------------------------------------------------------------------------------------------------


@needs_kube_scheduler
@pytest.mark.parametrize("options", [LOCAL, SECOND, STATIC], ids=lambda options: options["topology"])
def test_a_real_kube_scheduler_reads_it(options: dict[str, Any], tmp_path: Path, client_folder: Path):
    tls = {} if options is LOCAL else {"ca_file": "ca.crt", "cert_file": "tls.crt", "key_file": "tls.key"}
    file = tmp_path / "config.yaml"
    file.write_text(kube_scheduler_config(SchedulerOptions(**options | tls, kubeconfig="", qps=100)))

    assert refusal(file, folder=client_folder) == ""


# -- from Waggle's own configuration ----------------------------------------------------------------------------------

MARKER = "hivedscheduler.microsoft.com/pod-scheduling-enable"
TLS = {"cert_file": "tls.crt", "key_file": "tls.key", "client_ca_file": "ca.crt"}


def agreeing(waggle: dict[str, Any], **options: Any) -> dict[str, Any]:
    text = kube_scheduler_config(SchedulerOptions(**options), Settings.model_validate(waggle))
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def test_the_resource_that_marks_pods_is_managed_and_not_counted():
    (found,) = agreeing({"pods": {"resource": MARKER}}, **LOCAL)["extenders"]
    assert found["managedResources"] == [{"name": MARKER, "ignoredByScheduler": True}]


def test_a_resource_that_nodes_have_is_managed_and_counted():
    (found,) = agreeing({"pods": {"resource": GPU}}, **LOCAL)["extenders"]
    assert found["managedResources"] == [{"name": GPU, "ignoredByScheduler": False}]


def test_names_port_and_time_out_are_those_of_waggle():
    waggle = {
        "pods": {"scheduler_names": ["a", "b"]},
        "server": {"port": 19096},
        "cluster": {"request_timeout_seconds": 12.5},
    }
    document = agreeing(waggle, **LOCAL)
    (found,) = document["extenders"]
    assert [profile["schedulerName"] for profile in document["profiles"]] == ["a", "b"]
    assert (found["urlPrefix"], found["httpTimeout"]) == ("http://127.0.0.1:19096", "13s")


def test_tls_is_that_of_waggle():
    waggle = {"server": {"tls": TLS, "port": 7000}}
    (found,) = agreeing(waggle, **SECOND)["extenders"]
    assert found["urlPrefix"] == "https://waggle.waggle-system.svc:7000"
    (found,) = agreeing(waggle, **LOCAL, ca_file="ca.crt", cert_file="c", key_file="k")["extenders"]
    assert (found["urlPrefix"], found["tlsConfig"]["caFile"]) == ("https://127.0.0.1:7000", "ca.crt")


def test_a_waggle_without_tls_cannot_be_called_over_a_network():
    with pytest.raises(
        OptionError, match=r"--config: Waggle's server\.tls is not set, and second-scheduler needs https"
    ):
        agreeing({}, **SECOND)


def test_what_is_given_has_precedence():
    waggle = {"pods": {"resource": MARKER, "scheduler_names": ["a"]}, "server": {"port": 7000}}
    options = {"managed_resources": (GPU,), "scheduler_names": ("mine",), "http_timeout": "20s"}
    document = agreeing(waggle, **LOCAL, url="http://127.0.0.1:8000", **options)
    (found,) = document["extenders"]
    assert [each["name"] for each in found["managedResources"]] == [GPU]
    assert document["profiles"] == [{"schedulerName": "mine"}]
    assert (found["urlPrefix"], found["httpTimeout"]) == ("http://127.0.0.1:8000", "20s")


def test_the_command_reads_waggles_configuration(tmp_path: Path):
    waggle = tmp_path / "waggle.yaml"
    waggle.write_text(f"pods: {{resource: {MARKER}}}\n")
    done = CliRunner().invoke(app, ["kube-scheduler-config", "--topology", "local", "--config", str(waggle)])
    assert done.exit_code == 0
    assert MARKER in done.output
