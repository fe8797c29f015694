"""The three ways to PATCH: JSON merge patch (RFC 7396), JSON patch (RFC 6902) and Kubernetes' strategic merge patch.

All are plain functions from (object, patch) to a new object; the object that is given is never changed.
The strategic one merges lists of named things by their key instead of replacing them. Which list has which key stands
in Go struct tags (`patchMergeKey`); the ones of the served kinds are a table here. Lists that are not in the table are
replaced, as Kubernetes does with lists without a `patchStrategy` (tolerations, taints).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.embedded.apiserver.errors import bad_request, unprocessable
from extender.embedded.apiserver.objects import Object

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
#: Not one of the three: it can create, so it is a verb of its own (`Cluster.apply`).
APPLY = "application/apply-patch+yaml"

#: Field name -> the key by which its items are merged; "" for lists of plain values that are merged as sets.
_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "finalizers": "",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podCIDRs": "",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "secrets": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def patch_with(media_type: str) -> Callable[[Object, Any], Any] | None:
    """The function for a Content-Type; None if there is none."""
    return {MERGE: merge_patch, STRATEGIC: strategic_merge_patch, JSON: json_patch}.get(media_type)


def merge_patch(obj: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_merge_patch(obj: Any, patch: Any) -> Any:
    """Raises 400 if the patch is malformed."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch must be a JSON object")
    return _merge_objects(obj, patch)


def _merge_objects(obj: Any, patch: Object) -> Object:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(obj) if isinstance(obj, dict) else {}
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            _remove_values(result, key.partition("/")[2], value)
        elif not key.startswith("$"):
            _merge_field(result, key, value)
    return result


def _merge_field(result: Object, key: str, value: Any) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        result[key] = _merge_objects(result.get(key), value)
    elif isinstance(value, list):
        result[key] = _merge_lists(key, result.get(key) or [], value)
    else:
        result[key] = value


def _remove_values(result: Object, key: str, values: list[Any]) -> None:
    if key in result:
        result[key] = [value for value in result[key] if value not in values]


def _merge_lists(field: str, old: list[Any], patch: list[Any]) -> list[Any]:
    merge_key = _MERGE_KEYS.get(field)
    replace = {"$patch": "replace"}
    if replace in patch:
        return [item for item in patch if item != replace]
    if merge_key is None:
        return patch
    if not merge_key:
        return _in_order([value for value in old if value not in patch], patch, old)
    return _merge_by_key(field, merge_key, old, patch)


def _in_order(
    kept: list[Any], patched: list[Any], order: list[Any], key: Callable[[Any], Any] = lambda item: item
) -> list[Any]:
    """Items that the patch does not name, and those that it does, which come first unless they stood behind before.

    The rule of mergeSortedSlice in k8s.io/apimachinery pkg/util/strategicpatch.
    """
    result: list[Any] = []
    left, right = list(kept), list(patched)
    while left and right:
        stood_behind = key(right[0]) in order and order.index(key(left[0])) < order.index(key(right[0]))
        result.append((left if stood_behind else right).pop(0))
    return [*result, *left, *right]


def _merge_by_key(field: str, merge_key: str, old: list[Any], patch: list[Any]) -> list[Any]:
    result = list(old)
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key} (in {field})")
        position = next((i for i, each in enumerate(result) if each.get(merge_key) == item[merge_key]), None)
        if item.get("$patch") == "delete":
            result = [each for each in result if each.get(merge_key) != item[merge_key]]
        elif position is None:
            result.append(_merge_objects({}, item))
        else:
            result[position] = _merge_objects(result[position], item)
    named = [item[merge_key] for item in patch]
    kept = [each for each in result if each.get(merge_key) not in named]
    patched = sorted(
        (each for each in result if each.get(merge_key) in named), key=lambda each: named.index(each[merge_key])
    )
    order = [each.get(merge_key) for each in old]
    return _in_order(kept, patched, order, key=lambda each: each.get(merge_key))


