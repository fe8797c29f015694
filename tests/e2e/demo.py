"""`make demo-real`: the demo of `waggle demo`, with the same acts and tables, on a real control plane.

etcd, kube-apiserver, kube-controller-manager, KWOK and kube-scheduler instead of the stand-ins; the rest is the demo's
own code. A real API server has no faults to inject, so in the last act Waggle is killed and nothing else goes wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from extender.demo.cast import Cast, Process, real_scheduler_flags
from extender.demo.run import Demo, DemoError
from extender.demo.workloads import Act, Object
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.e2e.build import BuildError, build
from tests.e2e.cluster import ControlPlane
from tests.e2e.processes import ProcessError
from tests.e2e.runs import run_folder
from tests.e2e.scheduler_config import write


class RealCast(Cast):
    """The demo's cast, with a control plane of real programs around Waggle."""

    def __init__(
        self, programs: Mapping[str, Path], folder: Path, *, port: int, verbose: bool, record: Path | None
    ) -> None:
        super().__init__(port=port, verbose=verbose, kube_scheduler=programs["kube-scheduler"], record=record)
        self.kubectl = str(programs["kubectl"])
        self._programs = programs
        self._stack = ExitStack()
        self._plane = ControlPlane(programs, folder)

    def start_cluster(self, nodes: list[Object]) -> None:
        self._stack.enter_context(self._plane)
        self.cluster_url = self._plane.url
        self.kubeconfig = self._plane.kubeconfig("admin")
        self._api = connect(ClusterSettings(kubeconfig=self.kubeconfig))
        for node in nodes:
            self.create(node)

    def waggle_cluster(self) -> Object:
        return {"kubeconfig": str(self._plane.kubeconfig("waggle"))}

    def start_scheduler(self) -> None:
        config = write(
            self.folder / "kube-scheduler.yaml",
            kubeconfig=self._plane.kubeconfig("kube-scheduler"),
            url=self.url,
        )
        command = [str(self._programs["kube-scheduler"]), f"--config={config}", *real_scheduler_flags(self.folder)]
        self._scheduler = Process("kube-scheduler", command, self.folder, verbose=self._verbose)

    def set_faults(self, faults: list[Any]) -> None:
        """None: this API server is not ours."""

    def faults_fired(self) -> int:
        """The one that is left: Waggle was killed."""
        return 1

    def check(self) -> None:
        super().check()
        self._plane.check()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._stack.close()


class RealDemo(Demo):
    """The demo's play with that cast."""

    def __init__(
        self,
        programs: Mapping[str, Path],
        folder: Path,
        *,
        port: int = 0,
        verbose: bool = False,
        record: Path | None = None,
    ) -> None:
        super().__init__(port=port, verbose=verbose, kube_scheduler=programs["kube-scheduler"], record=record)
        self._programs, self._folder = programs, folder

    def _cast(self) -> Cast:
        return RealCast(self._programs, self._folder, port=self._port, verbose=self._verbose, record=self._record)

    def _acts(self) -> list[Act]:
        *others, last = super()._acts()
        title = "Crash: Waggle is killed in the middle of it, and started again"
        return [*others, replace(last, title=title, faults=())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo-real", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stay", action="store_true", help="keep everything running at the end, to look at it")
    parser.add_argument("--port", type=int, default=0, help="where Waggle serves; 0: 9096 if it is free, else any")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="record what Waggle decides into this folder")
    parser.add_argument("--verbose", "-v", action="store_true", help="show what Waggle and kube-scheduler log")
    chosen = parser.parse_args()
    try:
        programs = build()
        with run_folder() as folder:
            demo = RealDemo(programs, folder, port=chosen.port, verbose=chosen.verbose, record=chosen.record)
            good = demo.run(stay=chosen.stay)
    except (BuildError, DemoError, ProcessError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("demo: stopped, nothing is left running\n")
        return 130
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
