"""Makes cells from the configuration: the hardware's forest, each tenant's forest, and the numbers of each chain.

Addresses that the configuration leaves out are inferred as the original infers them.
"""

from __future__ import annotations

from collections import defaultdict

from algorithm.hived.cells import fit
from algorithm.hived.cells.cells import PhysicalCell, VirtualCell
from algorithm.hived.cells.chains import Chain, Layout, Level, Levels, Tenant, VirtualLevels
from algorithm.hived.cells.config import CellType, HivedConfig, HivedConfigError, PhysicalCellSpec, VirtualCellSpec
from algorithm.hived.cells.journal import Journal

_MAX_INT32 = 2**31 - 1


def build(config: HivedConfig) -> Layout:
    """Raises HivedConfigError for a configuration that no cluster can have."""
    journal = Journal()
    chains, pinned = _Hardware(config, journal).build()
    tenants = {name: _Quota(config, name, chains, pinned).build() for name in config.virtual_clusters}
    fit.check(chains.values(), tenants, pinned)
    promised = {pinned_id for tenant in tenants.values() for pinned_id in tenant.pinned}
    for pinned_id in pinned.keys() - promised:
        # An id that no virtual cluster names reserves nothing.
        pinned.pop(pinned_id).pinned = False
    chains_of: dict[str, list[str]] = defaultdict(list)
    machines: dict[str, list[PhysicalCell]] = defaultdict(list)
    devices: dict[tuple[str, str, int], PhysicalCell] = {}
    for chain in chains.values():
        chains_of[chain.leaf_type].append(chain.name)
        for leaf in chain.full[1]:
            machines[leaf.nodes[0]].append(leaf)
            devices.setdefault((chain.name, leaf.nodes[0], leaf.indices[0]), leaf)
    return Layout(chains, tenants, pinned, dict(chains_of), dict(machines), devices, journal)


def hardware(config: HivedConfig) -> tuple[dict[str, Chain], dict[str, PhysicalCell]]:
    """The chains, and the cells that have a pinned id; promises are not read. Raises HivedConfigError."""
    return _Hardware(config, Journal()).build()


# -- types ------------------------------------------------------------------------------------------------------------


def _levels(types: dict[str, CellType], top: str, where: str) -> dict[int, Level]:
    """The levels below a top type, devices first. Raises HivedConfigError."""
    names = [top]
    while names[-1] in types:
        child = types[names[-1]].child_cell_type
        if child in names:
            raise HivedConfigError(f"physicalCluster.cellTypes.{names[-1]}.childCellType", f"{child} contains itself")
        names.append(child)
    names.reverse()
    levels: dict[int, Level] = {}
    leafs, has_node = 1, False
    for number, name in enumerate(names, start=1):
        kind = types.get(name)
        fanout = 0 if kind is None else kind.child_cell_number
        leafs *= fanout or 1
        is_machine = not has_node and kind is not None and kind.is_node_level
        has_node = has_node or is_machine
        levels[number] = Level(name, leafs, fanout, has_node, is_machine)
    if not has_node:
        text = f"{top} is below machine level; a top cell is a machine (isNodeLevel: true) or consists of machines"
        raise HivedConfigError(where, text)
    return levels


# -- hardware ---------------------------------------------------------------------------------------------------------


