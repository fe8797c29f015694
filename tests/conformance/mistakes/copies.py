"""Mistakes in the copies for "what if"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from algorithm.model import Pod
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import TIGHT, of_everything


@of_everything("fork-independent", "the fork has the same dict of pods")
class ForkSharesADict(Everything):
    def fork(self) -> Self:
        twin = super().fork()
        twin.pods = self.pods
        return twin


@of_everything("fork-independent", "the original goes on with the dict of the fork")
class OriginalTakesTheForks(Everything):
    def fork(self) -> Self:
        twin = super().fork()
        self.waiting = twin.waiting
        return twin


@of_everything("fork-equal", "the fork does not know the preemptions that go on", world=TIGHT)
class ForkForgetsClaims(Everything):
    def fork(self) -> Self:
        twin = super().fork()
        twin.claims = {}
        return twin


@of_everything("fork-equal", "the fork has default settings")
class ForkHasDefaults(Everything):
    def fork(self) -> Self:
        twin = super().fork()
        twin.slots = 4
        return twin


@of_everything("forks-copy-a-moment", "the copy is made when the function is called, after further events")
class CopiesTooLate(Everything):
    def forks(self) -> Iterator[Callable[[], Self] | None]:
        yield None
        yield self.fork
        yield None


@of_everything("forks-copy-a-moment", "yields no function at all")
class YieldsNoCopy(Everything):
    def forks(self) -> Iterator[Callable[[], Self] | None]:
        yield None


@of_everything("fork-equal", "the fork takes the pods that wait for those that run")
class ForkMixesUpItsDicts(Everything):
    def fork(self) -> Self:
        twin = super().fork()
        twin.pods = {**twin.pods, **{uid: self.seated(pod) for uid, pod in self.waiting.items() if pod.priority}}
        return twin

    def seated(self, pod: Pod) -> Pod:
        return pod.placed(next(iter(self.nodes), "nowhere"))
