"""docs/metrics.md has every metric that the server has, of its type, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from extender.service import Service
from extender.settings import ClusterSettings, LeaderElectionSettings, Settings
from extender.web.certificates import Certificates
from extender.web.metrics import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(waggle_[a-z_]+)` \| (\w+) \|", re.MULTILINE)


def test_the_page_has_every_metric_and_no_other() -> None:
    cluster, election = ClusterSettings(server="http://127.0.0.1:1"), LeaderElectionSettings(enabled=True)
    service = Service(Settings(cluster=cluster, leader_election=election))
    try:
        metrics = Metrics(service.runtime, Certificates(None))
        served = {}
        for family in metrics.registry.collect():
            if family.name.startswith("waggle"):
                served[family.name + ("_total" if family.type == "counter" else "")] = family.type
    finally:
        service.stop()
    assert dict(ROW.findall(PAGE.read_text(encoding="utf-8"))) == served
