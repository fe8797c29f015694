"""Did you mean: the known name that is nearest to a misspelt one, for messages about configurations."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

#: Characters of a misspelt name that are compared: the work grows with its length.
_LONGEST: Final = 100
_QUOTED: Final = re.compile(r"'([^']+)'")


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" with the nearest of the known names; "" if none is near."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name[:_LONGEST].lower(), by_lower, n=1)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""


def for_error(item: ErrorDetails, model: type[BaseModel]) -> str:
    """Return "; did you mean X?" for one error of pydantic about this model; "" if nothing is near.

    An unknown field is compared with those beside it, and then with the fields of this very name in other sections. A
    value that is none of a few texts is compared with these.
    """
    if item["type"] == "literal_error":
        return near(str(item["input"]), _QUOTED.findall(str(item.get("ctx", {}).get("expected", ""))))
    if item["type"] != "extra_forbidden":
        return ""
    *above, last = item["loc"]
    beside = _model_at(model, above)
    return (near(str(last), _names(beside)) if beside else "") or _elsewhere(str(last), model)


def _model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """The model at the end of this path; None if there is none."""
    found: type[BaseModel] | None = model
    for step in path:
        if found is None:
            return None
        annotation = next((each.annotation for name, each in _fields(found) if name == step), None)
        found = _model_in(annotation)
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in a type such as `Tls | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """The fields by the name that a configuration has for them."""
    for name, field in model.model_fields.items():
        yield field.alias or name, field


def _names(model: type[BaseModel]) -> list[str]:
    return [name for name, _ in _fields(model)]


def _elsewhere(name: str, model: type[BaseModel]) -> str:
    paths = [path for path in _paths(model) if path.rpartition(".")[2] == name]
    return f"; did you mean {' or '.join(paths[:3])}?" if paths else ""


def _paths(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in _fields(model):
        yield above + name
        if (inner := _model_in(field.annotation)) is not None and inner is not model:
            yield from _paths(inner, f"{above}{name}.")