def json_patch(obj: Any, patch: Any) -> Any:
    """Raises 400 if the patch is malformed, 422 if it does not fit the object."""
    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise bad_request("a JSON patch must be a list of operations")
    for index, step in enumerate(patch):
        obj = _step(obj, step, f"patch[{index}]")
    return obj


def _step(obj: Any, step: Object, where: str) -> Any:
    op, path = step.get("op"), step.get("path")
    if not isinstance(path, str):
        raise bad_request(f"{where}.path must be a JSON pointer")
    if op in ("add", "replace", "test") and "value" not in step:
        raise bad_request(f"{where}.value is required for {op}")
    if op in ("move", "copy") and not isinstance(step.get("from"), str):
        raise bad_request(f"{where}.from must be a JSON pointer")
    if op == "add":
        return _set(obj, _tokens(path), step["value"], insert=True)
    if op == "replace":
        return _set(obj, _tokens(path), step["value"], insert=False)
    if op == "remove":
        return _drop(obj, _tokens(path))
    if op == "test":
        if _tested(obj, _tokens(path)) != step["value"]:
            raise unprocessable(f"testing value {path} failed: test failed")
        return obj
    if op in ("move", "copy"):
        value = _read(obj, _tokens(step["from"]))
        rest = _drop(obj, _tokens(step["from"])) if op == "move" else obj
        return _set(rest, _tokens(path), value, insert=True)
    raise bad_request(f"{where}.op must be add, remove, replace, move, copy or test, not {op!r}")


def _tokens(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise bad_request(f"JSON pointer {path!r} must begin with /")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _read(obj: Any, tokens: list[str]) -> Any:
    for token in tokens:
        obj = obj[_index(obj, token, tokens)]
    return obj


def _tested(obj: Any, tokens: list[str]) -> Any:
    """The API server takes a field that an object lacks for null, if the object itself is there."""
    parent = _read(obj, tokens[:-1])
    return None if isinstance(parent, dict) and tokens and tokens[-1] not in parent else _read(obj, tokens)


def _set(obj: Any, tokens: list[str], value: Any, *, insert: bool) -> Any:
    if not tokens:
        return value
    token, rest = tokens[0], tokens[1:]
    copy = list(obj) if isinstance(obj, list) else dict(obj) if isinstance(obj, dict) else None
    if isinstance(copy, list) and not rest and insert:
        copy.insert(len(copy) if token == "-" else _position(copy, token, len(copy), tokens), value)  # noqa: S105
        return copy
    if isinstance(copy, dict) and not rest and insert:
        copy[token] = value
        return copy
    key = _index(copy, token, tokens)
    result: Any = copy
    result[key] = _set(result[key], rest, value, insert=insert)
    return result


def _drop(obj: Any, tokens: list[str]) -> Any:
    if not tokens:
        raise unprocessable("the whole object cannot be removed by a patch")
    result: Any = list(obj) if isinstance(obj, list) else dict(obj) if isinstance(obj, dict) else None
    key = _index(result, tokens[0], tokens)
    if len(tokens) == 1:
        del result[key]
    else:
        result[key] = _drop(result[key], tokens[1:])
    return result


def _index(obj: Any, token: str, tokens: list[str]) -> Any:
    """`token` as a key of `obj`. Raises 422 if there is nothing there."""
    if isinstance(obj, dict) and token in obj:
        return token
    if isinstance(obj, list):
        return _position(obj, token, len(obj) - 1, tokens)
    raise unprocessable(f"path /{'/'.join(tokens)} is missing: {token!r} is not there")


def _position(items: list[Any], token: str, last: int, tokens: list[str]) -> int:
    if not (token.isascii() and token.isdigit()) or int(token) > last:
        raise unprocessable(f"path /{'/'.join(tokens)}: {token!r} is no index of a list of {len(items)}")
    return int(token)
