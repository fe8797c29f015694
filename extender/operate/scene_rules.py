"""Rules about pools or sets of vpods: how one is registered, run and shown.

POOLS = Catalogue[Scene, LintedPool]("pool", "docs/pool-lint.md")

@POOLS.rule("WL711", "nothing-selected", Severity.ERROR, happens="...", mend="...")
def nothing_selected(scene: Scene, pool: LintedPool) -> Iterator[str]: ...
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from extender.logs.printable import printable
from extender.operate.document import Section
from extender.operate.rules import Severity

_PAGE_WIDTH = 120


class AnyScene(Protocol):
    """The input of rules. `objects`: by kind; None if they were not read. `missing_rights`: None: not checked."""

    objects: dict[str, list[Section]] | None
    missing_rights: dict[str, list[str]] | None


S = TypeVar("S", bound=AnyScene)
T = TypeVar("T")


@dataclass(frozen=True)
class SceneRule(Generic[S, T]):
    """One rule. `check` yields the findings in one subject, `check_all` those in the whole scene; one of them is set.

    `needs`: "objects", from a file or a cluster; "cluster", to ask for rights; or "", the configuration only.
    """

    code: str
    name: str
    severity: Severity
    happens: str
    mend: str
    page: str
    check: Callable[[S, T], Iterable[str]] | None = None
    check_all: Callable[[S], Iterable[str]] | None = None
    needs: str = "objects"

    @property
    def docs(self) -> str:
        """The address of the rule's section in the documentation."""
        return f"{self.page}#{self.code.lower()}-{self.name}"

    def can_be_asked(self, scene: S) -> bool:
        if self.needs == "cluster":
            return scene.missing_rights is not None
        return self.needs != "objects" or scene.objects is not None


@dataclass(frozen=True)
class SceneFinding:
    """A rule that a subject breaks. `subject`: "" if the finding concerns all of them."""

    rule: SceneRule[Any, Any]
    subject: str
    detail: str


@dataclass
class Catalogue(Generic[S, T]):
    """All rules about one kind of subject. `noun`: what it is called; `page`: the documentation's page."""

    noun: str
    page: str
    rules: dict[str, SceneRule[S, T]] = field(default_factory=dict)

    def rule(
        self, code: str, name: str, severity: Severity, *, happens: str, mend: str, needs: str = "objects"
    ) -> Callable[[Callable[[S, T], Iterable[str]]], Callable[[S, T], Iterable[str]]]:
        """Register a check of one subject."""

        def register(check: Callable[[S, T], Iterable[str]]) -> Callable[[S, T], Iterable[str]]:
            assert code not in self.rules, code
            self.rules[code] = SceneRule(code, name, severity, happens, mend, self.page, check=check, needs=needs)
            return check

        return register

    def rule_of_all(
        self, code: str, name: str, severity: Severity, *, happens: str, mend: str, needs: str = "objects"
    ) -> Callable[[Callable[[S], Iterable[str]]], Callable[[S], Iterable[str]]]:
        """Register a check of the whole scene."""

        def register(check: Callable[[S], Iterable[str]]) -> Callable[[S], Iterable[str]]:
            assert code not in self.rules, code
            self.rules[code] = SceneRule(code, name, severity, happens, mend, self.page, check_all=check, needs=needs)
            return check

        return register

    def lint(self, scene: S, subjects: Sequence[T], ignore: Iterable[str] = ()) -> list[SceneFinding]:
        """Return the findings of all rules except those in `ignore`, in the order of the rules, then of subjects."""
        skipped = frozenset(ignore)
        asked = (rule for code, rule in self.rules.items() if code not in skipped and rule.can_be_asked(scene))
        return [each for rule in asked for each in _findings(rule, scene, subjects)]

    # -- for people and for machines

    def as_text(self, scene: S, subjects: Sequence[T], findings: Sequence[SceneFinding], unseen: Iterable[str]) -> str:
        """Return the report as text. `unseen`: what was not checked."""
        blocks = [self._block(finding) for finding in findings]
        blocks.append(f"{len(subjects)} {self.noun}{'s' * (len(subjects) != 1)}: {self._summary(findings, scene)}")
        blocks.append("\n".join(["What was not checked:", *(f"  - {printable(text)}" for text in unseen)]))
        return "\n\n".join(blocks)

    def _block(self, finding: SceneFinding) -> str:
        rule = finding.rule
        return "\n".join(
            [
                f"{finding.subject or f'{self.noun}s'}: {rule.severity} {rule.code} {rule.name}: {finding.detail}",
                f"    what happens: {rule.happens}",
                f"    what to do:   {rule.mend}",
                f"    more:         {rule.docs}",
            ]
        )

    def _summary(self, findings: Sequence[SceneFinding], scene: S) -> str:
        if not findings:
            return f"nothing found by {sum(rule.can_be_asked(scene) for rule in self.rules.values())} rules"
        counts = {severity: sum(f.rule.severity is severity for f in findings) for severity in Severity}
        return ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items() if count)

    def as_json(self, subjects: Sequence[T], findings: Sequence[SceneFinding], unseen: Iterable[str]) -> str:
        """Return the report as a JSON object: the findings with their rules, and what was not checked."""
        entries = [
            {
                "code": finding.rule.code,
                "name": finding.rule.name,
                "severity": finding.rule.severity,
                self.noun: finding.subject,
                "what": finding.detail,
                "happens": finding.rule.happens,
                "mend": finding.rule.mend,
                "docs": finding.rule.docs,
            }
            for finding in findings
        ]
        whole = {f"{self.noun}s": list(map(str, subjects)), "findings": entries, "unseen": list(unseen)}
        return json.dumps(whole, indent=2)

    def as_markdown(self, examples: Mapping[str, str] | None = None) -> str:
        """Return every rule's section, with its example, as the page has it."""
        return "\n".join(_section(rule, (examples or {}).get(code, "")) for code, rule in sorted(self.rules.items()))


def to_mend(findings: Iterable[SceneFinding]) -> bool:
    """Whether any finding is an error or a warning."""
    return any(finding.rule.severity is not Severity.INFO for finding in findings)


def _findings(rule: SceneRule[S, T], scene: S, subjects: Sequence[T]) -> Iterator[SceneFinding]:
    if rule.check_all is not None:
        yield from (SceneFinding(rule, "", printable(text)) for text in rule.check_all(scene))
    if rule.check is not None:
        for subject in subjects:
            yield from (SceneFinding(rule, str(subject), printable(text)) for text in rule.check(scene, subject))


def _section(rule: SceneRule[Any, Any], example: str) -> str:
    happens = textwrap.fill(f"*{rule.severity.capitalize()}.* {rule.happens}", _PAGE_WIDTH, break_on_hyphens=False)
    mend = textwrap.fill(f"**Do:** {rule.mend}", _PAGE_WIDTH, break_on_hyphens=False)
    shown = f"\n```yaml\n{example.strip()}\n```\n" if example else ""
    return f"### {rule.code} {rule.name}\n\n{happens}\n\n{mend}\n{shown}"
