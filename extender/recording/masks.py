"""Masks secrets in recordings: texts in settings, annotations and labels whose names say that they are secret.

    settings of the algorithm      fields of the type SecretStr or SecretBytes, and fields named like a secret
    annotations and labels         those named like a secret, and what kubectl keeps of the whole manifest

MASK replaces the text, so a replay sees that something was there. An algorithm that decides by such a text may decide
differently in a replay; `Header.masked` names the fields, and a divergence mentions them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import BaseModel, SecretBytes, SecretStr

from algorithm.model import Node, Pairs, Pod

MASK = "(masked)"
#: The whole manifest of an object as kubectl applied it, with environment variables and whatever else is in it.
_MANIFESTS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|(api|access|private|signing)[-_.]?key|authorization|bearer|cookie",
    re.IGNORECASE,
)
#: Names of labels and annotations whose answer is remembered, names that are told, and texts that are known as secret.
_MOST_KEYS, _MOST_TOLD, _MOST_TEXTS = 20_000, 100, 20_000
#: A shorter text may be a word that stands elsewhere.
_SHORTEST = 6


def is_secret(key: str) -> bool:
    """Return whether a field, a label or an annotation of this name may have a secret."""
    return key in _MANIFESTS or _SECRET.search(key) is not None


class Masks:
    """For one recording. Not thread-safe."""

    def __init__(self) -> None:
        self._keys: dict[str, bool] = {}
        #: The names of what was masked, for the log's reader; the first so many.
        self.masked: set[str] = set()
        #: The texts that were masked: they may stand in the algorithm's own state, too.
        self.texts: set[str] = set()

    def settings(self, settings: Mapping[str, Any], model: type[BaseModel] | None = None) -> dict[str, Any]:
        """Return the settings without secrets. `model`: what checks them, whose fields may be of a secret type."""
        if model is not None:
            self._learn(_validated(model, settings))
        return {key: self._setting(key, value) for key, value in settings.items()}

    def _learn(self, value: object) -> None:
        match value:
            case SecretStr() | SecretBytes():
                text = value.get_secret_value()
                self._add(text if isinstance(text, str) else text.decode(errors="replace"))
            case BaseModel():
                for each in vars(value).values():
                    self._learn(each)
            case Mapping():
                for each in value.values():
                    self._learn(each)
            case list() | tuple() | set() | frozenset():
                for each in value:
                    self._learn(each)

    def _add(self, text: str) -> None:
        if len(text) >= _SHORTEST and len(self.texts) < _MOST_TEXTS:
            self.texts.add(text)

    def _tell(self, key: str) -> None:
        if len(self.masked) < _MOST_TOLD:
            self.masked.add(key)

    def _setting(self, key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {inside: self._setting(str(inside), each) for inside, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._setting(key, each) for each in value]
        if not isinstance(value, str) or not value or not (value in self.texts or is_secret(key)):
            return value
        self._add(str(value))
        self._tell(key)
        return MASK

    def pod(self, pod: Pod) -> Pod:
        """Return the record without secrets; the same object if there are none."""
        if not (self._finds(pod.annotations) or self._finds(pod.labels)):
            return pod
        return msgspec.structs.replace(pod, annotations=self._pairs(pod.annotations), labels=self._pairs(pod.labels))

    def node(self, node: Node) -> Node:
        """Return the same for a node."""
        if not (self._finds(node.annotations) or self._finds(node.labels)):
            return node
        return msgspec.structs.replace(node, annotations=self._pairs(node.annotations), labels=self._pairs(node.labels))

    def _finds(self, pairs: Pairs) -> bool:
        return any(self._is_secret(key) and value for key, value in pairs)

    def _pairs(self, pairs: Pairs) -> Pairs:
        return tuple((key, self._text(key, value)) for key, value in pairs)

    def _text(self, key: str, value: str) -> str:
        if not value or not self._is_secret(key):
            return value
        self._add(value)
        self._tell(key)
        return MASK

    def _is_secret(self, key: str) -> bool:
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            known = self._keys[key] = is_secret(key)
        return known


def _validated(model: type[BaseModel], settings: Mapping[str, Any]) -> BaseModel | None:
    try:
        return model.model_validate(dict(settings))
    except ValueError:
        return None
