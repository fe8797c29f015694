"""The section `ordering` of the configuration file: start-up ordering of pods, across kinds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Kind = Literal["Job", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "VolcanoJob", "PodGroup"]
#: The kinds that are watched by default. Those that the API server does not serve cost nothing.
ALL_KINDS: tuple[Kind, ...] = ("Job", "Deployment", "ReplicaSet", "StatefulSet", "JobSet", "VolcanoJob", "PodGroup")


class OrderingSettings(BaseModel):
    """Pods that start only when others are scheduled, ready or complete. See docs/ordering.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    enabled: bool = False
    #: Seconds for which a target may be missing before its dependants are told, unless they say otherwise.
    grace_seconds: float = Field(60, ge=0, le=604_800)
    #: The kinds of objects that pods may wait for, besides pods and gangs. PodGroup: those of every API that is served.
    kinds: tuple[Kind, ...] = Field(ALL_KINDS, max_length=len(ALL_KINDS))
    #: How many gates may be removed at the same time at most. The actual number adapts to the API server.
    concurrent_writes: int = Field(32, ge=1, le=128)
    #: Memory for the records of pods and of objects that make pods, in MiB, estimated. A list that needs more fails.
    cache_mib: int = Field(512, ge=16, le=65_536)

    @field_validator("kinds")
    @classmethod
    def _differ(cls, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
        twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: appears twice")
        return kinds
