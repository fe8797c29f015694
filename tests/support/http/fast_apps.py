"""What FastAPI would make again for each application is made once: a sixth of the CPU time of tests of servers.

Each application has routes of its own, closures over its runtime, but those of the same code have the same parameters,
validators and models. FastAPI is as it is where it has not what is replaced here, as another release may.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from pydantic import TypeAdapter


def module_with(name: str, *attributes: str) -> Any:
    """A module with these attributes, of a library that may be built otherwise in another release; None: it is."""
    with contextlib.suppress(ImportError):
        module = importlib.import_module(name)
        if all(hasattr(module, attribute) for attribute in attributes):
            return module
    return None


_v2 = module_with("fastapi._compat.v2", "TypeAdapter")
_utils = module_with("fastapi.dependencies.utils", "_get_signature", "analyze_param")
_routing = module_with("fastapi.routing", "create_model_field")

_PLAIN = (bool, int, float, str, type(None))
_ADAPTERS: dict[tuple[object, str, str], TypeAdapter[Any]] = {}
_SIGNATURES: dict[tuple[CodeType, bool, str], inspect.Signature] = {}
_PARAMETERS: dict[tuple[str, int, str, bool], tuple[object, Any]] = {}
_FIELDS: dict[tuple[str, int, str], tuple[object, Any]] = {}


def _adapter_of(annotated: Any, *, config: Any = None) -> TypeAdapter[Any]:
    """The validator of this type with these constraints."""
    key = (annotated.__origin__, repr(annotated.__metadata__), repr(config))
    if key not in _ADAPTERS:
        _ADAPTERS[key] = TypeAdapter(annotated, config=config)
    return _ADAPTERS[key]


def _signature_of(make: Callable[[Any], inspect.Signature], call: Any) -> inspect.Signature:
    """That of a function. A default that is no plain value belongs to one function, and so may an annotation."""
    function = getattr(call, "__func__", call)
    defaults = getattr(function, "__defaults__", None) or ()
    if (
        not isinstance(function, FunctionType)
        or hasattr(function, "__wrapped__")
        or function.__kwdefaults__
        or not all(isinstance(each, _PLAIN) for each in defaults)
        or not all(isinstance(each, str) for each in function.__annotations__.values())
    ):
        return make(call)
    key = (function.__code__, function is not call, repr(defaults))
    if key not in _SIGNATURES:
        _SIGNATURES[key] = make(call)
    return _SIGNATURES[key]


def _parameter_of(
    make: Callable[..., Any], param_name: str, annotation: Any, value: Any, path_param_names: set[str]
) -> Any:
    """What FastAPI knows of a parameter. The annotation is kept: its id stays its own."""
    if value is not inspect.Signature.empty and not isinstance(value, _PLAIN):
        return make(param_name=param_name, annotation=annotation, value=value, path_param_names=path_param_names)
    key = (param_name, id(annotation), repr(value), param_name in path_param_names)
    if key not in _PARAMETERS:
        made = make(param_name=param_name, annotation=annotation, value=value, path_param_names=path_param_names)
        _PARAMETERS[key] = (annotation, made)
    return _PARAMETERS[key][1]


def _field_of(make: Callable[..., Any], name: str, type_: Any, mode: str, **more: Any) -> Any:
    """The model of an answer."""
    if more:
        return make(name=name, type_=type_, mode=mode, **more)
    key = (name, id(type_), mode)
    if key not in _FIELDS:
        _FIELDS[key] = (type_, make(name=name, type_=type_, mode=mode))
    return _FIELDS[key][1]


def make_once() -> None:
    """Replace these parts of FastAPI for the rest of this process."""
    if _v2 is not None and _v2.TypeAdapter is TypeAdapter:
        _v2.TypeAdapter = _adapter_of
    if _utils is not None:
        signature, parameter = _utils._get_signature, _utils.analyze_param
        _utils._get_signature = lambda call: _signature_of(signature, call)
        _utils.analyze_param = lambda **given: _parameter_of(parameter, **given)
    if _routing is not None:
        field = _routing.create_model_field
        _routing.create_model_field = lambda **given: _field_of(field, **given)
