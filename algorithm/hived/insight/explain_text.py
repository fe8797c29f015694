"""The sentences of `explain.py`: numbers and names put into words.

A sentence stands by itself, begins with what matters most, and uses the words of docs/algorithm-hived.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.formats.podspec import PodSpec
from algorithm.hived.insight.capacity import ChainCapacity, Piece
from algorithm.hived.insight.unblockers import Unblockers, size
from algorithm.hived.state.groups import Group, GroupState

#: So many names are shown at most.
SHOWN = 10


def listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return (", ".join(names[:SHOWN]) or "none") + (f" and {more} more" if more > 0 else "")


# -- why there is no place --------------------------------------------------------------------------------------------


def there_are(spec: PodSpec, found: ChainCapacity) -> str:
    """What the group may have a part of."""
    number = f"{found.total} {found.leaf_type}"
    if spec.priority < 0:
        return f"{found.chain} has {number}"
    if spec.pinned_id:
        return f"pinned cell {spec.pinned_id} has {number}"
    return f"{spec.tenant} is promised {number} in {found.chain}"


def never(spec: PodSpec, found: ChainCapacity) -> str:
    if found.total < found.need:
        return f"{spec.group} can never run: it needs {found.need} {found.leaf_type}, and {there_are(spec, found)}."
    room = f"room for {found.ever} such pods, not for {found.pods}" if found.ever else "no such piece"
    return (
        f"{spec.group} can never run: a pod has its {max(spec.pods)[0]} {found.leaf_type} in one piece (a machine, or "
        f"a promised part of one), and {there_are(spec, found)}, with {room}."
    )


def used_up(spec: PodSpec, found: ChainCapacity) -> str:
    more = found.need - found.left
    missing = f"{spec.group} needs {found.need}: {more} more {'has' if more == 1 else 'have'} to become free."
    if spec.priority < 0:
        bad = f" ({found.bad} of them bad)" if found.bad else ""
        return (
            f"{there_are(spec, found)}; {found.held} are used, or kept for somebody who waits, and {found.left} "
            f"{_are(found.left)} left{bad}. {missing}"
        )
    gone = "Not enough of the guarantee is left" if found.left else "The guarantee is used up"
    lower = f" ({found.lower} of them used by lower priorities, which would have to go)" if found.lower else ""
    return (
        f"{gone}: {there_are(spec, found)}; {found.held} are held by groups of the same or a higher "
        f"priority, and {found.left} {_are(found.left)} left{lower}. {missing}"
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def free_for_others(spec: PodSpec, found: ChainCapacity) -> str:
    return (
        f"{found.idle} healthy {found.leaf_type} are free in {found.chain}, but {spec.tenant} cannot have more than it "
        "is promised: they are kept for their owners, and lent to pods of priority -1."
    )


def too_many_bad(spec: PodSpec, found: ChainCapacity) -> str:
    return (
        f"Hardware is bad: {there_are(spec, found)}, and {found.left} {_are(found.left)} left, but {found.bad} of "
        f"these {_are(found.bad)} bad. {spec.group} needs {found.need}."
    )


def scattered(spec: PodSpec, found: ChainCapacity) -> str:
    most = nlargest(SHOWN, (piece for piece in found.pieces if piece.left), key=lambda piece: piece.left)
    largest = max(spec.pods)[0]
    room = f"there is room for {found.fitting} of {found.pods} such pods" if found.pods > 1 else "no piece has so many"
    return (
        f"Enough is left, but scattered: {there_are(spec, found)}, {found.left - found.bad} healthy ones are left, and "
        f"{spec.group} needs {found.need}. {_together(found, largest)}, and {room}. "
        f"The largest: {', '.join(map(_piece_text, most))}."
    )


def _together(found: ChainCapacity, largest: int) -> str:
    if not found.combines:
        return f"A pod has its {largest} in one piece"
    return f"A pod has its {largest} in one piece, or in several that can be on one machine at nobody's cost"


def not_mapped(spec: PodSpec, found: ChainCapacity) -> str:
    return (
        f"What {spec.tenant} is promised in {found.chain} has room for {spec.group}, but the healthy hardware that is "
        "left does not come in such pieces."
    )


def not_found(spec: PodSpec, found: ChainCapacity) -> str:
    pods = " and ".join(f"{number} pods of {devices}" for devices, number in spec.pods)
    return (
        f"{there_are(spec, found)}, {found.left - found.bad} healthy ones are left, and {spec.group} needs "
        f"{found.need}, but {pods} found no place: machines are filled one after the other, smallest pods first."
    )


def bad_hardware(names: Sequence[str]) -> str:
    return f"Nobody gets bad machines (not Ready, cordoned, unknown) or bad devices: {listed(names)}."


def _piece_text(piece: Piece) -> str:
    bad = f" ({piece.bad} more are bad)" if piece.bad else ""
    return f"{piece.left} in {_name(piece.cell)}{bad}"


def _name(cell: Cell) -> str:
    """Hardware, as people know it."""
    if isinstance(cell, VirtualCell) and cell.physical is not None:
        return cell.physical.address
    return cell.address if isinstance(cell, PhysicalCell) else f"{cell.address}, no machine in particular yet"


# -- what would help --------------------------------------------------------------------------------------------------


def unblockers(found: Unblockers, spec: PodSpec) -> str:
    if found.alone:
        which = "this ended" if len(found.alone) == 1 else "any one of these ended"
        return f"It would run if {which}: {_groups(found.alone, spec)}."
    if not found.together:
        return "The end of other groups would not help."
    fewer = "" if found.minimal else " (perhaps fewer would do)"
    return f"It would run if all {len(found.together)} of these ended{fewer}: {_groups(found.together, spec)}."


def promoted_first(names: Sequence[str]) -> str:
    return f"What becomes free may go to groups first that lost their quota and are to have it back: {listed(names)}."


def _groups(groups: Sequence[Group], spec: PodSpec) -> str:
    return listed([_group_text(group, spec) for group in groups])


def _group_text(group: Group, spec: PodSpec) -> str:
    facts = [] if group.tenant == spec.tenant else [f"of {group.tenant}"]
    facts.append("without guarantee" if group.virtual is None else f"priority {group.priority}")
    devices = size(group)
    facts.append(f"{devices} device{'' if devices == 1 else 's'}")
    if group.state is GroupState.PREEMPTING:
        facts.append("which preempts")
    elif group.state is GroupState.BEING_PREEMPTED:
        facts.append("which is being preempted")
    return f"{group.name} ({', '.join(facts)})"
