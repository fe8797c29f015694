"""A YAML file with the line of every field, so that a finding can name the line that has to be mended.

    fields = read(text).root
    for extender in fields.items("extenders"):
        extender.text("urlPrefix"), extender.at("urlPrefix")

Reading a field never fails: one that is absent or of another type reads as empty. Whether it has the right type is one
question of its own, not one of every rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from algorithm.registry import explain_yaml

#: Where something stands: keys and indices from the top.
Path = tuple[str | int, ...]

#: Fields that are located; a configuration has some hundred. Aliases can make a small file huge.
_MOST_FIELDS = 20_000
_CONFIG_GROUP = "kubescheduler.config.k8s.io/"


class DocumentError(ValueError):
    """It cannot be read as YAML; the message names the line."""


@dataclass(frozen=True)
class At:
    """A place in a document, and what is to be said about it beside its value."""

    path: Path
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """A mapping in a document; an empty one where there is none."""

    fields: Mapping[str, Any]
    path: Path = ()

    def __contains__(self, key: str) -> bool:
        return self.fields.get(key) is not None

    def at(self, key: str | None = None, detail: str = "") -> At:
        """The field, or the section itself."""
        return At(self.path if key is None else (*self.path, key), detail)

    def text(self, key: str) -> str:
        value = self.fields.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.fields.get(key)
        return value if isinstance(value, bool) else default

    def number(self, key: str) -> float | None:
        value = self.fields.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def section(self, key: str) -> Section:
        return Section(_mapping(self.fields.get(key)), (*self.path, key))

    def items(self, key: str) -> list[Section]:
        """The mappings of a list."""
        value = self.fields.get(key)
        values = enumerate(value) if isinstance(value, list) else ()
        return [Section(_mapping(each), (*self.path, key, index)) for index, each in values]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Document:
    """The first document of a file. `others` is how many follow it, which kube-scheduler does not read."""

    data: Any
    lines: Mapping[Path, int]
    others: int = 0

    @property
    def root(self) -> Section:
        return Section(_mapping(self.data))

    def line(self, path: Path) -> int:
        """The line of a field, or of the nearest thing around it that is there. Lines count from 1."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def value(self, path: Path) -> Any:
        """What stands at a path; None if nothing does."""
        found = self.data
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found


def read(text: str) -> Document:
    """The document in `text`; of a ConfigMap, the scheduler's configuration inside it. Raises DocumentError."""
    try:
        nodes = list(yaml.compose_all(text, yaml.SafeLoader))
        document = _document(nodes[0] if nodes else None, others=len(nodes) - 1)
    except yaml.MarkedYAMLError as error:
        raise DocumentError(explain_yaml(error, context=False)) from error
    except DocumentError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DocumentError(f"not readable as YAML: {error}") from error
    return _inside_config_map(document, nodes[0]) if nodes and document.root.text("kind") == "ConfigMap" else document


def _document(node: yaml.Node | None, *, others: int = 0) -> Document:
    if node is None:
        return Document(None, {(): 1})
    lines: dict[Path, int] = {}
    for path, line in _locate(node, ()):
        lines.setdefault(path, line)
        if len(lines) > _MOST_FIELDS:
            raise DocumentError(f"line {line}: more than {_MOST_FIELDS} fields")
    constructor = yaml.SafeLoader("")
    return Document(constructor.construct_document(node), lines, others)


def _locate(node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    yield path, _line(node)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _locate(item, (*path, index))
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError(f"line {_line(key)}: a list or mapping cannot be the name of a field")
            if key.value in seen:
                raise DocumentError(f"line {_line(key)}: {key.value} appears twice; kube-scheduler does not start")
            seen.add(key.value)
            yield (*path, key.value), _line(key)
            yield from _locate(value, (*path, key.value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _inside_config_map(document: Document, node: yaml.Node) -> Document:
    """The configuration that a ConfigMap holds as text, its lines counted in the whole file."""
    for path, text in ((("data", key), text) for key, text in document.root.section("data").fields.items()):
        if isinstance(text, str) and _CONFIG_GROUP in text:
            inner = read(text)
            above = document.lines[path]
            return Document(inner.data, {at: line + above for at, line in inner.lines.items()}, inner.others)
    raise DocumentError(f"line {_line(node)}: a ConfigMap without a KubeSchedulerConfiguration in its data")
