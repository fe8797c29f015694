"""`waggle doctor`: every check is a line, says what is wrong, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.operate.certs import Authority
from extender.operate.doctor import Check, Status, as_json, as_text, examine, failed, needed_rights
from extender.operate.scheduler_config import SchedulerOptions, kube_scheduler_config
from extender.operate.topology import Topology
from extender.settings import Settings, load
from tests.support.apiserver.cluster_objects import node
from tests.support.apiserver.scripted_server import ScriptedServer, reply, status
from tests.support.http.certificates import Files, days_ago
from tests.support.manifests import MANIFESTS, documents

MARKER = "hivedscheduler.microsoft.com/pod-scheduling-enable"
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
NODES = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread() as made:
        made.create(node("n0"))
        yield made


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """An API server that answers as the test says."""
    with ScriptedServer() as scripted:
        scripted.on("GET", "/version", reply(200, VERSION))
        scripted.on("GET", "/api/v1/nodes", reply(200, NODES))
        yield scripted


def configuration(folder: Path, url: str, **sections: Any) -> Path:
    path = folder / "waggle.yaml"
    path.write_text(yaml.safe_dump({"cluster": {"server": url}, **sections}))
    return path


def named(checks: list[Check], name: str) -> list[Check]:
    return [check for check in checks if check.name == name]


def texts(checks: list[Check], name: str) -> list[str]:
    return [f"{check.status} {check.what}" for check in named(checks, name)]


# -- all well ---------------------------------------------------------------------------------------------------------


def test_all_is_well_in_front_of_a_cluster(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    config = configuration(tmp_path, cluster.url)
    scheduler = tmp_path / "scheduler.yaml"
    scheduler.write_text(kube_scheduler_config(SchedulerOptions(topology=Topology.LOCAL), load(config)))
    checks = examine(config, scheduler)
    assert {check.status for check in checks} == {Status.OK}, as_text(checks)
    assert {check.name for check in checks} == {
        "configuration",
        "API server",
        "versions",
        "rights",
        "nodes",
        "certificates",
        "kube-scheduler",
    }
    assert not failed(checks)


def test_the_command_prints_one_line_a_check_and_its_status_is_0(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    done = CliRunner().invoke(app, ["doctor", "--config", str(configuration(tmp_path, cluster.url))])
    assert done.exit_code == 0, done.output
    assert "OK    API server" in done.output
    assert "WARN  kube-scheduler  its configuration was not looked at" in done.output
    assert "do: name its configuration file: --kube-scheduler-config FILE" in done.output


def test_json_is_for_machines_and_a_failure_is_1(tmp_path: Path) -> None:
    config = configuration(tmp_path, "http://127.0.0.1:1")
    done = CliRunner().invoke(app, ["doctor", "--config", str(config), "-o", "json"])
    assert done.exit_code == 1
    told = json.loads(done.output)
    assert told["failed"] is True
    failing = [check for check in told["checks"] if check["status"] == "FAIL"]
    assert [check["name"] for check in failing] == ["API server"]
    assert "refused" in failing[0]["what"]
    assert failing[0]["todo"]


# -- what may be wrong ------------------------------------------------------------------------------------------------


def test_a_configuration_that_cannot_be_used_is_the_only_line(tmp_path: Path) -> None:
    config = tmp_path / "waggle.yaml"
    config.write_text("server: {prot: 1}\n")
    (check,) = examine(config)
    assert check.status is Status.FAIL
    assert "server.prot: there is no such field; did you mean port?" in check.what


def test_an_api_server_that_refuses_us_is_named(tmp_path: Path, server: ScriptedServer) -> None:
    server.on("GET", "/version", status(401, "Unauthorized"))
    (check,) = named(examine(configuration(tmp_path, server.url)), "API server")
    assert (check.status, "answers 401: " in check.what) == (Status.FAIL, True)
    assert "credentials" in check.todo


def test_something_that_is_no_api_server_is_named(tmp_path: Path, server: ScriptedServer) -> None:
    server.on("GET", "/version", reply(200, b"<html>"))
    (check,) = named(examine(configuration(tmp_path, server.url)), "API server")
    assert "is no API server" in check.what


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("v1.26.3", "FAIL"),
        ("v1.27.0", "WARN"),
        ("v1.30.1-gke.4", "OK"),
        ("v1.36.0", "OK"),
        ("v1.37.0", "WARN"),
        ("2", "WARN"),
    ],
)
def test_a_version_that_is_too_old_or_untried_is_said(
    tmp_path: Path, server: ScriptedServer, version: str, wanted: str
) -> None:
    server.on("GET", "/version", reply(200, {"gitVersion": version}))
    server.on("POST", REVIEWS, reply(200, {"status": {"allowed": True}}))
    (check,) = named(examine(configuration(tmp_path, server.url)), "versions")
    assert check.status == wanted
    assert version in check.what


def test_each_missing_right_is_a_line(tmp_path: Path, server: ScriptedServer) -> None:
    answers = [
        reply(200, {"status": {"allowed": right.subresource != "binding"}}) for right in needed_rights(Settings())
    ]
    server.on("POST", REVIEWS, *answers)
    checks = examine(configuration(tmp_path, server.url))
    assert texts(checks, "rights") == ["FAIL may not create pods/binding"]
    assert "rbac.yaml" in named(checks, "rights")[0].todo


def test_rights_that_cannot_be_asked_for_are_said_and_not_taken_for_granted(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.on("POST", REVIEWS, status(404, "not here"))
    (check,) = named(examine(configuration(tmp_path, server.url)), "rights")
    assert (check.status, check.what.startswith("cannot be asked for: ")) == (Status.WARN, True)


def test_the_rights_that_are_asked_for_are_those_of_the_shipped_roles() -> None:
    everything = Settings.model_validate({"leader_election": {"enabled": True}, "preemption": {"mode": "auto"}})
    given = set()
    for document in documents(MANIFESTS / "base" / "rbac.yaml"):
        if document["metadata"]["name"] == "waggle" and "rules" in document:
            for rule in document["rules"]:
                for verb in rule["verbs"]:
                    for resource in rule["resources"]:
                        given |= {(verb, resource, name) for name in rule.get("resourceNames", [""])}
    asked = {
        (right.verb, f"{right.resource}/{right.subresource}" if right.subresource else right.resource, right.name)
        for right in needed_rights(everything)
    }
    assert asked == given


def test_reviews_are_asked_for_only_if_pages_are_guarded_by_kubernetes() -> None:
    settings = Settings.model_validate({"server": {"inspect_authorization": "kubernetes"}})
    more = set(needed_rights(settings)) - set(needed_rights(Settings()))
    assert {right.resource for right in more} == {"tokenreviews", "subjectaccessreviews"}


def test_a_resource_that_no_node_has_is_said(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    config = configuration(tmp_path, cluster.url, pods={"resource": "example.com/tpu"})
    assert texts(examine(config), "nodes") == ["WARN none of 1 has example.com/tpu (pods.resource)"]
    config = configuration(tmp_path, cluster.url, pods={"resource": MARKER})
    assert texts(examine(config), "nodes") == ["OK 1, of which 1 are ready"]


# -- certificates -----------------------------------------------------------------------------------------------------


def made(folder: Path, authority: Authority, *, days: int, now: datetime | None = None) -> Files:
    return Files(folder).write(authority.server(["localhost"], days=days, now=now), authority)


@pytest.mark.parametrize(("days", "wanted"), [(100, "OK"), (5, "WARN")])
def test_how_long_certificates_hold(tmp_path: Path, cluster: EmbeddedCluster, days: int, wanted: str) -> None:
    files = made(tmp_path / "tls", Authority.new(), days=days)
    config = configuration(tmp_path, cluster.url, server={"tls": json.loads(files.tls().model_dump_json())})
    mine, authority = texts(examine(config), "certificates")
    assert mine.startswith(f"{wanted} server.tls.cert_file: {files.certificate} is valid until ")
    assert authority.startswith(f"OK server.tls.client_ca_file: {files.ca} is valid until ")


def test_a_certificate_that_is_over_fails(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    files = made(tmp_path / "tls", Authority.new(), days=1, now=days_ago(3))
    config = configuration(tmp_path, cluster.url, server={"tls": json.loads(files.tls().model_dump_json())})
    (check,) = named(examine(config), "certificates")
    assert (check.status, "server.tls.cert_file: ended on" in check.what) == (Status.FAIL, True)


def test_plain_http_beyond_this_machine_is_a_warning(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    config = configuration(tmp_path, cluster.url, server={"host": "0.0.0.0"})
    assert texts(examine(config), "certificates") == ["WARN none: Waggle serves plain HTTP on 0.0.0.0"]


def test_a_kube_scheduler_of_another_authority_is_found(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    ours, theirs = (
        made(tmp_path / "ours", Authority.new(), days=100),
        made(tmp_path / "other", Authority.new(), days=100),
    )
    config = configuration(tmp_path, cluster.url, server={"tls": json.loads(ours.tls().model_dump_json())})
    scheduler = tmp_path / "scheduler.yaml"
    for files, wanted in ((ours, False), (theirs, True)):
        options = SchedulerOptions(
            topology=Topology.LOCAL, ca_file=str(ours.ca), cert_file=str(files.certificate), key_file=str(files.key)
        )
        scheduler.write_text(kube_scheduler_config(options, load(config)))
        checks = examine(config, scheduler)
        assert any("was not signed by" in text for text in texts(checks, "certificates")) is wanted
        assert failed(checks) is wanted


# -- kube-scheduler, and a running Waggle -----------------------------------------------------------------------------


def test_what_lint_finds_is_a_line_with_what_to_do(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    config = configuration(tmp_path, cluster.url, pods={"resource": MARKER})
    scheduler = tmp_path / "scheduler.yaml"
    scheduler.write_text(kube_scheduler_config(SchedulerOptions(topology=Topology.LOCAL)))
    (check,) = named(examine(config, scheduler), "kube-scheduler")
    assert (check.status, "WL601 marker-not-managed" in check.what) == (Status.FAIL, True)
    assert "ignoredByScheduler: true" in check.todo


def test_what_lint_finds_in_sets_of_vpods_is_a_line_too(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    hosted = {"namespace": "kafka", "name": "sources", "stateful_set": "dispatcher", "capacity": 20}
    path = configuration(tmp_path, cluster.url, vpods={"enabled": True, "sets": [hosted]})
    (check,) = named(examine(path), "vpods")
    assert check.status is Status.FAIL
    assert check.what == "kafka/sources: WL821 no-stateful-set: StatefulSet kafka/dispatcher"
    assert named(examine(configuration(tmp_path, cluster.url)), "vpods") == []


def test_a_file_of_kube_scheduler_that_is_not_there_fails(tmp_path: Path, cluster: EmbeddedCluster) -> None:
    (check,) = named(examine(configuration(tmp_path, cluster.url), tmp_path / "nowhere.yaml"), "kube-scheduler")
    assert (check.status, check.what.endswith("nowhere.yaml: No such file or directory")) == (Status.FAIL, True)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (reply(200, {"status": "ok", "detail": ""}), "OK {url}: ready"),
        (
            reply(200, {"status": "ok", "detail": "API server silent for 150 s"}),
            "WARN {url}: API server silent for 150 s",
        ),
        (reply(503, {"error": "extender is not ready: x", "field": None}), "FAIL {url}: extender is not ready: x"),
        (reply(200, b"hello"), "FAIL {url} is no Waggle"),
    ],
)
def test_what_a_running_waggle_says_of_itself(
    tmp_path: Path, cluster: EmbeddedCluster, server: ScriptedServer, answer: Any, wanted: str
) -> None:
    server.on("GET", "/readyz", answer)
    checks = examine(configuration(tmp_path, cluster.url), readyz=server.url)
    assert texts(checks, "Waggle") == [wanted.format(url=server.url)]


def test_every_line_that_is_not_ok_of_a_bare_machine_says_what_to_do() -> None:
    assert as_text([Check("a", Status.FAIL, "x", "y"), Check("bb", Status.OK, "z")]).splitlines() == [
        "FAIL  a   x",
        "          do: y",
        "OK    bb  z",
        "",
        "1 OK, 1 FAIL",
    ]
    assert json.loads(as_json([Check("a", Status.OK, "x")])) == {
        "checks": [{"name": "a", "status": "OK", "what": "x", "todo": ""}],
        "failed": False,
    }
