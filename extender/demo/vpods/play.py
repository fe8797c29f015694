"""Runs the demo: vpods that grow in small steps, a node that is drained, faults of the API server, a crash, a shrink.

Promises: the load is the same each time; the result is based on all that the API server wrote, not on Waggle's own
numbers; everything that was started is stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from rich.console import Console
from rich.live import Live

from extender.demo.cast import Cast, CastError
from extender.demo.run import DemoError, sigterm_interrupts, until_interrupted
from extender.demo.vpods.fleet import (
    CLUSTER_ARGUMENTS,
    EARLY_FAULTS,
    FEWEST,
    NAMESPACE,
    SET,
    VPODS,
    WRITE_FAULTS,
    cluster_objects,
    quiet,
    sections,
    vpod,
    vpod_path,
)
from extender.demo.vpods.history import History, Witness, moves, placements, unevenness, violations
from extender.demo.vpods.table import Scene, Verdict, live_table, show_stay, show_verdict
from extender.kube.client.api import ApiError
from extender.operate.output import as_markup

#: Seconds between two looks, and between two steps of a vpod's growth.
_GLANCE, _STEP = 0.1, 0.25
#: Seconds for which nothing may be written until that counts as rest.
_QUIET = 0.8
#: Seconds that an act may take on a slow machine.
_PATIENCE = 60.0
#: The node that is drained.
_NODE = "node-2"


@dataclass(frozen=True)
class Act:
    """One step: `play` does something, and waits until it has had its effect. It returns what it saw."""

    title: str
    play: Callable[[], str]


class VPodsDemo:
    """The demo. `pace` scales the time between the steps of its load."""

    def __init__(self, *, port: int = 0, verbose: bool = False, pace: float = 1.0) -> None:
        self._console = Console(highlight=False)
        self._port = port
        self._verbose = verbose
        self._pace = pace
        self._scene = Scene()
        self._history = History()
        self._wanted: dict[str, int] = {}
        self._faults_before = 0
        self._wrong: list[str] = []

    def run(self, *, stay: bool = False) -> bool:
        """Run all acts, and return whether every law held. With `stay`, then keep everything running until Ctrl-C.
        Raises DemoError."""
        try:
            cast = Cast(port=self._port, verbose=self._verbose, sections=sections())
            with sigterm_interrupts(), closing(cast):
                return self._play(cast, stay=stay)
        except CastError as error:
            raise DemoError(str(error)) from error

    def _play(self, cast: Cast, *, stay: bool) -> bool:
        begun = time.monotonic()
        self._cast = cast
        with self._console.status("starting an API server, a StatefulSet and Waggle on this machine ..."):
            cast.start_cluster(cluster_objects(), CLUSTER_ARGUMENTS)
            cast.set_faults(list(EARLY_FAULTS))
            cast.start_waggle()
            cast.wait_ready()
        self._console.print(
            f"[green]✓[/green] a StatefulSet of {FEWEST} pods on 6 nodes in 3 zones; Waggle serves at "
            f"[bold]{cast.url}[/bold]",
            soft_wrap=True,
        )
        try:
            witness = Witness(cast.cluster_url, self._history)
        except httpx.HTTPError as error:
            raise CastError(f"the API server does not answer: {error}") from error
        with closing(witness):
            good = [self._perform(act) for act in self.acts()]
            verdict = self.verdict()
        show_verdict(self._console, verdict, time.monotonic() - begun)
        if stay:
            show_stay(self._console, cast)
            until_interrupted(cast)
        return all(good) and not verdict.wrong

    # -- the acts -------------------------------------------------------------------------------------------------

    def acts(self) -> list[Act]:
        """Return the acts, in their order."""
        return [
            Act(f"Arrival: {len(VPODS)} vpods want a few vreplicas each, on at least two pods", self._arrive),
            Act("Growth: each wants one more, again and again, as autoscalers of work do; the set grows", self._grow),
            Act(
                f"Drain: {_NODE} is cordoned; its vreplicas move, and both pods serve meanwhile",
                self._drain,
            ),
            Act("Faults: 429, 500, answers lost before and after the write, or late; watches dropped", self._break),
            Act("Crash: Waggle is killed (SIGKILL) and restarted; no vreplica moves", self._crash),
            Act("Shrink: the vpods want little; the last pods are emptied, and only then removed", self._shrink),
        ]

    def _arrive(self) -> str:
        for name, wanted in VPODS.items():
            self._wanted[name] = quiet(wanted)
            self._cast.create(vpod(name, self._wanted[name]))
        return self._settled()

    def _grow(self) -> str:
        while steps := [name for name, wanted in VPODS.items() if self._wanted[name] < wanted]:
            for name in steps:
                self._want(name, self._wanted[name] + 1)
            self._wait(_STEP * self._pace)
        return self._settled()

    def _drain(self) -> str:
        before = self._history.latest()
        self._cordon(_NODE, True)
        self._until(lambda: not self._hosted_on(_NODE), f"vreplicas stay on pods of {_NODE}")
        said = self._settled()
        self._cordon(_NODE, False)
        number = moves(self._history.in_order(), before)
        return f"{number} vreplicas moved, {said}"

    def _break(self) -> str:
        self._faults_before = self._cast.faults_fired()
        self._cast.set_faults(list(WRITE_FAULTS))
        names = list(VPODS)
        for number in range(4 * len(names)):
            name = names[number * 5 % len(names)]
            self._want(name, VPODS[name] + (number % 7) - 3)
            self._wait(_STEP / 4 * self._pace)
        for name, wanted in VPODS.items():
            self._want(name, wanted)
        said = self._settled()
        return f"{self._cast.faults_fired()} faults, {said}"

    def _crash(self) -> str:
        before = self._history.latest()
        self._scene.is_down, self._scene.found = True, {}
        self._cast.kill_waggle()
        self._cast.start_waggle()
        self._cast.wait_ready()
        self._scene.is_down = False
        self._wait(_QUIET)
        said = self._settled()
        number = moves(self._history.in_order(), before)
        if number:
            self._wrong.append(f"{number} vreplicas moved for a restart")
        return f"{number} vreplicas moved, {said}"

    def _shrink(self) -> str:
        for name, wanted in VPODS.items():
            self._want(name, quiet(wanted))
        self._until(lambda: self._sums().get("replicas") == FEWEST, f"the set does not shrink to {FEWEST} pods")
        return self._settled()

    # -- load -----------------------------------------------------------------------------------------------------

    def _want(self, name: str, vreplicas: int) -> None:
        """As `kubectl scale vpod` does."""
        self._wanted[name] = vreplicas
        self._cast.patch(f"{vpod_path(name)}/scale", {"spec": {"replicas": vreplicas}})

    def _cordon(self, node: str, on: bool) -> None:
        self._cast.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})

    # -- looking --------------------------------------------------------------------------------------------------

    def _perform(self, act: Act) -> bool:
        """Run one act. Return False if a law was broken. Raises CastError if it has no effect in time."""
        begun = time.monotonic()
        self._scene.title = act.title.split(":")[0]
        with self._live():
            said = act.play()
        good = not self._wrong and not violations(self._history.in_order())
        mark = "[green]✓[/green]" if good else "[red]✗[/red]"
        note = f"{said}, {time.monotonic() - begun:.1f} s"
        self._console.print(
            f"{mark} {as_markup(act.title)} [dim]({as_markup(note)})[/dim]", soft_wrap=not self._console.is_terminal
        )
        return good

    def _live(self) -> Live:
        """Return the live table, which a thread redraws, also while Waggle restarts."""
        table = partial(live_table, self._scene)
        return Live(console=self._console, get_renderable=table, refresh_per_second=5, transient=True)

    def _look(self) -> None:
        """Read Waggle's numbers for the table."""
        self._cast.check()
        try:
            self._scene.found = self._cast.waggle(f"/v1/vpods/{NAMESPACE}/{SET}")
        except (CastError, ApiError):
            return
        self._scene.faults = self._faults_before + self._cast.faults_fired()
        self._scene.moves = moves(self._history.in_order())

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._look()
            time.sleep(min(_GLANCE, left))

    def _until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        """Wait until it is so. Raises CastError after `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > until:
                raise CastError(f"{otherwise} within {_PATIENCE:g} s")
            self._look()
            time.sleep(_GLANCE)

    def _settled(self) -> str:
        """Wait until every vreplica has a pod, and nothing is written any more. Return the numbers."""
        self._until(self._has_all, "not every vreplica has a pod")
        while True:
            before = self._history.latest()
            self._wait(_QUIET)
            if before == self._history.latest() and self._has_all():
                break
        sums, number = self._sums(), sum(self._wanted.values())
        return f"{number} vreplicas on {sums.get('replicas', '?')} pods"

    def _has_all(self) -> bool:
        placed = placements(self._history.in_order())
        return all(placed.get(name, Counter()).total() == wanted for name, wanted in self._wanted.items())

    def _hosted_on(self, node: str) -> bool:
        pods = {name for name, pod in self._cast.pods().items() if pod["spec"].get("nodeName") == node}
        return any(pods & pods_of.keys() for pods_of in placements(self._history.in_order()).values())

    def _sums(self) -> Mapping[str, Any]:
        sums: Mapping[str, Any] = self._scene.found.get("sums", {})
        return sums

    def verdict(self) -> Verdict:
        """Judge all that the API server wrote."""
        entries = self._history.in_order()
        sizes = [each.replicas for each in entries if not each.vpod]
        wrong = [*self._wrong, *violations(entries)]
        for name, pods in placements(entries).items():
            if pods.total() != self._wanted.get(name, 0):
                wrong.append(f"{name} wants {self._wanted.get(name, 0)} vreplicas, {pods.total()} have a pod")
            elif uneven := unevenness(pods, sizes[-1]):
                wrong.append(f"{name} is uneven: {uneven}")
        return Verdict(
            wrong=wrong,
            versions=len(entries),
            moves=moves(entries),
            faults=self._faults_before + self._cast.faults_fired(),
            largest=max(sizes, default=0),
            smallest=min(sizes, default=0),
        )
