"""What an operator configures: the original's file, and a few choices of our own beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, PrivateAttr, field_validator, model_validator

from algorithm.hived.cells.chains import Layout
from algorithm.hived.cells.config import HivedConfig, HivedConfigError, without_server_keys, without_unknown
from algorithm.hived.cells.layout import build
from algorithm.hived.state.devicehealth import BadDevicesSettings
from algorithm.hived.state.limits import OpportunisticLimits, known
from algorithm.hived.state.tenancy import OTHERS, Scope, unambiguous

_LIMITS = "opportunisticLimits."

_OWN = (
    "lax",
    "bindUnoffered",
    "keepHealthyCellsWhole",
    "obeyGangRelease",
    "groupNamesPer",
    "allowedNamespaces",
    "opportunisticLimits",
    "badDevices",
    "promoteLazilyPreempted",
    "combineCells",
)


class HivedSettings(HivedConfig):
    """Settings of the algorithm `hived`: `physicalCluster` and `virtualClusters` as the original has them."""

    lax: bool = Field(default=False, description="Ignore unknown keys, as the original does.")
    bind_unoffered: bool = Field(
        default=False,
        description=(
            "As the original: place pods that ignore suggestions on nodes that kube-scheduler did not offer. "
            "Needs force_bind.when_not_offered of the server."
        ),
    )
    keep_healthy_cells_whole: bool = Field(
        default=False,
        description=(
            "While machines are bad, take parts of partly bad cells before a healthy one is split. The original takes "
            "whichever comes first, and another tenant may find no healthy rack left."
        ),
    )
    bad_devices: BadDevicesSettings | None = Field(
        default=None, description="Read from nodes which of their devices are bad; the others are used."
    )
    promote_lazily_preempted: bool = Field(
        default=False,
        description="Give groups that were preempted lazily their quota back as soon as there is room.",
    )
    combine_cells: bool = Field(
        default=False,
        description="Let a pod have devices of several preassigned cells that are smaller than a machine, all on one.",
    )
    obey_gang_release: bool = Field(
        default=False,
        description=(
            "Obey gangReleaseEnable: a gang without it gives back each pod's devices as the pod ends. The original "
            "keeps them until the gang's last pod has ended, whatever the pods say."
        ),
    )
    group_names_per: tuple[Scope, ...] = Field(
        default=(),
        description=(
            "Of what a group's name is a name: virtualCluster, namespace, or both. If empty, of the cluster, as in the "
            "original."
        ),
    )
    allowed_namespaces: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description=(
            "By virtual cluster, the namespaces whose pods may use it; * and ? stand for any text and character. "
            "The virtual cluster * is all that are not named; what is not named at all is open to everybody."
        ),
    )
    opportunistic_limits: OpportunisticLimits = Field(
        default_factory=OpportunisticLimits, description="What opportunistic pods may have at most, at any time."
    )

    @model_validator(mode="before")
    @classmethod
    def _only_ours(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if str(value.get("lax")).lower() != "true":
            return without_server_keys(value)
        return without_unknown(value) | {key: value[key] for key in _OWN if key in value}

    @field_validator("virtual_clusters")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if "" in value:
            raise ValueError("a virtual cluster needs a name")
        return value

    @model_validator(mode="after")
    def _names_what_there_is(self) -> HivedSettings:
        tenants, types = self.virtual_clusters.keys(), {cell.cell_type for cell in self.physical_cluster.physical_cells}
        known(self.allowed_namespaces, {*tenants, OTHERS}, "allowedNamespaces", "virtual cluster")
        known(
            self.opportunistic_limits.virtual_clusters,
            {*tenants, OTHERS},
            _LIMITS + "virtualClusters",
            "virtual cluster",
        )
        known(self.opportunistic_limits.chains, types, _LIMITS + "chains", "chain")
        unambiguous(self.group_names_per, tenants)
        return self

    #: The cells that were made in order to check the configuration; the first algorithm takes them.
    _checked: Layout | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _fits(self) -> HivedSettings:
        try:
            self._checked = build(self)
        except HivedConfigError as error:
            raise ValueError(str(error)) from error
        return self

    def layout(self) -> Layout:
        """New cells, free and healthy all of them."""
        checked, self._checked = self._checked, None
        return checked or build(self)
