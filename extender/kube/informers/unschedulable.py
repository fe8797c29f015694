"""kube-scheduler's text on pods for which it found no node: the message of their `PodScheduled` condition.

It is for people. No decision depends on it, so no pod record has it, and a change of conditions alone is no event for
the engine. Messages have bounds, because anybody who may write a pod's status may write anything:

* a message is cut after LONGEST characters; conditions with more than MOST_BYTES of JSON are not read;
* equal messages, which the pods of a gang have, are kept once, and all of them together have at most TOGETHER
  characters. Beyond that, a message is left out: the pod counts as one that kube-scheduler has said nothing about.

Only the informer of pods writes. Any thread may read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import msgspec

from algorithm.kubernetes_types import PodWire

#: Characters of a message: kube-scheduler's has a few hundred, each plug-in's verdict with a number of nodes.
LONGEST = 1024
#: Bytes of the conditions of one pod. Real ones have about a thousand.
MOST_BYTES = 32 * 1024
#: Characters of all different messages: 4 MiB, four times that at worst.
TOGETHER = 4 * 1024 * 1024


class _Condition(msgspec.Struct, gc=False):
    type: str | None = None
    status: str | None = None
    message: str | None = None


_conditions = msgspec.json.Decoder(list[_Condition | None] | None)


class UnschedulableMessages:
    """The messages by the pod's UID."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        #: Each message once, and how many pods have it.
        self._texts: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        #: Characters of all different messages.
        self.weight = 0

    def __len__(self) -> int:
        return len(self._of)

    def of(self, uid: str) -> str:
        """The message about this pod; "" if there is none."""
        return self._of.get(uid, "")

    def note(self, uid: str, pod: PodWire) -> None:
        """Take the message from a pod of the informer, as it came over the wire."""
        conditions = pod.conditions
        message = "" if conditions is None else _message(conditions)
        if message == self._of.get(uid, ""):
            return
        self.forget(uid)
        if message and uid:
            self._keep(uid, message)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        message = self._of.pop(uid, None)
        if message is None:
            return
        self._times[message] -= 1
        if not self._times[message]:
            del self._times[message], self._texts[message]
            self.weight -= len(message)

    def forget_others(self, uids: Collection[str]) -> None:
        """All pods but these are gone."""
        for uid in [uid for uid in self._of if uid not in uids]:
            self.forget(uid)

    def _keep(self, uid: str, message: str) -> None:
        if message not in self._texts:
            if self.weight + len(message) > TOGETHER:
                return
            self._texts[message] = message
            self.weight += len(message)
        self._times[message] += 1
        self._of[uid] = self._texts[message]


def _message(conditions: msgspec.Raw) -> str:
    """The message of the condition that says that the pod has no node; "" if there is none."""
    if memoryview(conditions).nbytes > MOST_BYTES:
        return ""
    try:
        found = _conditions.decode(conditions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    for each in found or ():
        if each is not None and each.type == "PodScheduled" and each.status == "False":
            text = " ".join((each.message or "").split())
            return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return ""
