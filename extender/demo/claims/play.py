"""Runs the demo: pools under 65 claims a second, a rush, faults of the API server, a crash, and the end of all claims.

Promises: the load is the same each time; the result is based on what the callers saw and what the API server stores,
not only on Waggle's own numbers; everything that was started is stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.live import Live

from extender.demo.cast import Cast, CastError
from extender.demo.claims.books import Books
from extender.demo.claims.callers import Callers
from extender.demo.claims.pools import (
    CLAIM_LABEL,
    CLUSTER_ARGUMENTS,
    EARLY_FAULTS,
    NAMESPACE,
    POOLS,
    WRITE_FAULTS,
    cluster_objects,
    sections,
)
from extender.demo.claims.table import Scene, Verdict, act_summary, live_table, show_stay, show_verdict
from extender.demo.run import DemoError, sigterm_interrupts, until_interrupted
from extender.demo.workloads import Object
from extender.kube.client.api import ApiError
from extender.operate.output import as_markup

#: Claims per second: during the demo, and afterwards with --stay.
RATE, _LATER_RATE = 65.0, 6.0
#: How many callers the rush adds, and for how many seconds they use their pods.
_RUSH, _RUSH_SECONDS = 120, 0.8
#: Seconds between two reads of Waggle's numbers, and between two comparisons with the API server.
_GLANCE, _COMPARE = 0.2, 1.0
#: Seconds that the last claims may take to end on a slow machine.
_PATIENCE = 45.0
#: A pod is not compared with the API server if its lease ends within this many seconds.
_CLOSE = 0.5


@dataclass(frozen=True)
class Act:
    """One step: `begin` is called, then the step lasts `seconds`."""

    title: str
    seconds: float
    begin: Callable[[], None] = lambda: None


class ClaimsDemo:
    """The demo. `pace` scales the duration of its steps; `rate`: claims per second."""

    def __init__(self, *, port: int = 0, verbose: bool = False, pace: float = 1.0, rate: float = RATE) -> None:
        self._console = Console(highlight=False)
        self._port = port
        self._verbose = verbose
        self._pace = pace
        self._rate = rate
        self._scene = Scene(Books())
        self._looks = self._own_looks = self._faults_before = 0
        self._compare_at = 0.0

    def run(self, *, stay: bool = False) -> bool:
        """Run all steps, and return whether every invariant held. With `stay`, then keep everything running until
        Ctrl-C. Raises DemoError."""
        try:
            cast = Cast(port=self._port, verbose=self._verbose, sections=sections())
            with sigterm_interrupts(), closing(cast):
                return self._play(cast, stay=stay)
        except CastError as error:
            raise DemoError(str(error)) from error

    def _play(self, cast: Cast, *, stay: bool) -> bool:
        begun = time.monotonic()
        self._cast = cast
        with self._console.status("starting an API server, two pools of warm pods and Waggle on this machine ..."):
            cast.start_cluster(cluster_objects(), CLUSTER_ARGUMENTS)
            cast.set_faults(list(EARLY_FAULTS))
            cast.start_waggle()
            cast.wait_ready()
            self._wait_full(_PATIENCE)
        size = sum(each.size for each in POOLS)
        if load := load_of_others():
            self._console.print(f"[yellow]![/yellow] {load}: answers take longer than they need to", soft_wrap=True)
        self._console.print(
            f"[green]✓[/green] {len(POOLS)} pools with {size} idle pods; Waggle serves at [bold]{cast.url}[/bold]"
        )
        with self._callers(self._rate) as callers:
            good = [self._perform(act) for act in self._acts(callers)]
            good.append(self._end(callers))
        verdict = self._verdict()
        show_verdict(self._console, verdict, time.monotonic() - begun)
        if stay:
            with self._callers(_LATER_RATE):
                show_stay(self._console, cast)
                until_interrupted(cast)
        return all(good) and not verdict.wrong

    @contextmanager
    def _callers(self, rate: float) -> Iterator[Callers]:
        callers = Callers(self._cast.url, self._scene.books, rate=rate)
        callers.start()
        try:
            yield callers
        finally:
            callers.abandon()

    # -- the acts -------------------------------------------------------------------------------------------------

    def _acts(self, callers: Callers) -> list[Act]:
        rate, pools = f"{self._rate:.0f} claims a second", " and ".join(each.name for each in POOLS)
        return [
            Act(f"Load: {rate} of {pools}; one pod or 3 at once; some callers disconnect, some crash", 4.0),
            Act(
                f"Rush: {_RUSH} additional callers at once; they queue, and tenants are served by their weights",
                3.0,
                lambda: callers.rush(_RUSH, POOLS[0].name, _RUSH_SECONDS),
            ),
            Act(
                "Faults: 429, 500, answers lost before and after the write, or late; watches dropped",
                5.0,
                self._break,
            ),
            Act("Crash: Waggle is killed (SIGKILL) while claims are being served, and restarted", 3.0, self._crash),
        ]

    def _break(self) -> None:
        self._faults_before = self._cast.faults_fired()
        self._cast.set_faults(list(WRITE_FAULTS))

    def _crash(self) -> None:
        self._scene.is_down, self._scene.pools = True, {}
        self._cast.kill_waggle()
        self._cast.start_waggle()
        self._cast.wait_ready()
        self._scene.is_down = False

    def _perform(self, act: Act) -> bool:
        """Run one step. Return False if an invariant was violated. Raises CastError if no caller gets a pod."""
        begun = time.monotonic()
        self._scene.title = act.title.split(":")[0]
        with self._live():
            act.begin()
            until = time.monotonic() + act.seconds * self._pace
            while time.monotonic() < until or not self._has_answers(begun):
                self._look()
                time.sleep(_GLANCE)
        good = not self._scene.books.wrong
        self._tell(act.title, good, f"{act_summary(self._scene.books, begun)}, {time.monotonic() - begun:.1f} s")
        return good

    def _has_answers(self, begun: float) -> bool:
        """Whether a caller got a pod since `begun`. Raises CastError after `_PATIENCE` seconds without one."""
        found = bool(self._scene.books.answers(begun))
        if not found and time.monotonic() - begun > _PATIENCE:
            raise CastError(f"no caller got a pod within {_PATIENCE:g} s ({self._scene.title})")
        return found

    def _live(self) -> Live:
        """Return the live table, which a thread redraws, also while Waggle restarts."""
        table = partial(live_table, self._scene)
        return Live(console=self._console, get_renderable=table, refresh_per_second=5, transient=True)

    def _end(self, callers: Callers) -> bool:
        """Let all claims end, and wait until every pod is idle again."""
        begun = time.monotonic()
        self._scene.title = "End"
        with self._live():
            callers.stop()
            while not callers.have_ended and time.monotonic() - begun < _PATIENCE:
                self._look()
                time.sleep(_GLANCE)
            good = callers.have_ended and self._wait_full(_PATIENCE)
        self._tell("End: no more callers; pods of crashed callers return when their leases expire", good)
        return good

    def _tell(self, title: str, good: bool, found: str = "") -> None:
        mark = "[green]✓[/green]" if good else "[red]✗[/red]"
        note = f" [dim]({found})[/dim]" if found else ""
        self._console.print(f"{mark} {as_markup(title)}{note}", soft_wrap=not self._console.is_terminal)

    # -- looking --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read and check Waggle's numbers; every `_COMPARE` seconds, compare the callers' pods with the API server."""
        self._cast.check()
        scene = self._scene
        try:
            items = self._cast.waggle(f"/v1/pools?namespace={NAMESPACE}")["items"]
        except (CastError, ApiError):
            return
        scene.pools = {item["name"]: item for item in items}
        scene.faults = self._faults_before + self._cast.faults_fired()
        self._own_looks += 1
        for item in items:
            ended = item["succeeded"] + sum(item["failed"].values())
            if item["accepted"] != ended + item["pending"]:
                scene.books.blame(
                    f"pool {item['name']}: {item['accepted']} accepted, {ended} ended, {item['pending']} pending"
                )
        if time.monotonic() >= self._compare_at:
            self._compare_at = time.monotonic() + _COMPARE
            self._compare()

    def _compare(self) -> None:
        """Check that each pod that a caller had before and after the list belongs to its claim at the API server."""
        before = self._scene.books.holds()
        real = {pod["metadata"]["uid"]: _claim_of(pod) for pod in self._cast.pods().values()}
        after, now = self._scene.books.holds(), time.monotonic()
        for uid, hold in before.items():
            if after.get(uid) == hold and now + _CLOSE < hold.until and real.get(uid) != hold.claim:
                found = f"belongs to {real[uid]!r}" if uid in real else "is not"
                self._scene.books.blame(f"pod {hold.pod} of claim {hold.claim} {found} at the API server")
        self._looks += 1

    def _wait_full(self, patience: float) -> bool:
        """Wait until all pods of all pools are idle and none is claimed. Return whether that happened."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            self._look()
            found = self._scene.pools
            is_full = all(found.get(each.name, {}).get("idle") == each.size for each in POOLS)
            if is_full and not self._claimed():
                return True
            time.sleep(_GLANCE / 2)
        return False

    def _claimed(self) -> list[str]:
        """Return the names of the pods that are claimed at the API server."""
        return [name for name, pod in self._cast.pods().items() if _claim_of(pod)]

    def _verdict(self) -> Verdict:
        books, claimed = self._scene.books, self._claimed()
        numbers = books.numbers()
        wrong = list(books.wrong)
        if numbers.pending:
            wrong.append(f"{numbers.pending} requests have no answer")
        wrong += [f"pod {name} is left claimed" for name in claimed]
        for pool in POOLS:
            idle = self._scene.pools.get(pool.name, {}).get("idle", 0)
            if idle != pool.size:
                wrong.append(f"pool {pool.name} has {idle} idle pods of {pool.size}")
        return Verdict(
            books=books,
            wrong=wrong,
            faults=self._faults_before + self._cast.faults_fired(),
            looks=self._looks,
            own_looks=self._own_looks,
            claimed=len(claimed),
            idle=sum(found.get("idle", 0) for found in self._scene.pools.values()),
        )


def load_of_others() -> str:
    """Say what else this machine does, if that is as much as it can; "" if not, or if nobody knows."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return ""
    cpus = os.cpu_count() or 1
    return f"This machine is busy (load {load:.0f} on {cpus} CPUs)" if load > cpus else ""


def _claim_of(pod: Object) -> str:
    """Return the claim of the pod; "" if it is in none, or is being deleted."""
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        return ""
    return str((meta.get("labels") or {}).get(CLAIM_LABEL, ""))
