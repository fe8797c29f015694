"""`waggle replay LOG --step`: goes through a recording event by event, by commands that are typed or piped.

    Enter             the next decision               /NAME, /NS/NAME   the next event of that pod
    n                 the next event                  p NS/NAME         explain a pod as it is here
    a number          that many events                b                 back to the decision before
    h, ?              these commands                  q, end of input   the end

What one command prints has a bound, however long the log is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from algorithm.model import PodKey
from extender.operate.look_text import explanation
from extender.operate.replay_look import UnknownPodError, explained_by
from extender.replay.stepping import Seen, Stepper

HELP: Final = (
    "Enter: next decision   n: next event   NUMBER: that many events   /NAME or /NS/NAME: next event of that pod\n"
    "p NS/NAME: explain a pod   b: back to the decision before   h: this help   q: quit"
)
_END: Final = "The log ends here."
#: Events that one command shows: the last ones.
SHOWN: Final = 50
_LONGEST_NUMBER: Final = 9


class Session:
    """One walk through a log. `say` prints a text."""

    def __init__(self, stepper: Stepper, say: Callable[[str], None]) -> None:
        self._stepper, self._say = stepper, say

    def run(self, lines: Iterable[str]) -> None:
        """Obey the commands, one a line, until one is q."""
        for line in lines:
            if not self.obey(line.strip()):
                return

    def obey(self, command: str) -> bool:
        """Obey one command; False if it was the last one. Raises RecordingError if the log cannot be read further."""
        if command in ("q", "quit", "exit"):
            return False
        if command == "":
            self._jump(self._stepper.next_decision)
        elif command == "n":
            self._show(self._stepper.next())
        elif command == "b":
            self._back()
        elif command.isascii() and command.isdigit():
            self._numbered(command)
        elif command.startswith("/") and len(command) > 1:
            self._jump_to(_key(command[1:]))
        elif command.startswith("p ") and command[2:].strip():
            self._explain(_key(command[2:].strip()))
        else:
            self._say(HELP if command in ("h", "?", "help") else f"{command[:60]!r} is not a command.\n{HELP}")
        return True

    def _numbered(self, digits: str) -> None:
        if len(digits) > _LONGEST_NUMBER or not int(digits):
            most = "9" * _LONGEST_NUMBER
            self._say(f"There is no such event: expected a number of events from 1 to {most}, got {digits[:60]}.")
        else:
            self._many(int(digits))

    def _jump_to(self, pod: PodKey) -> None:
        self._jump(lambda: self._stepper.next_of(pod), f"No event after this one concerns {pod.namespace}/{pod.name}.")

    def _jump(self, go: Callable[[], Seen | None], without: str = _END) -> None:
        before = self._stepper.number
        seen = go()
        between = self._stepper.number - before - (seen is not None)
        if between:
            self._say(f"    ... {between} event{'' if between == 1 else 's'} in between")
        self._say(without if seen is None else seen.text)

    def _show(self, seen: Seen | None) -> None:
        self._say(_END if seen is None else seen.text)

    def _many(self, number: int) -> None:
        kept: deque[Seen] = deque(maxlen=SHOWN)
        gone = 0
        while gone < number and (seen := self._stepper.next()) is not None:
            kept.append(seen)
            gone += 1
        if gone > len(kept):
            self._say(f"    ... {gone - len(kept)} events not shown")
        for each in kept:
            self._say(each.text)
        if gone < number:
            self._say(_END)

    def _back(self) -> None:
        seen = self._stepper.back()
        self._say("At the beginning of the log." if seen is None else seen.text)

    def _explain(self, pod: PodKey) -> None:
        try:
            stage, where = self._stepper.stage, f"after event {self._stepper.number}"
            found = explained_by(stage.runtime, *pod, held=lambda: stage.gated.all(stage.now), where=where)
        except UnknownPodError as error:
            self._say(str(error))
        else:
            self._say(explanation(found))


def _key(text: str) -> PodKey:
    namespace, _, name = text.rpartition("/")
    return PodKey(namespace or "default", name)