class _Hardware:
    def __init__(self, config: HivedConfig, journal: Journal) -> None:
        self.journal = journal
        self.types = config.physical_cluster.cell_types
        self.tops = config.physical_cluster.physical_cells
        self.chains: dict[str, Chain] = {}
        self.pinned: dict[str, PhysicalCell] = {}
        self.seen: dict[tuple[str, str, int], str] = {}

    def build(self) -> tuple[dict[str, Chain], dict[str, PhysicalCell]]:
        for number, spec in enumerate(self.tops):
            where = f"physicalCluster.physicalCells[{number}]"
            if spec.cell_type not in self.types:
                known = ", ".join(sorted(self.types)) or "none"
                raise HivedConfigError(
                    f"{where}.cellType", f"unknown cell type {spec.cell_type!r}; cellTypes has {known}"
                )
            chain = self._chain(spec.cell_type, f"{where}.cellType")
            top = self._cell(chain, chain.top, spec, str(number), number, where)
            for cell in top.walk():
                cell.top = top
            self._number_machines(top, where)
        return self.chains, self.pinned

    def _chain(self, name: str, where: str) -> Chain:
        if name not in self.chains:
            levels = _levels(self.types, name, where)
            machine = next(number for number, level in levels.items() if level.is_machine)
            full: Levels = {number: [] for number in levels}
            self.chains[name] = Chain(name, levels[1].type, levels, max(levels), machine, full, self.journal)
        return self.chains[name]

    def _cell(
        self, chain: Chain, level: int, spec: PhysicalCellSpec, default: str, number: int, where: str, prefix: str = ""
    ) -> PhysicalCell:
        """The cell and all below it. `number` is the default number from which those of the children follow."""
        kind = chain.levels[level]
        address = prefix + (spec.cell_address or default)
        cell = PhysicalCell(
            chain=chain.name,
            level=level,
            type_=kind.type,
            address=address,
            leafs=kind.leafs,
            machine_or_above=kind.machine_or_above,
            journal=self.journal,
        )
        chain.full[level].append(cell)
        self._pin(cell, spec.pinned_cell_id, where)
        if kind.is_machine:
            number = 0
        children = spec.cell_children or tuple(PhysicalCellSpec() for _ in range(kind.fanout))
        if len(children) != kind.fanout:
            text = f"{len(children)} cells, but a {kind.type} consists of {kind.fanout}"
            raise HivedConfigError(f"{where}.cellChildren", text)
        parts: list[PhysicalCell] = []
        for index, child in enumerate(children):
            below = number * kind.fanout + index
            inner = f"{where}.cellChildren[{index}]"
            made = self._cell(chain, level - 1, child, str(below), below, inner, f"{address}/")
            made.parent = cell
            parts.append(made)
        cell.children = tuple(parts)
        return cell

    def _pin(self, cell: PhysicalCell, pinned_id: str, where: str) -> None:
        if not pinned_id:
            return
        if pinned_id in self.pinned:
            raise HivedConfigError(
                f"{where}.pinnedCellId", f"{pinned_id} is the id of {self.pinned[pinned_id].address} already"
            )
        cell.pinned = True
        self.pinned[pinned_id] = cell

    def _number_machines(self, top: PhysicalCell, where: str) -> None:
        """Set the machines that each cell spans or is part of, and the numbers of its devices."""
        chain = self.chains[top.chain]
        for machine in (cell for cell in top.walk() if cell.level == chain.machine_level):
            name = machine.address.rpartition("/")[2]
            for cell in machine.walk():
                assert isinstance(cell, PhysicalCell)
                cell.nodes = (name,)
                if cell.level == 1:
                    cell.indices = (self._index(cell, name, where),)
        for cell in reversed(list(top.walk())):
            assert isinstance(cell, PhysicalCell)
            if cell.level > chain.machine_level:
                cell.nodes = tuple(node for child in cell.children for node in child.nodes)
                cell.indices = ()
            elif cell.level > 1:
                cell.indices = tuple(index for child in cell.children for index in child.indices)

    def _index(self, leaf: PhysicalCell, machine: str, where: str) -> int:
        text = leaf.address.rpartition("/")[2]
        if not text.isascii() or not text.isdecimal() or int(text) > _MAX_INT32:
            raise HivedConfigError(
                where, f"device address {leaf.address} must end with the device's number, not {text!r}"
            )
        key = (leaf.chain, machine, int(text))
        if key in self.seen:
            raise HivedConfigError(where, f"device {text} of machine {machine} stands there twice: {self.seen[key]}")
        self.seen[key] = leaf.address
        return int(text)


