"""Use and waiting over the last hour: a bounded ring, sampled by time."""

from __future__ import annotations

import threading

from algorithm.model import Node, Pod
from extender.scheduling.state.cache import Cache
from extender.server.usage import EVERY, HOUR, KEPT, RESOURCES, Taken, UsageHistory, UsageSample, UsageSampler, amounts
from tests.support.apiserver.api import eventually


def sample(at: float) -> UsageSample:
    return UsageSample(at, 1, 2, 3, 4, (Taken("cpu", 1, 2),))


def test_it_keeps_an_hour_however_long_the_process_runs() -> None:
    history = UsageHistory()
    for number in range(20 * KEPT):
        history.add(sample(number * EVERY))

    samples = history.samples()
    assert len(samples) == KEPT
    assert samples[-1].at - samples[0].at == HOUR


def test_samples_that_come_too_fast_are_bounded_too() -> None:
    history = UsageHistory()
    for number in range(20 * KEPT):
        history.add(sample(number * 0.001))
    assert len(history.samples()) == KEPT


def test_after_a_pause_what_is_older_than_an_hour_is_gone() -> None:
    history = UsageHistory()
    for at in (0.0, EVERY, HOUR + 2 * EVERY):
        history.add(sample(at))
    assert [each.at for each in history.samples()] == [HOUR + 2 * EVERY]


def test_amounts_are_devices_first_and_few() -> None:
    cache = Cache()
    many = tuple((f"example.com/r{number:02}", 2) for number in range(40))
    allocatable = (("cpu", 4000), ("pods", 110), ("memory", 1 << 30), ("example.com/none", 0), *many)
    cache.set_node(Node(name="a", uid="1", allocatable=tuple(sorted(allocatable))))
    cache.set_node(Node(name="b", uid="2", allocatable=(("cpu", 4000), ("example.com/r00", 8))))
    cache.assume(Pod(namespace="ns", name="p", uid="u", node_name="a", requests=(("example.com/r00", 1),)))
    cache.add_pod(Pod(namespace="ns", name="q", uid="v", node_name="gone", requests=(("example.com/r00", 5),)))

    found = amounts(cache.snapshot())

    assert len(found) == RESOURCES
    assert found[0] == Taken("example.com/r00", 1, 10)  # a node that does not exist has no room


def test_cpu_and_memory_are_shown_where_there_are_no_devices() -> None:
    cache = Cache()
    cache.set_node(Node(name="a", uid="1", allocatable=(("cpu", 4000), ("memory", 64), ("pods", 110))))
    assert amounts(cache.snapshot()) == (Taken("cpu", 0, 4000), Taken("memory", 0, 64))


def test_the_sampler_goes_on_after_a_fault_and_ends() -> None:
    history, calls = UsageHistory(), threading.Semaphore(0)
    faults = iter([ValueError("first"), None, ValueError("again")])

    def take() -> UsageSample:
        calls.release()
        if (fault := next(faults, None)) is not None:
            raise fault
        return sample(1.0)

    sampler = UsageSampler(take, history, every=0.001)
    sampler.start()
    for _ in range(4):
        assert calls.acquire(timeout=30)
    eventually(lambda: len(history.samples()) >= 1)
    sampler.stop()
    sampler.stop()
    assert not any(each.name == "waggle-usage" for each in threading.enumerate())
