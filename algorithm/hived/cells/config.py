"""HiveD's configuration: the cell types, the hardware, and what each tenant is promised.

The fields are the original's, so its file works unchanged. Some errors that the original ignored are refused: an
unknown key (a wrongly indented pinned cell was silently ignored), a quota that names no cell type. `lax` restores the
old behaviour. Every error names the field and says what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from algorithm.hived.formats.plainyaml import load, whole_number

#: What the original's file holds beside the cluster; the server has its own settings for these.
SERVER_KEYS = frozenset(
    {
        "kubeApiServerAddress",
        "kubeConfigFilePath",
        "webServerAddress",
        "forcePodBindThreshold",
        "waitingPodSchedulingBlockMilliSec",
    }
)


class HivedConfigError(ValueError):
    """The configuration is wrong. `field` is the path of what is wrong, the text says what was expected there."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}" if field else text)
        self.field = field


def _unknown(key: str, near: list[str], known: set[str]) -> str:
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    return f"unknown key {key}; {hint}"


class Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, coerce_numbers_to_str=True
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                raise PydanticCustomError("unknown_key", "{text}", {"text": _unknown(str(key), near, known)})
        return {key: each for key, each in value.items() if each is not None}


def _as_go_reads(value: Any) -> Any:
    """A text that is a number in Go's YAML as that number; what is none is left to be refused."""
    if not isinstance(value, str):
        return value
    number = whole_number(value)
    return value if number is None else number


Number = Annotated[int, BeforeValidator(_as_go_reads)]


class CellType(Section):
    """One level of a tree: this many children of that type. A type that is only ever a child is a device."""

    child_cell_type: str = Field(min_length=1)
    child_cell_number: Number = Field(ge=1)
    is_node_level: bool = False


class PhysicalCellSpec(Section):
    """A piece of hardware. Only the top one needs its type; addresses and children that are left out are inferred."""

    cell_type: str = ""
    cell_address: str = ""
    pinned_cell_id: str = ""
    cell_children: tuple[PhysicalCellSpec, ...] = ()


class PhysicalCluster(Section):
    cell_types: dict[str, CellType] = Field(default_factory=dict)
    physical_cells: tuple[PhysicalCellSpec, ...] = ()


class VirtualCellSpec(Section):
    """`cell_number` cells of the last type of the path `cell_type`, which begins with a top type: rack.host.socket.

    Types in between may be left out: rack.socket.
    """

    cell_type: str = Field(min_length=1)
    cell_number: Number = Field(ge=0)


class PinnedCellSpec(Section):
    pinned_cell_id: str = Field(min_length=1)


class VirtualCluster(Section):
    virtual_cells: tuple[VirtualCellSpec, ...] = ()
    pinned_cells: tuple[PinnedCellSpec, ...] = ()


class HivedConfig(Section):
    """The physical cluster, and what each tenant is promised of it."""

    physical_cluster: PhysicalCluster = Field(default_factory=PhysicalCluster)
    virtual_clusters: dict[str, VirtualCluster] = Field(default_factory=dict)

    @field_validator("virtual_clusters", mode="before")
    @classmethod
    def _null_has_nothing(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: {} if quota is None else quota for name, quota in value.items()}


def parse_config(text: str, *, lax: bool = False) -> HivedConfig:
    """The configuration from YAML. With `lax`, unknown keys are ignored. Raises HivedConfigError."""
    try:
        loaded = load(text)
    except ValueError as error:
        raise HivedConfigError("", str(error)) from error
    return read_config({} if loaded is None else loaded, lax=lax)


def read_config(loaded: Any, *, lax: bool = False) -> HivedConfig:
    """The configuration from loaded YAML. Raises HivedConfigError."""
    if not isinstance(loaded, Mapping):
        raise HivedConfigError("", "expected a mapping with physicalCluster and virtualClusters")
    try:
        return HivedConfig.model_validate(without_unknown(loaded) if lax else without_server_keys(loaded))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
        raise HivedConfigError(path, first["msg"]) from error


def without_server_keys(loaded: Mapping[Any, Any]) -> dict[Any, Any]:
    """The original's file without what is a matter of the server here."""
    return {key: value for key, value in loaded.items() if key not in SERVER_KEYS}


def without_unknown(loaded: Mapping[Any, Any]) -> dict[Any, Any]:
    """The original's behaviour: unknown keys are ignored."""
    known: dict[Any, Any] = _known(loaded, {"physicalCluster": _CLUSTER, "virtualClusters": {"*": _TENANT}})
    return known


# What may stand where: the key "*" stands for every key, and a list's form is that of its elements.
_Form = dict[str, Any]
_CELL: _Form = {"cellType": {}, "cellAddress": {}, "pinnedCellId": {}}
_CELL["cellChildren"] = _CELL
_CLUSTER: _Form = {
    "cellTypes": {"*": {"childCellType": {}, "childCellNumber": {}, "isNodeLevel": {}}},
    "physicalCells": _CELL,
}
_TENANT: _Form = {"virtualCells": {"cellType": {}, "cellNumber": {}}, "pinnedCells": {"pinnedCellId": {}}}


def _known(value: Any, form: _Form) -> Any:
    if isinstance(value, Mapping):
        if "*" in form:
            return {key: _known(each, form["*"]) for key, each in value.items()}
        return {key: _known(each, form[key]) for key, each in value.items() if key in form}
    return [_known(each, form) for each in value] if isinstance(value, list) else value
