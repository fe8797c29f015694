"""A slice of `make attacks`: the quick ones, each held against the aims, and proof that a miss is noticed.

Other tests run beside the slice and make answers late: `make attacks`, which has the machine to itself, judges that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.attacks.arena import Arena
from tests.attacks.catalogue import ATTACKS
from tests.attacks.registry import Attack
from tests.attacks.runner import Runner

QUICK = [each for each in ATTACKS if each.quick]


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made


@pytest.mark.slow
def test_the_server_holds() -> None:
    with Runner(beside_others=True) as runner:
        broken = [result.attack for result in runner.run(QUICK, lambda _: None) if result.broke]
        # Other tests share the machine: what is broken is so again.
        again = runner.run(broken, lambda _: None)
    assert not any(result.broke for result in again), [result.problems for result in again]


def stand_still(arena: Arena) -> str:
    os.kill(arena.server.process.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(arena.server.process.pid, signal.SIGCONT)
    return "stopped for half a second"


def fail(_arena: Arena) -> str:
    raise AssertionError("was bound twice")


@pytest.mark.slow
def test_what_is_missed_is_told(runner: Runner) -> None:
    kept = []

    def leave_open(arena: Arena) -> str:
        for _ in range(20):
            kept.append(arena.connect())
            kept[-1].sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert kept[-1].recv(1000)
        return ""

    late = runner.run_one(Attack("test.stand_still", "stands still", stand_still, "none"))
    assert any("ms at p99" in problem for problem in late.problems), late.problems
    wrong = runner.run_one(Attack("test.fail", "fails", fail, "none"))
    assert wrong.problems[0] == "was bound twice"
    left = runner.run_one(Attack("test.leave_open", "leaves connections", leave_open, "none", settle_seconds=0.5))
    for connection in kept:
        connection.close()
    assert any("file descriptors stayed behind" in problem for problem in left.problems), left.problems
