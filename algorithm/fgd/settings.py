"""What an operator can choose about the algorithm `fgd`. The defaults need no configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

#: The most classes of pods that count as typical: the fragmentation of each node is computed for each of them.
MOST_TYPICAL = 10_000

Policy = Literal["fgd", "random", "dotprod", "clustering", "packing", "bestfit"]


class TypicalPod(BaseModel):
    """A class of pods that are expected to come: what one of them asks for, and how many of them there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpu_milli: int = Field(ge=0, le=10**9, description="Thousandths of a core.")
    gpu_milli: int = Field(default=0, ge=0, le=1000, description="Thousandths of each GPU; 0: it needs no GPU.")
    gpus: int = Field(default=0, ge=0, le=1000, description="How many GPUs; more than one only of whole GPUs.")
    models: str = Field(default="", max_length=4096, description="GPU models that it can use, as `A|B`; empty: any.")
    count: int = Field(default=1, ge=1, le=10**12, description="How many such pods there are, relative to the others.")


class FgdSettings(BaseModel):
    """Settings of the algorithm `fgd`; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    policy: Policy = Field(
        default="fgd",
        description=(
            "How a node is chosen: fgd (least growth of fragmentation), or what its paper compares it with: random, "
            "dotprod, clustering, packing, bestfit."
        ),
    )
    seed: int = Field(default=0, description="Policy random: another seed makes other choices.")
    resource: str = Field(
        default="nvidia.com/gpu", min_length=1, max_length=317, description="The resource that counts whole GPUs."
    )
    model_label: str = Field(
        default="nvidia.com/gpu.product",
        max_length=317,
        description="The label of a node that names the model of its GPUs.",
    )
    typical: Annotated[tuple[TypicalPod, ...], Field(max_length=MOST_TYPICAL)] = Field(
        default=(),
        description="The pods that are expected to come. Empty: such as there are now, waiting and running.",
    )
