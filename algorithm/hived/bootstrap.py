"""Collects the bound pods that are found at a start, and accounts for all of them at once.

        bound pods, in any order            a question               a pod waits, a bound pod ends
    +------------------------- COLLECTING ------------> RECOVERED ---------------------------------> (start-up is over)
    |                            ^    ^                     |
    +----------------------------+    +---------------------+
                                        a bound pod, a node

Accounting pod by pod would depend on the order: quota would go to the first pod, and a later pod may say that another
group had lost it. So a reported pod is only read. Pods are accounted for (`accounts.py`) at the first question, or
when the first pod waits. If more bound pods come after a question, the accounts are made anew from all of them. So the
result depends only on the nodes and on the set of bound pods.

Start-up is over when the first pod waits, or when the first bound pod ends. If neither happens for long, it is over
after the accounts were made anew a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Collection

from algorithm.hived.accounts import Accounts
from algorithm.hived.formats.podspec import UserError
from algorithm.hived.insight.status import Pages
from algorithm.hived.settings import HivedSettings
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.gangs import BoundPod, by_gang
from algorithm.hived.state.tenancy import Tenancy
from algorithm.model import Pod
from algorithm.tables import Table

#: How often accounts are made anew, and how many changes of nodes are remembered for that, by machine and in all.
_MOST_REMADE = 16
_CHANGES_EACH, _CHANGES = 4, 1000


class Bootstrap:
    """See the module's text."""

    def __init__(self, settings: HivedSettings, tenancy: Tenancy) -> None:
        self._settings, self._tenancy = settings, tenancy
        self._accounts = Accounts(settings, tenancy)
        self._health: list[tuple[str, bool, Collection[int]]] = []
        #: Bound pods by UID, and each as it was read, or why it cannot be read.
        self._pods: dict[str, Pod] = Table()
        self._read: dict[str, BoundPod | str] = Table()
        #: Whether the accounts lack something, and whether they were made of bound pods before.
        self._pending, self._made = False, False
        self._remade = 0
        self.is_over = False

    @property
    def accounts(self) -> Accounts:
        """The accounts of all bound pods reported so far."""
        if self._pending:
            self._recover()
        return self._accounts

    @property
    def hive(self) -> HivedCluster:
        """The hive as it is, without the bound pods that are not accounted for yet: this is no question."""
        return self._accounts.hive

    @property
    def pages(self) -> Pages:
        """The pages of that hive."""
        return self._accounts.pages

    def renew_pages(self) -> None:
        """The pages show that hive and nothing that was written before: they were those of another one."""
        self._accounts.renew_pages()

    def finish(self) -> Accounts:
        """Start-up is over: bound pods are accounted for one by one from now on."""
        accounts = self.accounts
        if not self.is_over:
            self.is_over = True
            accounts.hive.recovering = False
            self._pods, self._read, self._health = Table(), Table(), []
        return accounts

    def set_time(self, now: float) -> None:
        """Take the time, in seconds since 1970. It comes before each reported pod, and is not a question."""
        hive = self._accounts.hive
        if not hive.now:
            # What was learned before anybody said the time, at a change of settings, was just learned.
            for group in hive.lazily_preempted:
                group.lazily_preempted_at = now
        hive.now = now

    def set_health(self, machine: str, *, healthy: bool, bad: Collection[int] = ()) -> None:
        most = _CHANGES + _CHANGES_EACH * len(self._accounts.hive.layout.machines)
        if not self.is_over and len(self._health) >= most:
            self.finish()
        if not self.is_over:
            self._health.append((machine, healthy, bad))
            self._pending = self._pending or bool(self._pods)
        if not (self._pending and self._made):
            self._accounts.hive.set_health(machine, healthy=healthy, bad=bad)

    def collect(self, pod: Pod) -> None:
        """A bound pod is found, and start-up is not over."""
        read: BoundPod | str
        try:
            read = BoundPod.read(pod, self._tenancy.read(pod))
        except UserError as error:
            read = str(error)
        self._pods[pod.uid], self._read[pod.uid], self._pending = pod, read, True

    def _recover(self) -> None:
        if self._made:
            self._remake()
        self._made = True
        self._accounts.recover(by_gang(self._read, self._pods.values(), self._tenancy))
        self._pending = False
        if self._remade >= _MOST_REMADE:
            self.finish()

    def _remake(self) -> None:
        self._remade += 1
        accounts = Accounts(self._settings, self._tenancy)
        accounts.hive.now = self._accounts.hive.now
        for machine, healthy, bad in self._health:
            accounts.hive.set_health(machine, healthy=healthy, bad=bad)
        self._accounts = accounts
