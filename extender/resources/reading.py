"""Converts an object of the API server, decoded from JSON, to its model."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)
#: How many faults one message names. The author of the object decides how many there are.
_MOST = 5


class ResourceError(ValueError):
    """The object is not valid. The message names the first fields at fault, and what was expected of each."""


def read(model: type[M], obj: Any) -> M:
    """Return `obj` as its model. Raises ResourceError."""
    try:
        return model.model_validate(obj)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        texts = [f"{_path(each['loc'])}: {each['msg'].removeprefix('Value error, ')}" for each in found[:_MOST]]
        more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
        raise ResourceError("; ".join([*texts, *more])) from None


def _path(place: tuple[int | str, ...]) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place).lstrip(".") or "the object"
