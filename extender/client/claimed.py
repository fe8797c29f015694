"""The properties of a claim's pods that both clients share: in an event loop (`Claim`) and in threads (`SyncClaim`)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from extender.client.records import ClaimRecord, Pod


class ClaimedPods(ABC):
    """The pods of a claim, as its record has them."""

    @property
    @abstractmethod
    def record(self) -> ClaimRecord:
        """The server's last answer about the claim. Raises RuntimeError outside of the block."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def pods(self) -> tuple[Pod, ...]:
        return self.record.pods

    @property
    def pod(self) -> Pod:
        """The claim's one pod. Raises ValueError if it has several."""
        if len(self.pods) != 1:
            raise ValueError(f"the claim has {len(self.pods)} pods: use `pods`")
        return self.pods[0]

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def node(self) -> str:
        return self.pod.node

    @property
    def address(self) -> str:
        return self.pod.address