# -- quota ------------------------------------------------------------------------------------------------------------


class _Quota:
    def __init__(
        self, config: HivedConfig, name: str, chains: dict[str, Chain], pinned: dict[str, PhysicalCell]
    ) -> None:
        self.spec, self.chains, self.hardware = config.virtual_clusters[name], chains, pinned
        self.tenant = Tenant(name)
        self.number = 0

    def build(self) -> Tenant:
        for index, spec in enumerate(self.spec.virtual_cells):
            where = f"virtualClusters.{self.tenant.name}.virtualCells[{index}].cellType"
            chain, level = self._target(spec, where)
            for _ in range(spec.cell_number):
                full = self.tenant.full.setdefault(chain.name, {number: [] for number in chain.levels})
                preassigned = self.tenant.preassigned.setdefault(chain.name, {number: [] for number in chain.levels})
                preassigned[level].append(self._preassign(chain, level, full, ""))
        for index, pin in enumerate(self.spec.pinned_cells):
            where = f"virtualClusters.{self.tenant.name}.pinnedCells[{index}].pinnedCellId"
            self._pin(pin.pinned_cell_id, where)
        return self.tenant

    def _target(self, spec: VirtualCellSpec, where: str) -> tuple[Chain, int]:
        """The chain and the level of the path's last type. As in the original, types in between may be left out."""
        path = spec.cell_type.split(".")
        chain = self.chains.get(path[0])
        if chain is None:
            known = ", ".join(sorted(self.chains)) or "none"
            raise HivedConfigError(where, f"{path[0]!r} is no type of a top cell in physicalCells; there are {known}")
        expected = [chain.levels[number].type for number in sorted(chain.levels, reverse=True)]
        downwards = iter(expected)
        level = chain.level_of(path[-1])
        if level is None or not all(type_ in downwards for type_ in path):
            text = f"{spec.cell_type!r} is no path of types; below {path[0]} come {'.'.join(expected[1:])}"
            raise HivedConfigError(where, text)
        return chain, level

    def _pin(self, pinned_id: str, where: str) -> None:
        cell = self.hardware.get(pinned_id)
        if cell is None:
            known = ", ".join(sorted(self.hardware)) or "none"
            raise HivedConfigError(where, f"no physical cell has the pinnedCellId {pinned_id!r}; there are {known}")
        if pinned_id in self.tenant.pinned:
            raise HivedConfigError(where, f"{pinned_id} is pinned twice")
        chain = self.chains[cell.chain]
        levels: VirtualLevels = {number: [] for number in chain.levels}
        self._preassign(chain, cell.level, levels, pinned_id)
        self.tenant.pinned[pinned_id] = levels

    def _preassign(self, chain: Chain, level: int, full: VirtualLevels, pinned_id: str) -> VirtualCell:
        quota = self.tenant.quota.setdefault(chain.name, {})
        quota[level] = quota.get(level, 0) + 1
        root = self._cell(chain, level, f"{self.tenant.name}/{self.number}", full, pinned_id, None)
        self.number += 1
        return root

    def _cell(
        self, chain: Chain, level: int, address: str, full: VirtualLevels, pinned_id: str, root: VirtualCell | None
    ) -> VirtualCell:
        kind = chain.levels[level]
        cell = VirtualCell(
            chain=chain.name,
            level=level,
            type_=kind.type,
            address=address,
            leafs=kind.leafs,
            machine_or_above=kind.machine_or_above,
            journal=chain.journal,
            tenant=self.tenant.name,
            pinned_id=pinned_id,
        )
        first = 0 if root is None else int(address.rpartition("/")[2]) * kind.fanout
        cell.top = root or cell
        full[level].append(cell)
        children: list[VirtualCell] = []
        for index in range(kind.fanout):
            child = self._cell(chain, level - 1, f"{address}/{first + index}", full, pinned_id, cell.top)
            child.parent = cell
            children.append(child)
        cell.children = tuple(children)
        return cell
