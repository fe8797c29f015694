"""The parts that the custom resources share. Field names are snake case here, and lower camel case in Kubernetes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

GROUP = "waggle.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

#: An RFC 3339 time in UTC.
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=64)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
Image = Annotated[str, StringConstraints(min_length=1, max_length=1024)]

_LABEL_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _have_label_names(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if not _LABEL_NAME.fullmatch(name):
            raise ValueError(f"{name!r}: expected the name of a label")
    return labels


Labels = Annotated[dict[str, LabelValue], AfterValidator(_have_label_names)]


class Part(BaseModel):
    """A part that users write: unknown fields are errors, and no value is converted."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, alias_generator=to_camel, populate_by_name=True
    )


class Seen(BaseModel):
    """A part that servers write, or that newer versions may extend: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


class Metadata(Seen):
    """The part of an object's metadata that the server reads."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] = Field(default_factory=list)
    annotations: dict[str, str] = Field(default_factory=dict)


class Condition(Seen):
    """One condition, as in every Kubernetes status."""

    type: str = Field(max_length=316)
    status: Literal["True", "False", "Unknown"]
    observed_generation: int = Field(0, ge=0, description="The generation of the spec to which this applies.")
    last_transition_time: Moment = Field("", description="When the condition's status changed last.")
    reason: str = Field("", max_length=1024, description="One word for programs.")
    message: str = Field("", max_length=32768, description="A sentence for people.")


#: Conditions are merged by their type.
Conditions = Annotated[
    list[Condition],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
