"""Checks a policy for its author: asks it about many random sets, and checks each answer.

from algorithm.placements.conformance import check_policy

def test_it_keeps_the_promises_of_a_policy():
    check_policy(PLUGIN.create(Settings()))
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from algorithm.placements.model import Counts, SetState, VPodState
from algorithm.placements.policy import Place, reason_against


class PolicyBroken(AssertionError):  # noqa: N818 - a verdict about the policy
    """A policy broke a promise; the message says which one, and for what."""


class _Numbers:
    """Numbers that look random and are the same in every run: the generator of C's rand() in the standard's example."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, end: int) -> int:
        self._state = (1103515245 * self._state + 12345) % 2**31
        return (self._state >> 8) % end

    def counts(self, pods: int, most: int) -> dict[int, int]:
        found = {ordinal: self.below(most + 1) for ordinal in range(pods) if self.below(2)}
        return {ordinal: number for ordinal, number in found.items() if number}


def random_sets(number: int, seed: int = 1) -> Iterator[SetState]:
    """Sets of up to 6 pods and 5 vpods: with zones, pods that rest, are closed or hold too much, and open moves."""
    for each in range(number):
        numbers = _Numbers(seed + each)
        pods = numbers.below(7)
        state = SetState(capacity=1 + numbers.below(8), replicas=pods)
        for ordinal in range(pods):
            state.nodes[ordinal] = f"n{ordinal % 3}"
            state.set_zone(ordinal, f"z{ordinal % 2}" if each % 2 else "")
            state.set_usable(ordinal, numbers.below(5) > 0)
            if state.is_usable(ordinal) and numbers.below(6) == 0:
                state.resting.add(ordinal)
        for vpod in range(1 + numbers.below(5)):
            state.put(
                f"ns/v{vpod}",
                numbers.below(12),
                numbers.counts(pods + 1, 4),
                spread=numbers.below(3),
                max_per_pod=numbers.below(2) * numbers.below(4),
            )
            if numbers.below(4) == 0:
                state.reserve(f"ns/v{vpod}", numbers.counts(pods, 3))
        yield state


def check_policy(place: Place, *, number: int = 500) -> None:
    """Ask a policy about random sets. Raises PolicyBroken at the first promise that it breaks."""
    for state in random_sets(number):
        for vpod in list(state.vpods.values()):
            _check_answer(place, vpod, state)


def _check_answer(place: Place, vpod: VPodState, state: SetState) -> None:
    case = f"{vpod} on {state.usable} of capacity {state.capacity}, which hold {state.held}"
    before = deepcopy((vpod, state.__dict__))
    try:
        answer = place(vpod, state)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PolicyBroken(f"it raised {error!r}; {case}") from error
    if wrong := reason_against(answer, vpod, state):
        raise PolicyBroken(f"{wrong}; {case}")
    if (vpod, state.__dict__) != before:
        raise PolicyBroken(f"it changed what it was asked about; {case}")
    if (again := _non_zero(place(vpod, state))) != _non_zero(answer):
        raise PolicyBroken(f"it answered {answer}, and to the same question {again}; {case}")
    _check_rest(place, _non_zero(answer), vpod, state)


def _check_rest(place: Place, answer: dict[int, int], vpod: VPodState, state: SetState) -> None:
    """Where its own answer is committed, a policy leaves it: otherwise vreplicas move for ever."""
    there = deepcopy(state)
    there.reserve(vpod.key, None)
    there.put(
        vpod.key,
        vpod.wanted,
        answer,
        spread=vpod.spread,
        max_per_pod=vpod.max_per_pod,
        deleting=vpod.deleting,
    )
    if sum(answer.values()) < vpod.wanted or any(there.room(ordinal) < 0 for ordinal in there.held):
        return
    after = _non_zero(place(there.vpods[vpod.key], there))
    if after != answer:
        raise PolicyBroken(f"it answered {answer}, and once that was so {after}; {vpod} on {state.usable}")


def _non_zero(counts: Counts) -> dict[int, int]:
    return {ordinal: number for ordinal, number in counts.items() if number}
