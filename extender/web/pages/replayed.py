"""What probes say of a server that shows one moment of a recording: it lives, and is never ready.

Every server imports this before it is ready, so nothing here needs FastAPI. `http/read_only.py` refuses the calls.
"""

from __future__ import annotations

from extender.server.views import Readiness


class ReadOnlyReplay:
    """What probes are told. `replay` says which moment of which recording it is."""

    def __init__(self, replay: str) -> None:
        self._state = Readiness(False, f"this is a replay of {replay}, read-only: it serves no calls")

    def liveness(self) -> Readiness:
        return Readiness(True)

    def readiness(self) -> Readiness:
        return self._state

    def informed(self) -> Readiness:
        return self._state
