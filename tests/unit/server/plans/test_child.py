"""Whatever becomes of the process of a plan, there is an answer, and the process is gone."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from extender.server.plans.child import Child
from extender.server.plans.frames import OUT_OF_MEMORY, Answer, Channel, Ended, Message, Needs, Order, Sent
from tests.support.installed import install

ORDER = Order(body=b"{}", seconds=30.0)


def nothing(_needs: Needs, _is_first: bool) -> Iterator[Message]:
    yield Sent(("nothing is there",))


def first(do: Callable[[], None]) -> Callable[[Needs, bool], Iterator[Message]]:
    """Do this when the process has read its order and waits for the cluster."""

    def feed(needs: Needs, is_first: bool) -> Iterator[Message]:
        do()
        yield from nothing(needs, is_first)

    return feed


def pid_of(child: Child) -> int:
    assert child._process is not None
    return child._process.pid


def is_gone(child: Child) -> bool:
    return child._process is None or child._process.returncode is not None


def test_a_plan_of_nothing() -> None:
    child = Child()
    answer = child.run(ORDER, nothing)
    assert (answer.outcome, answer.error, answer.trace) == ("clean", "", "")
    assert msgspec.json.decode(answer.body)["plan"]["warnings"] == ["nothing is there"]
    assert answer.cpu > 0
    assert answer.memory > 1 << 20
    assert is_gone(child)


def test_one_that_is_cancelled_before_it_starts() -> None:
    child = Child()
    child.cancel()
    assert child.run(ORDER, nothing).outcome == "cancelled"
    assert is_gone(child)


def test_one_that_is_cancelled_while_it_runs() -> None:
    child = Child()
    answer = child.run(ORDER, first(child.cancel))
    assert (answer.outcome, answer.status) == ("cancelled", 503)
    assert is_gone(child)


def test_one_that_does_not_end() -> None:
    child = Child(starting=1.0)
    answer = child.run(
        msgspec.structs.replace(ORDER, seconds=0.5), first(lambda: os.kill(pid_of(child), signal.SIGSTOP))
    )
    assert (answer.outcome, answer.status, answer.code) == ("timeout", 422, "PlanTimeout")
    assert "plans.seconds (0.5 s)" in answer.error
    assert is_gone(child)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGABRT, marks=pytest.mark.slow)])
def test_one_that_the_kernel_or_a_native_library_ends(how: signal.Signals) -> None:
    child = Child()
    answer = child.run(ORDER, first(lambda: os.kill(pid_of(child), how)))
    assert (answer.outcome, answer.code) == ("too_large", "PlanTooLarge")


def test_one_that_ends_without_an_answer() -> None:
    child = Child()
    answer = child.run(ORDER, first(lambda: os.kill(pid_of(child), signal.SIGTERM)))
    assert (answer.outcome, answer.status) == ("failed", 500)
    assert "status -15" in answer.trace


@pytest.mark.parametrize("mib", [12, pytest.param(30, marks=pytest.mark.slow)])
def test_one_that_needs_too_much_memory(mib: int) -> None:
    answer = Child().run(msgspec.structs.replace(ORDER, memory=mib << 20), nothing)
    assert (answer.outcome, answer.status, answer.code) == ("too_large", 422, "PlanTooLarge"), answer.trace


EXITS = """
import sys

from pydantic import BaseModel

from algorithm.registry import Plugin


class Settings(BaseModel):
    pass


PLUGIN = Plugin(settings=Settings, create=lambda settings: sys.exit({status}))
"""


@pytest.mark.parametrize("status", [0, pytest.param(OUT_OF_MEMORY, marks=pytest.mark.slow)])
def test_a_plug_in_that_exits_is_refused_and_named(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever status it chooses: one was taken for a lack of memory."""
    (tmp_path / "exits_in_a_plan.py").write_text(EXITS.format(status=status))
    install(tmp_path, monkeypatch, exits="exits_in_a_plan:PLUGIN")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    order = msgspec.structs.replace(ORDER, settings="algorithm: {name: exits}", algorithm="exits")
    answer = Child().run(order, nothing)
    assert (answer.outcome, answer.status, answer.code) == ("refused", 400, "")
    assert f"algorithm 'exits' cannot be made: SystemExit({status})" in answer.error


def test_a_fault_while_it_is_fed_passes_through_and_ends_it() -> None:
    def fail() -> None:
        raise RuntimeError("no cluster")

    child = Child()
    with pytest.raises(RuntimeError, match="no cluster"):
        child.run(ORDER, first(fail))
    assert is_gone(child)


def test_no_thread_and_no_descriptor_is_left() -> None:
    descriptors = Path("/proc/self/fd")
    before, threads = len([*descriptors.iterdir()]), threading.active_count()
    child = Child()
    child.run(ORDER, first(child.cancel))
    assert len([*descriptors.iterdir()]) <= before
    assert threading.active_count() <= threads


@pytest.mark.parametrize("sent", [b"", b"\0\0\0", b"\0\0\0\5abc", b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"\0\0\0\1\1"])
def test_what_is_no_message_ends_the_talk(sent: bytes) -> None:
    with pytest.raises(Ended):
        Channel(io.BytesIO(sent), io.BytesIO()).receive()


def test_messages_arrive_as_they_were_sent() -> None:
    pipe = io.BytesIO()
    sent: list[Message] = [ORDER, Needs(("n",), ("a",), (("b", "c=d"),)), Sent(), Answer(outcome="clean", body=b"x")]
    for message in sent:
        Channel(io.BytesIO(), pipe).send(message)
    pipe.seek(0)
    assert [Channel(pipe, io.BytesIO()).receive() for _ in sent] == sent
