"""All that one process serves, as the configuration says: kube-scheduler's verbs, claims, vpods, start-up ordering.

They share the client of the API server, the informer of nodes and the election, and nothing else: each has its own
engine with its own lock, and its own writes. docs/claims.md says when claims should have a process of their own.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.kube.informers.reflector import Timing
from extender.scheduling.policy import Limits
from extender.server.recording import RecordTo
from extender.server.service import Service
from extender.settings import Settings

if TYPE_CHECKING:
    from extender.server.claims.service import ClaimService
    from extender.server.ordering.service import OrderingService
    from extender.server.plans.service import PlanService
    from extender.server.vpods.service import VPodService


class ServerProcess:
    """`service`, `claims`, `vpods` and `plans`: None if they are not served. See `Service` for the arguments.

    Raises AlgorithmError, ConnectionSettingsError, SettingsError or OSError if the settings cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        record: RecordTo | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.service: Service | None = None
        self.claims: ClaimService | None = None
        self.vpods: VPodService | None = None
        self.ordering: OrderingService | None = None
        self.plans: PlanService | None = None
        if settings.extender.enabled:
            self.service = Service(settings, config=config, record=record, timing=timing, limits=limits)
            self.plans = _plans(settings, self.service)
        self.api: ApiServer = self.service.api if self.service is not None else connect(settings.cluster)
        nodes = self.service.nodes if self.service is not None else None
        if settings.claims.enabled:
            from extender.server.claims.service import ClaimService  # noqa: PLC0415 - others start without it

            leads = self._leads if self.service is not None and settings.leader_election.enabled else None
            self.claims = ClaimService(settings, self.api, nodes=nodes, timing=timing, leads=leads)
        if settings.vpods.enabled:
            from extender.server.vpods.service import VPodService  # noqa: PLC0415 - others start without it

            leadership = self.service.leadership if self.service is not None else None
            self.vpods = VPodService(settings, self.api, nodes=nodes, leadership=leadership, timing=timing)
        if settings.ordering.enabled:
            from extender.server.ordering.service import OrderingService  # noqa: PLC0415 - others start without it

            self.ordering = OrderingService(
                settings,
                self.api,
                pods=self.service.runtime.handle if self.service is not None else None,
                leadership=self.service.leadership if self.service is not None else None,
                timing=timing,
            )
            if self.service is not None:
                self.service.runtime.model.dependencies = self.ordering.views.sentences

    def _leads(self) -> bool:
        return self.service is not None and self.service.runtime.serves

    def start(self) -> None:
        """Start all threads. Returns at once, before the first lists are complete."""
        if self.claims is not None:
            self.claims.start()
        if self.vpods is not None:
            self.vpods.start()
        if self.ordering is not None:
            self.ordering.start()
        if self.service is not None:
            self.service.start()

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send writes in this event loop, which is the running one, until `leave_loop`."""
        for each in (self.service, self.claims, self.vpods, self.ordering):
            if each is not None:
                each.enter_loop(loop)

    def leave_loop(self) -> None:
        """Send writes in a thread again. Idempotent."""
        for each in (self.service, self.claims, self.vpods, self.ordering):
            if each is not None:
                each.leave_loop()

    def end_calls(self) -> None:
        """Answer the callers that wait for something to happen, since the server goes down. Idempotent."""
        if self.plans is not None:
            self.plans.stop()
        if self.claims is not None:
            self.claims.close()

    def stop(self) -> None:
        """Let writes in flight finish, and stop every thread. Idempotent; works also without a start."""
        if self.plans is not None:
            self.plans.stop()
        if self.claims is not None:
            self.claims.stop()
        if self.vpods is not None:  # before the service, which releases the Lease
            self.vpods.stop()
        if self.ordering is not None:
            self.ordering.stop()
        if self.service is not None:
            self.service.stop()
        self.api.close()


def _plans(settings: Settings, service: Service) -> PlanService | None:
    if not settings.plans.enabled:
        return None
    from extender.server.plans.service import PlanService  # noqa: PLC0415 - others start without it

    return PlanService(settings, service.runtime, service.api, lambda: service.reconfiguration.used)
