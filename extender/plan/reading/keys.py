"""Which keys of labels, annotations and taints stay when names are replaced.

A key can name its company or a project (`acme.example/secret-project`), so it is a name like any other, unless
everybody knows it: those of Kubernetes, of its usual extensions and of Waggle, which algorithms read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The domains of keys that stay, with all their subdomains.
_KNOWN = (
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "waggle.dev",
    "hivedscheduler.microsoft.com",
    "nvidia.com",
    "volcano.sh",
    "knative.dev",
    "e2b.dev",
)
#: Keys without a domain that Kubernetes writes.
_PLAIN = frozenset(
    {"controller-revision-hash", "controller-uid", "job-name", "pod-template-generation", "pod-template-hash"}
)
#: Fields of settings, and of structured annotations, whose text is a key: topologyKey, node_label.
_FIELD = re.compile(r"(key|label|annotation)s?$", re.IGNORECASE)
#: Fields whose keys are those of labels or annotations.
_MAPPINGS = frozenset({"annotations", "labels", "matchLabels", "match_labels", "nodeSelector", "node_selector"})
#: Texts that are shorter, without a domain, may be any word.
_WORD = 12


class Keys:
    """The keys that were met so far: those that are `replaced`, and those that `stayed`. `named` stay, too."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self.named = frozenset(named)
        self.replaced: set[str] = set()
        self.stayed: set[str] = set()

    def stays(self, key: str) -> bool:
        """Note this key, and return whether it stays."""
        domain, slash, _ = key.partition("/")
        is_known = f".{domain}".endswith(tuple(f".{each}" for each in _KNOWN)) if slash else key in _PLAIN
        found = is_known or key in self.named
        (self.stayed if found else self.replaced).add(key)
        return found

    def is_certain(self, text: str) -> bool:
        """Whether a text is a key that is replaced, and no ordinary word."""
        return text in self.replaced and not _may_be_word(text)

    def is_word(self, text: str) -> bool:
        """Whether a text is a key that is replaced, and an ordinary word, which stands elsewhere, too."""
        return text in self.replaced and _may_be_word(text)

    def telling(self) -> set[str]:
        """Return the replaced keys that are no ordinary words, and their domains."""
        return {each for each in self.replaced if not _may_be_word(each)} | self.domains()

    def unused(self) -> list[str]:
        """Return the named keys that were not met."""
        return sorted(self.named - self.stayed)

    def domains(self) -> set[str]:
        """Return the domains of replaced keys, but those of which a named key stays."""
        return {each for key in self.replaced if (each := domain_of(key))} - set(map(domain_of, self.named))


def domain_of(key: str) -> str:
    """Return the part of a key before the slash; "" if it has none."""
    return key.rpartition("/")[0]


def _may_be_word(text: str) -> bool:
    return len(text) <= _WORD and not any(each in text for each in "/-.")


def holds_key(field: str) -> bool:
    """Return whether the text of a field of this name is a key."""
    return _FIELD.search(field) is not None


def has_keys(field: str) -> bool:
    """Return whether the keys in a field of this name are those of labels or annotations."""
    return field in _MAPPINGS
