"""Kubernetes label selectors: the text that `kubectl get -l` takes, as a test on labels.

    environment=production, tier!=frontend, app in (web, api), release notin (canary), gpu, !spot

The grammar and its corners are those of k8s.io/apimachinery `labels.Parse`: requirements are joined by "," and all
must hold; `!=` and `notin` also hold where the key is absent; `key=` asks for the empty value; the empty selector
selects everything. Not supported: `key > 1` and `key < 1`, which no workload API of Kubernetes uses either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from algorithm.model import Pairs


class Operator(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the label `key`. `values` is empty for EXISTS and DOES_NOT_EXIST."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: dict[str, str]) -> bool:
        if self.operator is Operator.EXISTS:
            return self.key in labels
        if self.operator is Operator.DOES_NOT_EXIST:
            return self.key not in labels
        value = labels.get(self.key)
        if self.operator is Operator.IN:
            return value in self.values
        return value is None or value not in self.values


@dataclass(frozen=True, slots=True)
class Selector:
    """All `requirements` together; none selects everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse `text`. Raises ValueError that names the part that cannot be parsed."""
        return cls(tuple(_Parser(text).requirements())) if text.strip() else cls()

    def matches(self, labels: Pairs) -> bool:
        if not self.requirements:
            return True
        known = dict(labels)
        return all(requirement.holds(known) for requirement in self.requirements)


_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SYMBOLS = frozenset(["==", "!=", "=", "!", "(", ")", ",", "<", ">", ""])
_END = ""

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME, _MAX_DOMAIN = 63, 253


class _Parser:
    """Recursive descent over the tokens; the last token is _END."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> Iterator[Requirement]:
        yield self._requirement()
        while (word := self._next()) != _END:
            if word != ",":
                raise self._error(f"found {word!r}, expected ',' or the end")
            yield self._requirement()

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), Operator.DOES_NOT_EXIST)
        key = self._key()
        word = self._peek()
        if word in (_END, ","):
            return Requirement(key, Operator.EXISTS)
        self._next()
        if word in ("=", "==", "!="):
            operator = Operator.NOT_IN if word == "!=" else Operator.IN
            return Requirement(key, operator, frozenset([self._value()]))
        if word in ("in", "notin"):
            return Requirement(key, Operator(word), self._values(key))
        raise self._error(f"found {word!r} after {key!r}, expected one of = == != in notin ',' or the end")

    def _values(self, key: str) -> frozenset[str]:
        if (word := self._next()) != "(":
            raise self._error(f"found {word!r}, expected '(' and the values of {key!r}")
        if self._peek() == ")":
            raise self._error(f"{key!r} needs at least one value between '(' and ')'")
        values = {self._value()}
        while (word := self._next()) == ",":
            values.add(self._value())
        if word != ")":
            raise self._error(f"found {word!r}, expected ',' or ')' in the values of {key!r}")
        return frozenset(values)

    def _key(self) -> str:
        key = self._next()
        if key in _SYMBOLS:
            raise self._error(f"found {key!r}, expected a label key")
        domain, slash, name = key.rpartition("/")
        if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
            raise self._error(f"label key {key!r} must be a qualified name such as 'app' or 'example.com/app'")
        if slash and (len(domain) > _MAX_DOMAIN or not _DOMAIN.fullmatch(domain)):
            raise self._error(f"the prefix of label key {key!r} must be a DNS subdomain such as 'example.com'")
        return key

    def _value(self) -> str:
        """Parse a value. It may be empty: then the next token is not a value."""
        if self._peek() in (_END, ",", ")"):
            return ""
        value = self._next()
        if value in _SYMBOLS:
            raise self._error(f"found {value!r}, expected a label value")
        if len(value) > _MAX_NAME or not _NAME.fullmatch(value):
            raise self._error(
                f"label value {value!r} must have at most {_MAX_NAME} letters, digits, '-', '_' or '.', "
                "and start and end with a letter or digit"
            )
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _error(self, problem: str) -> ValueError:
        return ValueError(f"label selector {self._text!r}: {problem}")
