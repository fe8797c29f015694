"""What differs from run to run, replaced by what does not: uids, times, versions, ports."""

from __future__ import annotations

import re
import threading
from typing import Any

_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_EXTENDER = re.compile(r"(http://)?127\.0\.0\.1:\d+(/\d)?")


class Names:
    """The pods of one run by their uids. A second pod of the same name is called `name#2`."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._lock = threading.Lock()

    def learn(self, name: str, uid: str) -> None:
        """From whoever names the pod first: the API server's answer or a scheduler's call."""
        with self._lock:
            if uid not in self._uids:
                known = sum(each.partition("#")[0] == name for each in self._uids.values())
                self._uids[uid] = f"{name}#{known + 1}" if known else name

    def pod(self, uid: str) -> str:
        return self._uids.get(uid, f"<uid {uid}>")

    def uid(self, name: str) -> str:
        """Of the pod with this name; a name that nobody has stands for itself."""
        return next((uid for uid, known in reversed(list(self._uids.items())) if known == name), name)

    def text(self, text: str) -> str:
        for uid, name in list(self._uids.items()):
            text = text.replace(uid, f"<uid of {name}>")
        return _EXTENDER.sub("<extender>", _TIME.sub("<time>", text))

    def body(self, value: Any, key: str = "") -> Any:
        """A request's body; nodes in the order of their names. managedFields and nulls are dropped."""
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if v is not None and k != "managedFields"}
            return {k: self.body(v, k) for k, v in sorted(kept.items())}
        if isinstance(value, list):
            items = [self.body(item) for item in value]
            return sorted(items, key=_name_of) if key in ("items", "NodeNames") else items
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" or (key == "uid" and value not in self._uids):
            return f"<{key}>"
        return self.text(value)


def _name_of(item: Any) -> str:
    return item["metadata"]["name"] if isinstance(item, dict) else item
