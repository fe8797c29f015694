"""Alerts and dashboard: they ask for what exists, they fire when they should, and somebody is told what to do."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import Metric

from extender.claims.events import PoolsConfigured
from extender.claims.records import Pool, PoolKey
from extender.server.claims.service import ClaimService
from extender.server.service import Service
from extender.settings import AlgorithmSettings, ClusterSettings, LeaderElectionSettings, Settings
from extender.web.pages.metrics import Metrics
from tests.support.http.web_metrics import SOURCES
from tests.support.manifests import MANIFESTS, ROOT, documents

HERE = MANIFESTS / "components" / "prometheus"
(RULES,) = documents(HERE / "alerts.yaml")
ALERTS = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((HERE / "dashboard.json").read_text(encoding="utf-8"))
UNIT_TESTS = ROOT / "tests" / "fixtures" / "manifests" / "alerts_test.yaml"
PROMTOOL = shutil.which(os.environ.get("WAGGLE_PROMTOOL", "promtool"))
#: What Prometheus itself adds to every target.
ADDED = {"up"}
_METRIC = re.compile(r"\b(up|waggle_[a-z_]+|process_[a-z_]+)\b(?=[\[{ )]|$)")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None and not os.environ.get("CI"), reason="needs promtool (or its path in WAGGLE_PROMTOOL)"
)


@pytest.fixture(scope="module")
def served() -> dict[str, Metric]:
    """What a replica that has just started shows at /metrics: the family by the names of all its series."""
    families = [family for name in ("packing", "hived") for family in shown_by(name)]
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
    return {family.name + suffix: family for family in families for suffix in suffixes.get(family.type, [""])}


def shown_by(algorithm: str) -> list[Metric]:
    election, cluster = LeaderElectionSettings(enabled=True), ClusterSettings(server="http://127.0.0.1:1")
    chosen = AlgorithmSettings(name=algorithm)
    service = Service(settings := Settings(cluster=cluster, leader_election=election, algorithm=chosen))
    claims = ClaimService(settings, service.api, nodes=service.nodes)
    pool = Pool(key=PoolKey("sandboxes", "python"), selector={"pool": "python"})
    claims.runtime.handle(PoolsConfigured((pool,)))
    try:
        return list(Metrics(service.runtime, *SOURCES, claims.metrics).registry.collect())
    finally:
        claims.stop()
        service.stop()


def expressions() -> dict[str, str]:
    asked = {rule["alert"]: rule["expr"] for rule in ALERTS}
    for panel in DASHBOARD["panels"]:
        asked |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    return asked


def test_only_metrics_that_exist_are_asked_for(served: dict[str, Metric]) -> None:
    for name, expression in expressions().items():
        asked = set(_METRIC.findall(expression))
        assert asked, name
        assert asked - ADDED - served.keys() == set(), name


def test_only_values_that_exist_are_selected(served: dict[str, Metric]) -> None:
    for rule in ALERTS:
        for metric, label, values in re.findall(r'(waggle_\w+_total)\{(\w+)=~?"([^"]+)"\}', rule["expr"]):
            known = {sample.labels[label] for sample in served[metric].samples}
            assert set(values.split("|")) <= known, rule["alert"]


def test_what_may_happen_once_is_shown_from_the_start(served: dict[str, Metric]) -> None:
    """Prometheus sees no increase in a series that begins with 1."""
    for rule in ALERTS:
        for metric in re.findall(r"increase\((waggle_\w+_total)", rule["expr"]):
            assert served[metric].samples, (rule["alert"], metric)


def test_an_alert_says_what_it_is_how_bad_and_where_to_read_on() -> None:
    for rule in ALERTS:
        name = rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert rule["annotations"]["summary"], name
        assert rule["annotations"]["description"].endswith("."), name
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"


def test_the_runbook_has_every_alert_and_no_other() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (Waggle\w+)$", page, re.MULTILINE) == [rule["alert"] for rule in ALERTS]


def test_every_section_of_the_runbook_says_what_it_means_and_what_to_do() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE):
        name, _, text = section.partition("\n")
        if name.startswith("Waggle"):
            assert [part for part in ("*Means:*", "*Look at:*", "*Do:*") if part not in text] == [], name


def test_every_alert_has_a_history_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = [
        case
        for test in yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))["tests"]
        for case in test["alert_rule_test"]
    ]
    names = {rule["alert"] for rule in ALERTS}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


def test_panels_do_not_overlap_and_fill_the_width() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for grid in (panel["gridPos"],)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23


def test_the_dashboard_asks_the_chosen_data_source() -> None:
    sources = [panel["datasource"] for panel in DASHBOARD["panels"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(sources)


def test_the_monitor_scrapes_the_health_port() -> None:
    monitors = {item["metadata"]["name"]: item for item in documents(HERE / "monitor.yaml")}
    for folder, job in (("base", "waggle"), ("claims", "waggle-claims")):
        monitor, services = monitors[job], documents(MANIFESTS / folder / "service.yaml")
        (service,) = (item for item in services if item["metadata"]["name"] == f"{job}-metrics")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == job
        assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


@needs_promtool
@pytest.mark.parametrize("command", ["check", pytest.param("test", marks=pytest.mark.slow)])
def test_promtool_accepts_the_rules_and_its_unit_tests_pass(tmp_path: Path, command: str) -> None:
    assert PROMTOOL, "CI needs promtool: on Debian it is in the package prometheus"
    whole, bare = tmp_path / "whole.yaml", tmp_path / "alerts.yaml"
    whole.write_text(yaml.safe_dump(RULES["spec"]), encoding="utf-8")
    spec = copy.deepcopy(RULES["spec"])
    for rule in (rule for group in spec["groups"] for rule in group["rules"]):
        del rule["annotations"]  # the unit tests would have to repeat them
    bare.write_text(yaml.safe_dump(spec), encoding="utf-8")
    shutil.copy(UNIT_TESTS, tmp_path)
    file = whole.name if command == "check" else UNIT_TESTS.name
    done = subprocess.run([PROMTOOL, command, "rules", file], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
