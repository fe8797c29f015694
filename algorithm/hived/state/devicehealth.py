"""Which devices of a machine are bad by themselves: what is written on its node, as an annotation or a taint.

    waggle.dev/bad-devices: "0,3"                          annotation: device numbers with commas
    waggle.dev/bad-devices=0_3:PreferNoSchedule            taint: with underscores, since its value may hold no comma

If both exist, both count. The tool that detects a bad device writes it; kubelet only counts the remaining devices.
A text that cannot be read causes a warning, and the machine's devices keep their last state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from algorithm.hived.cells.config import Section
from algorithm.model import Node
from algorithm.tables import Table

#: Longer numbers are nobody's device.
_MOST_DIGITS = 10
NONE: frozenset[int] = frozenset()


class BadDevicesSettings(Section):
    """Where a node says which of its devices are bad. An empty name: nowhere."""

    annotation: str = Field(default="waggle.dev/bad-devices", description="Name of the annotation: `0,3`.")
    taint: str = Field(default="waggle.dev/bad-devices", description="Key of the taint, whose value is `0_3`.")


class DeviceHealth:
    """The bad devices of each node. `devices` are the numbers that a machine has; `settings` None: nothing is read."""

    def __init__(self, settings: BadDevicesSettings | None, devices: Mapping[str, frozenset[int]]) -> None:
        self._settings, self._devices = settings, devices
        self._bad: dict[str, frozenset[int]] = Table()
        #: What is wrong with what is written on nodes, by node.
        self.warnings: dict[str, str] = {}

    def bad(self, name: str) -> frozenset[int]:
        """As it was read last."""
        return self._bad.get(name, NONE)

    def forget(self, name: str) -> None:
        self._bad.pop(name, None)
        self.warnings.pop(name, None)

    def read(self, node: Node) -> frozenset[int]:
        """The numbers of its bad devices. Numbers that it does not have count for nothing but a warning."""
        if self._settings is None or node.name not in self._devices:
            return NONE
        self.warnings.pop(node.name, None)
        try:
            numbers = frozenset(number for source in _written(node, self._settings) for number in _numbers(*source))
        except ValueError as error:
            self.warnings[node.name] = f"{error}; its devices count as before"
            return self.bad(node.name)
        unknown = numbers - self._devices[node.name]
        if unknown:
            has = _listed(self._devices[node.name])
            self.warnings[node.name] = f"there is no device {_listed(unknown)} to be bad, only {has}"
        self._bad[node.name] = numbers - unknown
        return self._bad[node.name]


#: What it is, its text, and what is between numbers.
_Source = tuple[str, str, str]


def _written(node: Node, settings: BadDevicesSettings) -> Iterator[_Source]:
    for key, value in node.annotations:
        if key == settings.annotation and value.strip():
            yield f"annotation {key}", value, ","
    for taint in node.taints:
        if taint.key == settings.taint:
            yield f"taint {taint.key}", taint.value, "_"


def _numbers(what: str, text: str, separator: str) -> Iterator[int]:
    """Raises ValueError."""
    for part in text.split(separator):
        number = part.strip()
        if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
            wanted = f"device numbers with {separator!r} between them, like '0{separator}3'"
            raise ValueError(f"{what}: expected {wanted}, not {text[:60]!r}")
        yield int(number)


def _listed(numbers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:16]))
