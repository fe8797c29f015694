"""Faults that note what Waggle requests, and the rule that a pair of operation and fault is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from extender.embedded.apiserver.faults import Fault as Rule
from extender.embedded.apiserver.faults import Faults, Plan
from tests.faults.table import Pair, operation_of

WAGGLE = "^waggle$"


class Noting(Faults):
    """Faults that look at every request of Waggle's, and note what the table does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.unknown: list[str] = []

    def plan(self, methods: Sequence[str], path: str, agent: str = "") -> Plan:
        if agent == "waggle":
            try:
                self.seen[operation_of(methods, path).name] += 1
            except AssertionError as error:
                self.unknown.append(str(error))
        return super().plan(methods, path, agent)


def armed(faults: Faults, pair: Pair, chance: random.Random) -> Rule:
    """Put the rule of a pair in force. `chance` decides how often it strikes, and in which event of a watch."""
    operation, given = pair.operation, dict(pair.fault.rule)
    path = f"^{operation.path}$"
    if "path" in given:
        path = f"^(?=.*{given.pop('path')}){operation.path}$"
        faults.inject("page", method="LIST", path=f"^{operation.path}$", agent=WAGGLE, after=1, times=None)
    if "after" in given:
        given["after"] = chance.randint(1, 3)
    times = 1 if operation.kind == "watch" else chance.randint(1, 2)
    return faults.inject(**given, method=operation.method, path=path, agent=WAGGLE, times=times)
