"""Names of the pods of a StatefulSet, and placements as a status has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: The highest number of vreplicas, and the highest ordinal: 32-bit integers, as in Kubernetes.
MOST = 2**31 - 1
#: Stands for a number that is none: a text, a fraction, or one beyond 64 bits.
NO_NUMBER = -(2**63)
#: Entries of a status that are read. A status with more is cut, and that is said.
MOST_PLACEMENTS = 10_000
#: Of these, so many that are wrong are named: the author of a status may get all of them wrong.
MOST_NAMED = 20

#: Digits of the highest ordinal.
_DIGITS = 10


def split(pod: str) -> tuple[str, int] | None:
    """The StatefulSet and the ordinal in a pod's name; None if it is not such a name.

    The name is the StatefulSet's, a dash, and the ordinal without leading zeros. (The Kubernetes documentation of
    StatefulSets, "Stable Network ID".)
    """
    workload, dash, text = pod.rpartition("-")
    ordinal = _ordinal(text) if dash else -1
    return None if ordinal < 0 else (workload, ordinal)


def _ordinal(text: str) -> int:
    """The ordinal that a name ends with; -1 if it is none."""
    if not (text.isdigit() and text.isascii() and len(text) <= _DIGITS) or (text[0] == "0" and len(text) > 1):
        return -1
    ordinal = int(text)
    return ordinal if ordinal <= MOST else -1


def pod_name(workload: str, ordinal: int) -> str:
    return f"{workload}-{ordinal}"


def read_placements(
    placements: Iterable[tuple[str, int]], workload: str, field: str = "status.placements"
) -> tuple[dict[int, int], list[str]]:
    """Vreplicas by ordinal, and what is wrong with entries that are left out. Entries of one pod are added up.

    `field`: where the placements stand, for the texts of problems.
    """
    counts: dict[int, int] = {}
    problems: list[str] = []
    prefix = f"{workload}-"
    for index, (name, number) in enumerate(placements):
        if index >= MOST_PLACEMENTS:
            problems.append(f"{field}: expected at most {MOST_PLACEMENTS} entries")
            break
        ordinal = _ordinal(name[len(prefix) :]) if name.startswith(prefix) else -1
        if ordinal < 0:
            _name(problems, f"{field}[{index}].podName: {name[:64]!r} is not a pod of the StatefulSet {workload}")
        elif number < 0 or counts.get(ordinal, 0) + number > MOST:
            _name(problems, f"{field}[{index}].vreplicas: {expected_number(number)}")
        elif number:
            counts[ordinal] = counts.get(ordinal, 0) + number
    return counts, problems


def _name(problems: list[str], text: str) -> None:
    if len(problems) < MOST_NAMED:
        problems.append(text)


def expected_number(found: int) -> str:
    """What to say of a number of vreplicas that is out of bounds, or none."""
    return f"expected a number from 0 to {MOST}" + ("" if found == NO_NUMBER else f", not {found}")


def write_placements(counts: Mapping[int, int], workload: str) -> tuple[tuple[str, int], ...]:
    """Placements as a status has them: by ordinal, none of zero."""
    return tuple((pod_name(workload, ordinal), counts[ordinal]) for ordinal in sorted(counts) if counts[ordinal])
