"""docs/metrics.md has every metric that the server has, of its type, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from algorithm.gauges import Gauge, Sample
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.claims.service import ClaimService
from extender.server.ordering.service import OrderingService
from extender.server.plans.service import PlanService
from extender.server.recording import RecordTo
from extender.server.runtime import Runtime
from extender.server.service import Service
from extender.server.vpods.service import VPodService
from extender.settings import AlgorithmSettings, ClusterSettings, LeaderElectionSettings, Settings
from extender.web.pages.metrics import Metrics
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.http.web_metrics import SOURCES

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(waggle_[a-z_]+)` \| (\w+) \|", re.MULTILINE)


def served_by(algorithm: str, record: Path) -> dict[str, str]:
    """The metrics of a server with this algorithm, and the type of each."""
    cluster, election = ClusterSettings(server="http://127.0.0.1:1"), LeaderElectionSettings(enabled=True)
    chosen = AlgorithmSettings(name=algorithm)
    service = Service(
        settings := Settings(cluster=cluster, leader_election=election, algorithm=chosen), record=RecordTo(record)
    )
    claims = ClaimService(settings, service.api, nodes=service.nodes)
    vpods = VPodService(settings, service.api, nodes=service.nodes)
    ordering = OrderingService(settings, service.api)
    plans = PlanService(settings, service.runtime, service.api, dict)
    try:
        metrics = Metrics(service.runtime, *SOURCES, claims.metrics, vpods.metrics, ordering.metrics, plans.metrics)
        return {
            family.name + ("_total" if family.type == "counter" else ""): family.type
            for family in metrics.registry.collect()
            if family.name.startswith("waggle")
        }
    finally:
        plans.stop()
        ordering.stop()
        vpods.stop()
        claims.stop()
        service.stop()


def test_the_page_has_every_metric_and_no_other(tmp_path: Path) -> None:
    served = served_by("packing", tmp_path / "packing") | served_by("hived", tmp_path / "hived")
    assert dict(ROW.findall(PAGE.read_text(encoding="utf-8"))) == served


def test_an_algorithms_own_metrics_have_its_name(tmp_path: Path) -> None:
    own = served_by("hived", tmp_path / "hived").keys() - served_by("packing", tmp_path / "packing").keys()

    assert own
    assert all(name.startswith("waggle_hived_") for name in own)


def test_an_algorithms_metric_that_is_named_as_one_of_ours_does_not_spoil_the_scrape() -> None:
    algorithm = PlainAlgorithm()
    algorithm.metrics = lambda: (Gauge("size", "Mine.", (Sample(7),)), Gauge("slots", "Mine.", (Sample(1),)))
    runtime = Runtime(SchedulerStateMachine(algorithm), lambda _: None, algorithm="cache")
    families = [family.name for family in Metrics(runtime).registry.collect()]
    assert families.count("waggle_cache_size") == 1
    assert "waggle_cache_slots" in families
