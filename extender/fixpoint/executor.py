"""Where bodies run: inline in the caller's thread, or on a pool that the caller brings.

The engine itself has no thread and no lock. An executor gives it both: `submit` runs a task, and the executor is the
lock that guards the engine's state, with `wait` and `notify` of a condition.

    with ThreadPoolExecutor(8) as threads:
        engine = Engine(body, executor=Pool(threads.submit, Condition(), workers=8))

`threads.Threads` is a pool of its own. An executor has a grace: the seconds for which a run that ends early waits for
bodies, before it interrupts them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from extender.fixpoint.interrupts import later

#: Seconds.
GRACE = 5.0


class Condition(Protocol):
    """What `threading.Condition` offers."""

    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def notify_all(self) -> None: ...


class Executor(Protocol):
    """`workers`: how many bodies may run at once. `grace`: see the module docstring."""

    @property
    def workers(self) -> int: ...
    @property
    def grace(self) -> float: ...

    def submit(self, task: Callable[[], None], lost: Callable[[], None]) -> None:
        """Run the task, now or later, once; it never raises. Call `lost` if it will never run."""
        ...

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, with the lock held, until `notify`; let the lock go meanwhile. May return early.

        False if that took longer than `timeout` seconds.
        """
        ...

    def after_grace(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        """See to it that `interrupt` is called when the grace is over, if `wait` is not; return what undoes that."""
        ...

    def notify(self) -> None:
        """Wake whatever waits. The lock is held."""
        ...


class Inline:
    """One worker: the thread that runs the engine. Each task has ended when `submit` returns."""

    workers = 1

    def __init__(self, *, grace: float = GRACE) -> None:
        self.grace = grace

    def submit(self, task: Callable[[], None], lost: Callable[[], None]) -> None:  # noqa: ARG002
        task()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        return None

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return False
        raise RuntimeError("an engine without threads waits for a body; did the body run the engine?")

    def after_grace(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        return later(self.grace, interrupt)

    def notify(self) -> None:
        return None


class Pool:
    """A pool of threads, as `concurrent.futures.ThreadPoolExecutor.submit`, with a `threading.Condition`."""

    def __init__(
        self, submit: Callable[[Callable[[], None]], Any], condition: Condition, *, workers: int, grace: float = GRACE
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers: expected at least 1, got {workers}")
        self.workers = workers
        self.grace = grace
        self._submit = submit
        self._condition = condition

    def submit(self, task: Callable[[], None], lost: Callable[[], None]) -> None:
        future = self._submit(task)
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda ended: lost() if ended.cancelled() else None)

    def __enter__(self) -> bool:
        return self._condition.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._condition.__exit__(kind, value, trace)

    def wait(self, timeout: float | None = None) -> bool:
        return self._condition.wait(timeout)

    def after_grace(self, interrupt: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        return lambda: None  # the thread that runs the engine waits no longer than the grace

    def notify(self) -> None:
        self._condition.notify_all()
