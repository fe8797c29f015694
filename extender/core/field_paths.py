"""Paths to one field of an object, as an operator writes them: the part of JSONPath that names exactly one place. Pure.

    .spec.replicas                              names, with dots
    .metadata.annotations['example.com/size']   a name with other characters, in quotes
    .spec.template[0].size                      an item of a list, counted from 0

No wildcards, filters, slices or negative numbers: a path finds one value, or none.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

#: Limits of a path: characters and steps. An item has a number below 10,000.
MOST_CHARACTERS, MOST_STEPS = 512, 16

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^'\[\]\x00-\x1f\x7f]+)'\]|\[(0|[1-9][0-9]{0,3})\]", re.ASCII)


class _Missing:
    """The type of MISSING: a value of its own, because null is a value."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class FieldPath(msgspec.Struct, frozen=True, gc=False):
    """A path, as its steps: the names of fields, and the numbers of items of lists."""

    steps: tuple[str | int, ...]

    def find(self, value: Any) -> Any:
        """Return the value at this path in decoded JSON; MISSING if there is none."""
        for step in self.steps:
            if isinstance(step, str):
                if not isinstance(value, dict) or step not in value:
                    return MISSING
            elif not isinstance(value, list) or step >= len(value):
                return MISSING
            value = value[step]
        return value

    @property
    def has_names_only(self) -> bool:
        """Whether no step is an item of a list. Only such a path can be written with a merge patch."""
        return all(isinstance(step, str) for step in self.steps)

    def patch(self, value: Any) -> dict[str, Any]:
        """Return the merge patch that sets the field. The path must have names only."""
        if not self.has_names_only:
            raise ValueError(f"{self}: expected names only")
        for step in reversed(self.steps):
            value = {step: value}
        return dict(value)

    def __str__(self) -> str:
        return "".join(_text(step) for step in self.steps)

    @property
    def name(self) -> str:
        """The path as messages have it: spec.replicas."""
        return str(self).removeprefix(".")


def parse(text: str) -> FieldPath:
    """Return the path. Raises ValueError, which says what was expected and where."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"expected at most {MOST_CHARACTERS} characters")
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            raise ValueError(
                f"expected .name, ['name'] or [number] at character {place + 1}, got {text[place : place + 20]!r}"
            )
        name, quoted, index = found.groups()
        steps.append(int(index) if index is not None else name or quoted)
        place = found.end()
    if not steps:
        raise ValueError("expected a path, such as .spec.replicas")
    if len(steps) > MOST_STEPS:
        raise ValueError(f"expected at most {MOST_STEPS} steps, got {len(steps)}")
    return FieldPath(tuple(steps))


def _text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step, re.ASCII) else f"['{step}']"
