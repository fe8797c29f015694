"""The play: one act after the other, each with live progress, and a check that it ended as it should."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from algorithm.registry import AlgorithmError, create
from extender.demo import hived
from extender.demo.cast import Cast, CastError
from extender.demo.report import Outlook, show_farewell, show_report, show_stay
from extender.demo.workloads import MANIFESTS, Act, Expect, Object, WorkloadError, acts, nodes
from extender.logs.printable import printable
from extender.operate.output import as_markup
from extender.operate.settings_files import own_settings
from extender.settings import SettingsError

#: Seconds that one act may take on a slow machine before it counts as failed.
_ACT_PATIENCE = 60.0
_GLANCE = 0.15
#: Longer than the stand-in for kube-scheduler backs off at most between two tries of one pod.
_CALM_SECONDS = 3.0


class DemoError(RuntimeError):
    """The demo could not be played to its end; the message says why."""


class DemoInputError(DemoError):
    """What was given cannot be used. Nothing was started."""


class Demo:
    """`run` plays it and says whether all ended as it should."""

    def __init__(
        self,
        *,
        port: int = 0,
        workloads: Path | None = None,
        kube_scheduler: Path | None = None,
        algorithm: str = "packing",
        settings: Path | None = None,
        verbose: bool = False,
        record: Path | None = None,
    ) -> None:
        """`algorithm` is any that is installed, `settings` a file with its settings in its own format (YAML for most).

        The acts expect the results that `packing` and `hived` promise, `hived` with the demo's own settings. Of any
        other algorithm they expect only that every pod runs, or waits with a reason. Without `workloads` they are
        those of manifests/ beside this file, or HiveD's own if that is shown. `record`: the folder for a recording.
        """
        self._console = Console(highlight=False)
        self._port = port
        self._workloads = workloads
        self._algorithm = algorithm
        self._settings = settings
        self._kube_scheduler = kube_scheduler
        self._verbose = verbose
        self._record = record

    def run(self, *, stay: bool = False) -> bool:
        """Plays all acts. With `stay` it then keeps everything running until Ctrl-C.

        Raises DemoInputError for what cannot be used, and DemoError.
        """
        try:
            play = self._acts()
            cast = self._cast()
        except (CastError, WorkloadError) as error:
            raise DemoInputError(str(error)) from error
        try:
            with sigterm_interrupts(), closing(cast):
                return self._play(cast, play, stay=stay)
        except (CastError, WorkloadError) as error:
            raise DemoError(str(error)) from error

    @property
    def _tenants(self) -> bool:
        """Whether HiveD is shown with the demo's tenants."""
        return self._algorithm == "hived" and self._settings is None

    @property
    def _promised(self) -> bool:
        """Whether it is known what becomes of the acts."""
        return self._algorithm == "packing" or self._tenants

    def _acts(self) -> list[Act]:
        if self._tenants and self._workloads is None:
            return hived.acts()
        play = acts(self._workloads or MANIFESTS)
        return play if self._promised else [replace(act, expect=Expect.SETTLES) for act in play]

    def _cast(self) -> Cast:
        section = hived.ALGORITHM if self._tenants else self._checked()
        return Cast(
            port=self._port,
            verbose=self._verbose,
            kube_scheduler=self._kube_scheduler,
            sections={"algorithm": section},
            record=self._record,
        )

    def _checked(self) -> Object:
        """The algorithm's section of Waggle's configuration, before anything is started.

        Raises DemoInputError.
        """
        if self._settings is None:
            section: Object = {"name": self._algorithm}
        else:
            try:
                section = {"name": self._algorithm, "settings": own_settings(self._settings, self._algorithm)}
            except (AlgorithmError, SettingsError) as error:
                raise DemoInputError(str(error)) from error
        try:
            create(self._algorithm, section.get("settings", {}))
        except AlgorithmError as error:
            raise DemoInputError(str(error)) from error
        return section

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
        if not self._promised:
            self._console.print(
                f"  The titles say what packing does. {as_markup(self._algorithm)} may decide otherwise: "
                "each pod has to run, or to wait with a reason."
            )
        ended = [(act, self._perform(cast, act)) for act in play]
        outlook = Outlook(cast, [act for act, _ in ended], gangs=self._promised)
        show_report(self._console, outlook)
        well = all(good for _, good in ended) and not outlook.wrong
        show_farewell(self._console, well, outlook, time.monotonic() - begun)
        if stay:
            show_stay(self._console, cast, outlook)
            until_interrupted(cast)
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
            good, calm = False, Calm()
            while not good and time.monotonic() - begun < _ACT_PATIENCE:
                time.sleep(_GLANCE)
                cast.check()
                pods = cast.pods()
                if act.pods:
                    live.update(
                        Text(f"  {printable(act.name)}: {_progress(act, pods)}", no_wrap=True, overflow="ellipsis")
                    )
                good = calm.lasts(act, pods) if act.expect is Expect.SETTLES else _as_expected(act, pods)
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


class Calm:
    """Whether an end lasts that is not known beforehand: a pod that was refused may get its place at the next try.

    If all pods of the act run, none is tried again.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._places: dict[str, str] | None = None

    def lasts(self, act: Act, pods: dict[str, Object]) -> bool:
        """Whether all is as expected, and has been, without any pod moving, for as long as a refused pod backs off."""
        good = _as_expected(act, pods)
        if good and all(_runs(pods[name]) for name in act.pods):
            return True
        now, places = time.monotonic(), {name: pod["spec"].get("nodeName", "") for name, pod in pods.items()}
        if not good or places != self._places:
            self._since, self._places = now, places
        return now - self._since >= _CALM_SECONDS


def _as_expected(act: Act, pods: dict[str, Object]) -> bool:
    mine = [pods[name] for name in act.pods if name in pods]
    running = sum(map(_runs, mine))
    refused = sum(map(_is_refused, mine))
    match act.expect:
        case Expect.ALL_RUN:
            return running == len(act.pods)
        case Expect.NONE_RUNS:
            return running == 0 and refused == len(act.pods)
        case Expect.SETTLES:
            return running + refused == len(act.pods)
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


def until_interrupted(cast: Cast) -> None:
    """Wait for Ctrl-C. Raises CastError if a process ends by itself."""
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
