"""An executor with daemon threads of its own: a body that never ends keeps neither the run nor the process.

engine = Engine(body, executor=Threads(8))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

from extender.fixpoint.executor import GRACE, Pool

#: For how many seconds a thread waits for another task before it ends.
_IDLE = 1.0


class Threads(Pool):
    """Threads are started when they are needed, and end by themselves: there is nothing to close."""

    def __init__(self, workers: int, *, grace: float = GRACE) -> None:
        super().__init__(self._enqueue, Condition(), workers=workers, grace=grace)
        self._tasks: deque[Callable[[], None]] = deque()
        self._idle = 0
        self._changed = Condition()

    def _enqueue(self, task: Callable[[], None]) -> None:
        """Raises RuntimeError if the process cannot have another thread; then the task never runs."""
        with self._changed:
            if self._idle <= len(self._tasks):
                Thread(target=self._work, name="fixpoint", daemon=True).start()
            self._tasks.append(task)
            self._changed.notify()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            found = self._changed.wait_for(lambda: self._tasks, timeout=_IDLE)
            self._idle -= 1
            return self._tasks.popleft() if found else None
