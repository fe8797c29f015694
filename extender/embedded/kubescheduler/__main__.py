"""`python -m extender.embedded.kubescheduler --server URL --config FILE`: the stand-in as a process of its own.

Prints `ready` once nodes and pods are known; ends at SIGTERM or SIGINT. Exit status 1: the configuration was refused;
2: an extender's answer would have made the real kube-scheduler panic.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import yaml

from extender.embedded.kubescheduler.config import ConfigError, SchedulerConfig, from_kube_scheduler_configuration
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import ConnectionSettingsError, connect
from extender.logs.printable import printable
from extender.logs.setup import configure
from extender.settings import ClusterSettings, LogSettings


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m extender.embedded.kubescheduler", description=__doc__)
    parser.add_argument("--server", required=True, metavar="URL", help="the API server, http(s)://host:port")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="a KubeSchedulerConfiguration")
    parser.add_argument("--seed", type=int, default=0, help="of the choice between equal nodes (default 0)")
    given = parser.parse_args(arguments)
    try:
        config = _read(given.config, given.seed)
        api = connect(ClusterSettings(server=given.server), agent="kube-scheduler")
    except (ConfigError, ConnectionSettingsError) as error:
        print(printable(str(error), keep="\n"), file=sys.stderr)
        return 1
    configure(LogSettings())
    scheduler = KubeSchedulerStandIn(api, config)
    try:
        return _serve(scheduler)
    finally:
        scheduler.stop()
        api.close()


def _read(path: Path, seed: int) -> SchedulerConfig:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return from_kube_scheduler_configuration(document, seed=seed)


def _serve(scheduler: KubeSchedulerStandIn) -> int:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    scheduler.start()
    announced = False
    while not ended.wait(0.1):
        if scheduler.crashed:
            print(printable(scheduler.crashed), file=sys.stderr)
            return 2
        if not announced and scheduler.wait_synced(0.1):
            announced = True
            print("ready", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
