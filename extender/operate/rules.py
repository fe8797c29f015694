"""What a rule of `waggle lint` is, and the registry of all of them.

A rule is data and one small function that yields the places where it is broken:

    @rule("WL401", "ignorable", Severity.WARNING, happens="...", mend="...")
    def ignorable(config: Section) -> Iterator[At]: ...

The rules are in `rules_file`, `rules_scheduler`, `rules_connection` and `rules_extender`; `lint` imports and runs them
all. Those of `rules_waggle` (`waggle_rule`) also get Waggle's own settings, and run only if these are given. Each rule
has its section in docs/kube-scheduler-config.md, which a test holds against this registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from extender.operate.document import At, Section
from extender.settings import Settings

DOCS = "docs/kube-scheduler-config.md"


class Severity(StrEnum):
    """error: kube-scheduler does not start, or pods will not be placed as told; warning: it works, and hurts."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


Check = Callable[[Section], Iterable[At]]
CheckWithSettings = Callable[[Section, Settings], Iterable[At]]


@dataclass(frozen=True)
class Rule:
    """One trap. `refused`: kube-scheduler itself finds it, and does not start."""

    code: str
    name: str
    severity: Severity
    happens: str
    mend: str
    check: Check
    refused: bool = False
    #: In place of `check`, if the rule needs Waggle's own settings.
    check_with: CheckWithSettings | None = None

    @property
    def docs(self) -> str:
        """Where it is explained."""
        return f"{DOCS}#{self.code.lower()}-{self.name}"


REGISTRY: dict[str, Rule] = {}


def rule(
    code: str, name: str, severity: Severity, *, happens: str, mend: str, refused: bool = False
) -> Callable[[Check], Check]:
    """Registers the decorated check as a rule."""

    def register(check: Check) -> Check:
        assert code not in REGISTRY, code
        REGISTRY[code] = Rule(code, name, severity, happens, mend, check, refused)
        return check

    return register


def waggle_rule(
    code: str, name: str, severity: Severity, *, happens: str, mend: str
) -> Callable[[CheckWithSettings], CheckWithSettings]:
    """Registers the decorated check as a rule that needs Waggle's own settings."""

    def register(check: CheckWithSettings) -> CheckWithSettings:
        assert code not in REGISTRY, code
        REGISTRY[code] = Rule(code, name, severity, happens, mend, lambda _: (), check_with=check)
        return check

    return register
