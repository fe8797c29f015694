"""Writes Kubernetes Events on pods, which show people what happened: `core/kube_events.py` says how."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from algorithm.reasons import Reason


class RecordEvent(msgspec.Struct, frozen=True):
    """Create a Kubernetes Event on the pod, to show what happened. Not reported."""

    namespace: str
    name: str
    uid: str
    reason: Reason
    warning: bool = True
    term: int = 0

    @property
    def code(self) -> str:
        return str(self.reason.code)

    @property
    def text(self) -> str:
        return self.reason.text

    @property
    def about(self) -> Mapping[str, str]:
        return {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace, "name": self.name, "uid": self.uid}
