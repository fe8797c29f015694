"""A thread that does the same again and again, until it is stopped: at its time, or at once when it is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

#: Seconds that `stop` waits for the turn that is under way.
_LAST_TURN = 5.0


class RepeatingThread:
    """Calls `turn` at once, and again after as many seconds as it returned; None: not before `wake`.

    A turn that raises is a bug, or calls a plug-in that raises, be it SystemExit: it is logged, once for each kind of
    exception, and the next one comes after `pause` seconds. `at_end` is called by the thread after the last turn.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float | None],
        *,
        pause: float,
        last_turn: float = _LAST_TURN,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._name, self._turn, self._pause = name, turn, pause
        self._last_turn, self._at_end = last_turn, at_end
        #: Whether no further turn begins. A turn that takes long looks at it.
        self.stopped = False
        self._logged: set[type[BaseException]] = set()
        self._wake = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. Idempotent; does nothing after `stop`."""
        with self._starting:
            if self._thread is None and not self.stopped:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Begin the next turn now, or as soon as the present one ends."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the present turn. Idempotent; works also without a start."""
        with self._starting:
            self.stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self._last_turn)

    def _run(self) -> None:
        while not self.stopped:
            self._wake.clear()
            pause = self._next()
            if not self.stopped:  # a wake that came during the turn counts
                self._wake.wait(pause)
        if self._at_end is not None:
            self._at_end()

    def _next(self) -> float | None:
        """Take a turn. Returns the seconds until the next one."""
        try:
            return self._turn()
        except BaseException as error:  # Python ends a thread silently at SystemExit
            if type(error) not in self._logged:
                self._logged.add(type(error))
                log.exception("a thread's turn failed; it goes on", thread=self._name)
            return self._pause
