"""Notices for people, as Events and in the log: one for each change."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from extender.vpods.records import ObjectKey, VPodKey

#: Characters of a message that are kept.
MOST_MESSAGE = 1000


class NoticeReason(StrEnum):
    """The reasons of Events about sets. Those about vpods are `records.Reason`, BAD_PLACEMENTS and NOT_KEPT."""

    SCALED = "Scaled"
    SCALE_FAILED = "ScaleFailed"
    DRAINING = "Draining"
    DRAIN_STOPPED = "DrainStopped"
    FOREIGN_SCALE = "ForeignScale"
    TOO_MANY_REPLICAS = "TooManyReplicas"
    POLICY_FAILED = "PolicyFailed"
    BAD_PLACEMENTS = "BadPlacements"
    NOT_KEPT = "NotKept"


class Notice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something to tell. `about`: the VPodSet, by its key, or the vpod."""

    about: ObjectKey | VPodKey
    #: Of the vpod; "" for a set.
    uid: str = ""
    reason: str
    message: str
    is_warning: bool = False
