"""An executor without threads that takes turns as a pool might: in an order drawn from a seed.

A body that calls `interrupt` may be overtaken there by whole bodies of others. So each gap between looking, reporting
and ending can be hit, and each run can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import TracebackType

#: How deep bodies may interrupt each other, so that wide pools do not exhaust the stack.
_DEEPEST = 8


class Shuffled:
    """An `Executor`. `eagerness`: how likely a gap is hit."""

    def __init__(self, workers: int, seed: int, eagerness: float = 0.3) -> None:
        self.workers = workers
        self.grace = 0.0
        self._random = random.Random(seed)
        self._eagerness = eagerness
        self._tasks: list[Callable[[], None]] = []
        self._depth = 0
        #: How many bodies ran at once, at most.
        self.widest = 0

    def submit(self, task: Callable[[], None], lost: Callable[[], None]) -> None:
        self._tasks.append(task)
        self.widest = max(self.widest, len(self._tasks) + self._depth)

    def wait(self, timeout: float | None = None) -> bool:
        self._one()
        return True

    def after_grace(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def interrupt(self) -> None:
        """Let others run, perhaps."""
        while self._tasks and self._depth < _DEEPEST and self._random.random() < self._eagerness:
            self._one()

    def _one(self) -> None:
        task = self._tasks.pop(self._random.randrange(len(self._tasks)))
        self._depth += 1
        try:
            task()
        finally:
            self._depth -= 1

    def notify(self) -> None:
        return None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        return None
