"""What the web room adds to /metrics, for tests of the list of metrics."""

from __future__ import annotations

from extender.web.http.certificates import Certificates
from extender.web.http.connections import connection_metrics
from extender.web.http.refusals import Refusals
from extender.web.limits.budget import Budgets

SOURCES = (
    Certificates(None).metrics,
    Refusals().metrics,
    Budgets.for_bodies_of(0).metrics,
    lambda: connection_metrics([]),
)
