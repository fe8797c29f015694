"""Objects for the rules of `waggle lint pool` and `waggle lint vpods`, from files or from the API server.

Objects are read leniently: a field that is absent or has another type reads as empty, as in `document`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import yaml

from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer
from extender.operate.document import Section

_PAGE = 500
#: How many objects of one kind are read at most.
_MOST = 20_000
_TIMEOUT = 30.0
#: Objects by their kinds.
Objects = dict[str, list[Section]]


class SceneError(ValueError):
    """The input cannot be read. The message says what, and why."""


def namespace_of(item: Section) -> str:
    return item.section("metadata").text("namespace") or "default"


def name_of(item: Section) -> str:
    return item.section("metadata").text("name")


def texts(section: Section) -> dict[str, str]:
    """Return the fields whose values are strings."""
    return {name: value for name, value in section.fields.items() if isinstance(value, str)}


def selector_of(section: Section) -> tuple[dict[str, str], frozenset[str]]:
    """Return the matchLabels of a label selector, and the names of all labels that a pod must have to match."""
    plain = texts(section.section("matchLabels"))
    asked = {
        each.text("key") for each in section.items("matchExpressions") if each.text("operator") in ("In", "Exists")
    }
    return plain, frozenset(plain) | asked


def read_text(text: str) -> Objects:
    """Return the objects of a YAML or JSON text, with several documents or Lists. Raises SceneError."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SceneError(f"not readable as YAML: {str(error)[:300]}") from error
    return by_kind(_flat(documents))


def _flat(documents: Iterable[Any]) -> Iterator[Section]:
    for each in documents:
        if not isinstance(each, dict):
            continue
        section = Section(each)
        if section.text("kind").endswith("List"):
            kind = section.text("kind").removesuffix("List")
            yield from (Section({"kind": kind, **item.fields}) for item in section.items("items"))
        else:
            yield section


def by_kind(items: Iterable[Section]) -> Objects:
    """Return the objects by their kinds."""
    found: Objects = {}
    for item in items:
        found.setdefault(item.text("kind"), []).append(item)
    return found


def read_cluster(
    api: ApiServer, collections: Mapping[str, str], namespaces: Iterable[str]
) -> tuple[list[Section], list[str]]:
    """Return the objects of these collections, by kind, and what could not be read. {} is the namespace in a path.

    Raises ApiError if the API server does not answer.
    """
    looked = list(namespaces)
    items: list[Section] = []
    unread: list[str] = []
    for kind, collection in collections.items():
        for path in dict.fromkeys(collection.format(namespace) for namespace in looked):
            found, why = _list(api, path)
            items += [Section({**item, "kind": kind}) for item in found]
            if why:
                unread.append(f"{path}: {why}")
    return items, unread


def _list(api: ApiServer, path: str) -> tuple[list[Mapping[str, Any]], str]:
    """Return the objects of a collection, and why some are missing, or "". None of an unknown collection."""
    found: list[Mapping[str, Any]] = []
    query = {"limit": str(_PAGE)}
    while len(found) < _MOST:
        response = api.request("GET", path, query=query, timeout=_TIMEOUT, most=bounds.PAGE)
        if response.status == 404:
            return [], ""
        if not response.ok:
            return found, f"{response.status} {response.message}"
        try:
            page = Section(msgspec.json.decode(response.body, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(f"GET {path}: {error}") from error
        found += [each.fields for each in page.items("items")]
        query["continue"] = page.section("metadata").text("continue")
        if not query["continue"]:
            return found, ""
    return found, f"more than {_MOST} objects"
