"""A server behind a real kube-scheduler records what it decides: a replay decides the same, and far quicker."""

from __future__ import annotations

import re
import subprocess
import sys
import time

from tests.e2e.world import RealCluster

WORLD = {"records": True}

#: The pods of the second test come one after the other: three million a week.
EVERY_SECONDS, PODS = 0.2, 50


def replayed(w: RealCluster) -> str:
    """What `waggle replay` says. The server may go on recording meanwhile."""
    command = [sys.executable, "-m", "extender.cli", "replay", str(w.recording)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def restart(w: RealCluster) -> None:
    assert w.waggle is not None
    w.waggle.kill()
    w.start_waggle()


def test_all_that_was_asked_is_decided_the_same_again(w: RealCluster) -> None:
    """Gangs that wait, that do not fit and that evict, pods that go, and a server that is killed and started again."""
    w.nodes(4, gpus=8)
    low = [f"low-{i}" for i in range(6)]
    for name in low:
        w.pod(name, gpus=4, priority=1)
    w.all_placed(low)
    for name in (huge := w.gang("huge", 8, gpus=8)):
        w.refused(name)
    for name in (late := w.gang("late", 2, gpus=4)):
        w.place(name)
    w.delete(late[0])
    urgent = w.gang("urgent", 2, gpus=8, priority=100)
    w.all_placed(urgent)
    restart(w)
    for name in huge:
        w.delete(name)
    w.pod("last")
    w.place("last")
    assert w.waggle is not None
    w.waggle.stop()
    told = replayed(w)
    w.start_waggle()
    assert "all 2 runs: " in told
    assert told.count("all the same") == 3


def test_a_replay_is_a_hundred_times_as_fast_as_a_busy_cluster(w: RealCluster, record_property) -> None:
    """A burst of hundreds of events a second is not: most of a replay is what the engine decides, as it did then."""
    restart(w)
    w.nodes(8, gpus=8)
    names = [f"p{i:02}" for i in range(PODS)]
    for name in names:
        w.pod(name, gpus=1)
        time.sleep(EVERY_SECONDS)
    w.all_placed(names)
    told = replayed(w)
    latest = re.search(r"^run (\d+) of \1,.* ([\d,]+) times as fast$", told, re.MULTILINE)
    assert latest is not None, told
    record_property("measured", latest[0])
    assert int(latest[2].replace(",", "")) >= 100, told
