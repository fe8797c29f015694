"""YAML whose scalars stay the text that was written: 08 is an address as well as a number, whatever the field wants.

What YAML would take for a number, a truth value or a date comes as `Plain`, a null as None, a quoted text as str.
"""

from __future__ import annotations

from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Plain(str):
    """An unquoted scalar that is not just a text."""

    __slots__ = ()


class _Loader(_Base):  # type: ignore[misc]
    pass


def _plain(loader: Any, node: Any) -> Plain:
    return Plain(loader.construct_scalar(node))


for _tag in ("int", "float", "bool", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _plain)


def load(text: str) -> Any:
    """Mappings, lists, texts and None. Raises ValueError with the line for what is no YAML."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"not YAML: {getattr(error, 'problem', None) or error}{line}") from error
