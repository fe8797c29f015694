"""A small store with the ancestor's gate, on which its drain levels can be tried.

The gate of one need, in this order: ready, absent, failed, pending. Blocked beats failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.fixpoint.levels import BlockedOn, Level, LevelEngine, LevelReport


class Ancestor:
    """`needs`: of each node; `emits`: what it reports when it is ready. `optional`: ids that may be absent."""

    def __init__(
        self,
        needs: Mapping[str, Sequence[str]],
        *,
        emits: Mapping[str, Sequence[str]] | None = None,
        optional: Sequence[str] = (),
    ) -> None:
        self._needs = needs
        self._emits = emits or {}
        self._optional = set(optional)
        #: "" is ready, other texts say why a node has failed. Nodes without an entry are pending.
        self.status: dict[str, str] = {}
        self.known: set[str] = set()
        self.engine: LevelEngine[str] = LevelEngine(self.body)

    def run(self, seeds: Sequence[str] | None = None) -> LevelReport[str]:
        self.known.update(self._needs if seeds is None else seeds)
        self.engine.seed(self.known)
        return self.engine.run()

    def body(self, key: str, level: Level) -> BlockedOn[str] | None:
        blockers, failures = [], []
        for need in self._needs.get(key, ()):
            verdict = self._gate(need, level)
            if verdict is None:
                blockers.append(need)
            elif verdict:
                failures.append(verdict)
        if blockers:
            return BlockedOn(tuple(blockers))
        self.status[key] = "; ".join(sorted(failures))
        if not failures:
            for emitted in self._emits.get(key, ()):
                self.known.add(emitted)
                self.engine.on_arrival(emitted, schedulable=True)
        self.engine.on_status_wake(key, ready=not failures, failed=bool(failures))
        return None

    def _gate(self, need: str, level: Level) -> str | None:
        """None: blocked; "": ready or accepted; else why it has failed."""
        if need not in self.known:
            if level is Level.NONE:
                return None
            return "" if need in self._optional else f"{need} not found"
        if need in self.status:
            return f"{need}: {self.status[need]}" if self.status[need] else ""
        return None if level < Level.FORCE else f"{need} not ready"
