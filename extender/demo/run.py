"""The play: one act after the other, each with live progress, and a check that it ended as it should."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from extender.demo import hived
from extender.demo.cast import Cast, CastError
from extender.demo.report import Outlook, show_farewell, show_report, show_stay
from extender.demo.workloads import MANIFESTS, Act, Expect, Object, WorkloadError, acts, nodes
from extender.logs.printable import printable
from extender.operate.output import as_markup

#: Seconds that one act may take on a slow machine before it counts as failed.
_ACT_PATIENCE = 60.0
_GLANCE = 0.15


class DemoError(RuntimeError):
    """The demo could not be played to its end; the message says why."""


class Demo:
    """`run` plays it and says whether all ended as it should."""

    def __init__(
        self,
        *,
        port: int = 0,
        workloads: Path | None = None,
        kube_scheduler: Path | None = None,
        with_hived: bool = False,
        verbose: bool = False,
    ) -> None:
        """Without `workloads` they are those of manifests/ beside this file, or HiveD's own if that is shown."""
        self._console = Console(highlight=False)
        self._port = port
        self._workloads = workloads
        self._with_hived = with_hived
        self._kube_scheduler = kube_scheduler
        self._verbose = verbose

    def run(self, *, stay: bool = False) -> bool:
        """Plays all acts. With `stay` it then keeps everything running until Ctrl-C. Raises DemoError."""
        try:
            play = self._acts()
            cast = self._cast()
            with sigterm_interrupts(), closing(cast):
                return self._play(cast, play, stay=stay)
        except (CastError, WorkloadError) as error:
            raise DemoError(str(error)) from error

    def _acts(self) -> list[Act]:
        if self._with_hived and self._workloads is None:
            return hived.acts()
        return acts(self._workloads or MANIFESTS)

    def _cast(self) -> Cast:
        algorithm = hived.ALGORITHM if self._with_hived else None
        return Cast(port=self._port, verbose=self._verbose, kube_scheduler=self._kube_scheduler, algorithm=algorithm)

    def _play(self, cast: Cast, play: list[Act], *, stay: bool) -> bool:
        begun = time.monotonic()
        with self._console.status("starting an API server, Waggle and a kube-scheduler on this machine ..."):
            cast.start_cluster(nodes())
            cast.start_waggle()
            cast.start_scheduler()
            cast.wait_ready()
        machines = len(nodes())
        self._console.print(
            f"[green]✓[/green] {machines} nodes with 8 GPUs each; Waggle serves at [bold]{cast.url}[/bold]"
            + (f"; asked by {self._kube_scheduler}" if self._kube_scheduler else "")
        )
        ended = [(act, self._perform(cast, act)) for act in play]
        outlook = Outlook(cast, [act for act, _ in ended])
        show_report(self._console, outlook)
        well = all(good for _, good in ended) and not outlook.wrong
        show_farewell(self._console, well, outlook, time.monotonic() - begun)
        if stay:
            show_stay(self._console, cast, outlook)
            _until_interrupted(cast)
        return well

    # -- an act -----------------------------------------------------------------------------------------------------

    def _perform(self, cast: Cast, act: Act) -> bool:
        """Creates the act's pods and watches until they are as expected. False if that takes too long."""
        begun = time.monotonic()
        with Live(console=self._console, refresh_per_second=10, transient=True) as live:
            if act.faults:
                cast.set_faults([dict(fault) for fault in act.faults])
            for number, item in enumerate(act.objects):
                cast.create(item)
                if act.crash and number == len(act.objects) // 2:
                    self._crash(cast, live)
            good = False
            while not good and time.monotonic() - begun < _ACT_PATIENCE:
                time.sleep(_GLANCE)
                cast.check()
                pods = cast.pods()
                if act.pods:
                    live.update(
                        Text(f"  {printable(act.name)}: {_progress(act, pods)}", no_wrap=True, overflow="ellipsis")
                    )
                good = _as_expected(act, pods)
        if act.pods:
            mark = "[green]✓[/green]" if good else "[red]✗[/red]"
            seconds = time.monotonic() - begun
            found = f"[dim]({_progress(act, cast.pods())}, {seconds:.1f} s)[/dim]"
            self._console.print(f"{mark} {as_markup(act.title)} {found}", soft_wrap=not self._console.is_terminal)
        return good

    def _crash(self, cast: Cast, live: Live) -> None:
        live.update(Text("  killing Waggle (SIGKILL), and starting it again ..."))
        cast.kill_waggle()
        cast.start_waggle()
        cast.wait_ready()


def _as_expected(act: Act, pods: dict[str, Object]) -> bool:
    mine = [pods[name] for name in act.pods if name in pods]
    running = sum(map(_runs, mine))
    refused = sum(map(_is_refused, mine))
    match act.expect:
        case Expect.ALL_RUN:
            return running == len(act.pods)
        case Expect.NONE_RUNS:
            return running == 0 and refused == len(act.pods)
        case _:
            return bool(running) and running + refused == len(act.pods)


def _progress(act: Act, pods: dict[str, Object]) -> str:
    mine = [pods[name] for name in act.pods if name in pods]
    waiting = sum(not _runs(pod) for pod in mine)
    return f"{sum(map(_runs, mine))} of {len(act.pods)} run" + (f", {waiting} wait" if waiting else "")


def _runs(pod: Object) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def _is_refused(pod: Object) -> bool:
    """kube-scheduler has tried it and said why not."""
    if pod["spec"].get("nodeName"):
        return False
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)


def _until_interrupted(cast: Cast) -> None:
    try:
        while True:
            time.sleep(0.5)
            cast.check()
    except KeyboardInterrupt:
        return


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM and a closed terminal end what runs within as Ctrl-C does, so that what it started is stopped."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
