"""What an operator can choose about the packing algorithm. The defaults need no configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class PackingSettings(BaseModel):
    """Settings of the algorithm `packing`; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: Literal["pack", "spread"] = Field(
        default="pack",
        description="pack: the fullest node that fits, so that whole nodes stay free; spread: the emptiest.",
    )
    preemption_candidates: int = Field(
        default=100,
        ge=1,
        description=(
            "Nodes on which a preemption is worked out before the best one is taken. More finds cheaper victims, fewer "
            "answers faster. A node on which eviction cannot help does not count, so a way that exists is found."
        ),
    )
