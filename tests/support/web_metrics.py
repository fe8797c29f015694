"""What the web room adds to /metrics, for tests of the list of metrics."""

from __future__ import annotations

from extender.web.budget import Budgets
from extender.web.certificates import Certificates
from extender.web.connections import connection_metrics
from extender.web.doors import Refusals

SOURCES = (
    Certificates(None).metrics,
    Refusals().metrics,
    Budgets.for_bodies_of(0).metrics,
    lambda: connection_metrics([]),
)
