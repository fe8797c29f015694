"""What a server needs at once, and shares with the FastAPI app that is made later: verbs, probes, metrics, budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from extender.server.runtime import Runtime
from extender.server.views import Served
from extender.settings import ServerSettings
from extender.web.http.certificates import Certificates
from extender.web.http.refusals import Refusals
from extender.web.limits.budget import Budgets
from extender.web.limits.turnstile import Turnstile
from extender.web.pages.metrics import Metrics
from extender.web.pages.probes import Probes
from extender.web.pages.replayed import ReadOnlyReplay
from extender.web.verbs.handler import Verbs

if TYPE_CHECKING:
    from extender.server.claims.service import ClaimService
    from extender.server.ordering.service import OrderingService
    from extender.server.plans.service import PlanService
    from extender.server.vpods.service import VPodService


class Parts(NamedTuple):
    """The parts of one server. None of them needs FastAPI."""

    verbs: Verbs
    probes: Probes
    metrics: Metrics
    budgets: Budgets
    refusals: Refusals
    turnstile: Turnstile
    certificates: Certificates

    @classmethod
    def of(
        cls,
        runtime: Runtime | None,
        settings: ServerSettings,
        certificates: Certificates | None = None,
        claims: ClaimService | None = None,
        vpods: VPodService | None = None,
        plans: PlanService | None = None,
        ordering: OrderingService | None = None,
        *,
        replay: str = "",
    ) -> Self:
        """New parts. `certificates` are those that the server presents: metrics and /readyz report their state.

        `runtime` None: no verbs are served, but only claims, vpods or start-up ordering. `replay`: the runtime is this
        moment of a recording, so its pages are served, and no verbs.
        """
        served: Served | None = ReadOnlyReplay(replay) if replay else runtime or claims or vpods or ordering
        assert served is not None
        shown = certificates or Certificates(None)
        refusals = Refusals()
        max_body = settings.max_body_mib << 20
        budgets = Budgets.for_bodies_of(max_body)
        sources = (shown.metrics, refusals.metrics, budgets.metrics)
        others: dict[str, ClaimService | VPodService | OrderingService] = {}
        if claims is not None:
            others["claims"] = claims
        if vpods is not None:
            others["vpods"] = vpods
        if ordering is not None:
            others["ordering"] = ordering
        measured = [*others.values(), *([] if plans is None else [plans])]
        metrics = Metrics(runtime, *sources, *(each.metrics for each in measured))
        verbs = Verbs(None if replay else runtime, metrics, max_body=max_body, bodies=budgets.bodies)
        probes = Probes(served, shown.readiness_warning, others=others, hang=settings.hang_seconds)
        return cls(verbs, probes, metrics, budgets, refusals, Turnstile(), shown)
