"""The random runs can fail: HiveD is broken by hand in several ways, and a slice of them notices each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from algorithm.hived import algorithm
from algorithm.hived.accounts import Accounts
from algorithm.hived.bootstrap import Bootstrap
from algorithm.hived.cells.chain_allocator import ChainAllocator
from algorithm.hived.planning import planner
from algorithm.hived.state import gangs, lazy_preemption, pods
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group
from tests.conformance.hived_machine import HivedMachine
from tests.conformance.hived_recovery_machine import RecoveryMachine

Patch = Callable[[pytest.MonkeyPatch], None]

#: It ends with the first run that notices. Hypothesis draws from constants of the modules that are imported, so the
#: number of runs depends on the tests before: 70 on average, 200 now and then, and 150 were too few once.
SLICE = settings(
    max_examples=1500,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def a_cell_that_is_given_back_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    release = ChainAllocator.release

    def forgetful(self, cell, tenant, *, doomed=False):
        release(self, cell, tenant, doomed=doomed)
        self.total_left[cell.level] -= 1

    patch.setattr(ChainAllocator, "release", forgetful)


def buddies_are_not_merged(patch: pytest.MonkeyPatch) -> None:
    def lazy(self, cell):
        self.free[cell.level].append(cell)
        return cell.level

    patch.setattr(ChainAllocator, "_put_back", lazy)


def nobody_is_ever_undoomed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChainAllocator, "_undoom", lambda self, level: None)


def nobody_is_ever_doomed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChainAllocator, "_doom", lambda self, level: None)


def reserved_devices_count_as_free(patch: pytest.MonkeyPatch) -> None:
    """BUG-9."""
    real = planner._in_the_way
    patch.setattr(planner, "_in_the_way", lambda group: (real(group)[0], []))


def victims_are_overlooked(patch: pytest.MonkeyPatch) -> None:
    real = planner._in_the_way
    patch.setattr(planner, "_in_the_way", lambda group: ({}, real(group)[1]))


def a_recovered_pod_is_filed_in_the_first_place(patch: pytest.MonkeyPatch) -> None:
    """BUG-10."""
    patch.setattr(pods, "_slot_of", lambda group, allocation: group.free_slot(len(allocation.indices)))


def a_trial_is_not_taken_back(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def for_good(hive: HivedCluster, groups: list[Group], preemptor: str) -> Iterator[None]:
        for group in groups:
            hive.make_opportunistic(group, preemptor)
        yield

    patch.setattr(planner, "_without_quota", for_good)


def a_copy_shares_the_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(algorithm, "_UNCHANGING", (*algorithm._UNCHANGING, Group))


def pods_are_recovered_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """As they are told; and a group without virtual placement is not known to have lost its quota."""

    def at_once(self, pod):
        self._accounts.add(pod, found=True)

    take = Accounts._take_quota

    def only_from_promised(self, group, taker):
        if group.virtual is not None:
            take(self, group, taker)

    patch.setattr(Bootstrap, "collect", at_once)
    patch.setattr(Accounts, "_take_quota", only_from_promised)


def nobody_is_believed_who_names_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lazy_preemption.LazyPreemptionLog, "takers", lambda self, group, pod: {})


def the_first_pod_that_is_told_counts_as_the_oldest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gangs, "by_age", lambda pod: ())


#: Noticed by the runs in which quota is lost.
AT_RESTARTS = (
    pods_are_recovered_one_by_one,
    nobody_is_believed_who_names_others,
    the_first_pod_that_is_told_counts_as_the_oldest,
)


@pytest.mark.slow
@pytest.mark.parametrize("mutate", AT_RESTARTS)
def test_random_restarts_notice(monkeypatch: pytest.MonkeyPatch, mutate: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(RecoveryMachine, settings=SLICE)


#: Noticed within seconds on an idle machine.
SOON = (
    a_cell_that_is_given_back_is_not_counted,
    buddies_are_not_merged,
    reserved_devices_count_as_free,
    victims_are_overlooked,
    a_recovered_pod_is_filed_in_the_first_place,
    a_trial_is_not_taken_back,
    a_copy_shares_the_groups,
)
LATER = (nobody_is_ever_undoomed, nobody_is_ever_doomed)


def cases() -> Iterator[object]:
    for mutate in SOON + LATER:
        yield pytest.param(mutate, id=mutate.__name__, marks=[pytest.mark.slow])


@pytest.mark.parametrize("mutate", list(cases()))
def test_random_runs_notice(monkeypatch: pytest.MonkeyPatch, mutate: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(HivedMachine, settings=SLICE)
