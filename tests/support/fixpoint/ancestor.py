"""A small store with the ancestor's gate, on which its drain levels can be tried.

The gate of one need, in this order: ready, absent, failed, pending. Blocked beats failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.fixpoint import Inline
from extender.fixpoint.levels import BlockedOn, Level, LevelEngine, LevelReport
from tests.support.fixpoint.shuffled import Shuffled


class Ancestor:
    """`needs`: of each node ("?x": x may be absent); `emits`: what it reports when it is ready.

    `executor`: bodies are interrupted after they have looked at their needs, and between what they report.
    """

    def __init__(
        self,
        needs: Mapping[str, Sequence[str]],
        *,
        emits: Mapping[str, Sequence[str]] | None = None,
        executor: Shuffled | None = None,
    ) -> None:
        self._needs = needs
        self._emits = emits or {}
        self._interrupt = executor.interrupt if executor else lambda: None
        #: "" is ready, other texts say why a node has failed. Nodes without an entry are pending.
        self.status: dict[str, str] = {}
        self.known: set[str] = set()
        self.engine: LevelEngine[str] = LevelEngine(self.body, executor=executor or Inline())

    def run(self, seeds: Sequence[str] | None = None) -> LevelReport[str]:
        self.known.update(self._needs if seeds is None else seeds)
        self.engine.seed(self.known)
        return self.engine.run()

    def body(self, key: str, level: Level) -> BlockedOn[str] | None:
        blockers, failures = [], []
        for need in self._needs.get(key, ()):
            verdict = self._gate(need, level)
            if verdict is None:
                blockers.append(need.removeprefix("?"))
            elif verdict:
                failures.append(verdict)
        self._interrupt()
        if blockers:
            return BlockedOn(tuple(blockers))
        self.status[key] = "; ".join(sorted(failures))
        if not failures:
            for emitted in self._emits.get(key, ()):
                if emitted not in self.known:  # only changed content is an arrival
                    self.known.add(emitted)
                    self.engine.on_arrival(emitted, schedulable=True)
                self._interrupt()
        self.engine.on_status_wake(key, ready=not failures, failed=bool(failures))
        return None

    def _gate(self, need: str, level: Level) -> str | None:
        """None: blocked; "": ready or accepted; else why it has failed."""
        need, is_optional = need.removeprefix("?"), need.startswith("?")
        if need not in self.known:
            if level is Level.NONE:
                return None
            return "" if is_optional else f"{need} not found"
        if need in self.status:
            return f"{need}: {self.status[need]}" if self.status[need] else ""
        return None if level < Level.FORCE else f"{need} not ready"
