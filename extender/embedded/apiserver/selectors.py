"""labelSelector and fieldSelector: parsed once per request, then a quick yes or no per object.

    labelSelector = requirement {"," requirement}
    requirement   = key | !key | key (= | == | !=) value | key (> | <) integer
                  | key (in | notin) "(" value {"," value} ")"
    fieldSelector = term {"," term}
    term          = field (= | == | !=) value, with \\ before , = and \\

As in Kubernetes, `!=` and `notin` also match objects that lack the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from extender.embedded.apiserver.errors import ApiError, bad_request
from extender.embedded.apiserver.resources import Resource

_KEY = r"(?:[a-z0-9A-Z.-]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<absent_key>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:(?P<set>\bin\b|\bnotin\b)\s*\((?P<values>[^()]*)\)"
    r"|(?P<op>==|=|!=|>|<)\s*(?P<value>[-A-Za-z0-9_.]*))?)\s*(?:,|$)",
    re.ASCII,
)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_TERM = re.compile(r"(?P<field>[^=!,]+)(?P<op>==|=|!=)(?P<value>(?:[^\\,=]|\\[\\,=])*)(?:,|$)")


class Requirement(NamedTuple):
    """One condition on a label. `op`: exists, absent, in, notin, gt or lt."""

    key: str
    op: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.op == "in":
            return value in self.values
        if self.op == "notin":
            return value not in self.values
        if self.op == "exists":
            return value is not None
        if self.op == "absent":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        (limit,) = self.values
        try:
            number = int(value) if value is not None else None
        except ValueError:
            return False
        return number is not None and (number > int(limit) if self.op == "gt" else number < int(limit))


class FieldTerm(NamedTuple):
    #: Dotted path of the field in the stored object.
    path: str
    value: str
    equal: bool


class Selector(NamedTuple):
    """What an object must be like. Empty: everything."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()
    namespace: str = ""

    def matches(self, namespace: str, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        if self.namespace and namespace != self.namespace:
            return False
        return all((fields.get(term.path, "") == term.value) == term.equal for term in self.fields) and all(
            requirement.matches(labels) for requirement in self.labels
        )


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Raises 400 if `text` is no label selector."""
    found: list[Requirement] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise _unparsable(text)
        found.append(_requirement(match, text))
        position = match.end()
    return tuple(found)


def _requirement(match: re.Match[str], text: str) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent_key"], "absent")
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        if not all(_VALUE.fullmatch(value) for value in values):
            raise _unparsable(text)
        return Requirement(match["key"], match["set"], values)
    op, value = match["op"], match["value"]
    if op is None:
        return Requirement(match["key"], "exists")
    if op in ("<", ">"):
        if not value.lstrip("-").isdigit():
            raise bad_request(
                f"unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer: {text}"
            )
        return Requirement(match["key"], "gt" if op == ">" else "lt", frozenset([value]))
    if not _VALUE.fullmatch(value):
        raise _unparsable(text)
    return Requirement(match["key"], "notin" if op == "!=" else "in", frozenset([value]))


def _unparsable(text: str) -> ApiError:
    return bad_request(
        f"unable to parse requirement: labelSelector {text!r} must be like app=web,tier in (a, b),!canary"
    )


def parse_fields(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    """Raises 400 if `text` is no field selector or names a field by which the resource cannot be selected."""
    known = resource.fields
    found: list[FieldTerm] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise bad_request(f"invalid field selector: {text!r} must be like metadata.name=x,status.phase!=Running")
        field = match["field"].strip()
        if field not in known:
            raise bad_request(f"field label not supported: {field}")
        value = re.sub(r"\\([\\,=])", r"\1", match["value"]).strip()
        found.append(FieldTerm(".".join(known[field]), value, match["op"] != "!="))
        position = match.end()
    return tuple(found)


def from_label_selector(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """A LabelSelector object (matchLabels, matchExpressions) as requirements; of an empty one, all objects match."""
    ops = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    exact = [Requirement(key, "in", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()]
    return (
        *exact,
        *(
            Requirement(each["key"], ops[each["operator"]], frozenset(each.get("values") or ()))
            for each in selector.get("matchExpressions") or ()
        ),
    )
