"""Reads the bodies of claims' requests into their models.

A model limits the number of labels, but validates all of them before it counts, and creates an error for each: a body
with 40,000 labels that are numbers took a second. So the entries of large bodies are counted first.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from extender.web.errors import BadRequest

#: The size from which a body is counted first, bytes, and the limit of entries in one field, which no field reaches.
_LARGE, _MOST_ENTRIES = 2048, 64
_M = TypeVar("_M", bound=BaseModel)


def read_model(body: bytes, model: type[_M]) -> _M:
    """Return the body as its model; an empty body has defaults. Raises BadRequest, or pydantic's ValidationError."""
    if not body.strip():
        return model.model_validate({})
    if len(body) > _LARGE:
        _check_numbers(body)
    return model.model_validate_json(body)


def _check_numbers(body: bytes) -> None:
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the model reports the error
    _check_number("body", found)
    for name, value in found.items() if isinstance(found, dict) else ():
        _check_number(name[:253], value)


def _check_number(field: str, value: Any) -> None:
    if isinstance(value, dict | list) and len(value) > _MOST_ENTRIES:
        raise BadRequest(f"{field}: expected at most {_MOST_ENTRIES} entries, got {len(value)}", field)
