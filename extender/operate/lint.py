"""Finds the traps in a KubeSchedulerConfiguration: every rule is asked, and what it finds is put to its line.

    findings = lint(read(text))        in the order of the file

A file that this finds nothing in is not proven right: `UNSEEN` says what no look at the file can tell.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from extender.logs.printable import printable
from extender.operate import (  # noqa: F401 - registers them
    rules_connection,
    rules_extender,
    rules_file,
    rules_scheduler,
    rules_waggle,
)
from extender.operate.document import At, Document, Path, Section
from extender.operate.rules import REGISTRY, Rule, Severity
from extender.settings import Settings

_PAGE_WIDTH = 120
#: What the file does not tell.
UNSEEN = (
    "kube-scheduler reads extenders only at its start: has it been restarted since the file was changed?",
    "Certificates: do the files exist where kube-scheduler runs, fit each other, and are they still valid? A "
    "missing file stops kube-scheduler; one that does not fit makes every call fail.",
    "Flags and feature gates of kube-scheduler, which override or change what is here; proxy variables (HTTP_PROXY, "
    "HTTPS_PROXY) in its environment, through which it would call Waggle.",
    "Whether the host in urlPrefix resolves there: a static pod uses the node's DNS, which does not know Services.",
    "Any extender at all switches off opportunistic batching (1.35 and later), and pods that it refused are tried "
    "again at almost every event.",
)
#: What it does not tell if Waggle's own configuration is not given.
UNSEEN_WITHOUT_CONFIG = (
    "Whether Waggle's own configuration agrees with it: the same pods, port, TLS and time-outs. Name it: "
    "--config waggle.yaml.",
)


@dataclass(frozen=True)
class Finding:
    """A rule that is broken, and where. `line` counts from 1."""

    rule: Rule
    path: Path
    line: int
    value: Any
    detail: str

    @property
    def field(self) -> str:
        """The path as people write it: extenders[0].urlPrefix."""
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return text.removeprefix(".")


#: These explain the same field better than WL105 does.
_CATCH_ALL = "WL105"
_NOT_A_CONFIGURATION = ("WL102", "WL103")


def lint(document: Document, settings: Settings | None = None, *, ignore: Iterable[str] = ()) -> list[Finding]:
    """Everything that the rules find, in the order of the file, but for the rules whose codes are to be ignored.

    `settings` are Waggle's own: with them, the rules that hold both against each other are asked, too.
    """
    found = [
        _finding(document, rule, at.path, at.detail)
        for rule in _rules(document)
        for at in _places(rule, document.root, settings)
    ]
    explained = {finding.path for finding in found if finding.rule.refused and finding.rule.code != _CATCH_ALL}
    kept = [finding for finding in found if finding.rule.code != _CATCH_ALL or not _touches(finding.path, explained)]
    if document.others:
        kept.append(_finding(document, REGISTRY["WL106"], (), f"{document.others} more"))
    skipped = frozenset(ignore)
    return sorted((f for f in kept if f.rule.code not in skipped), key=lambda f: (f.line, f.rule.code))


def _places(rule: Rule, config: Section, settings: Settings | None) -> Iterable[At]:
    if rule.check_with is None:
        return rule.check(config)
    return () if settings is None else rule.check_with(config, settings)


def to_mend(findings: Iterable[Finding]) -> bool:
    """Whether there is anything worse than a remark."""
    return any(finding.rule.severity is not Severity.INFO for finding in findings)


def _rules(document: Document) -> list[Rule]:
    """All of them, or only the one that says that this is another kind of file."""
    for code in _NOT_A_CONFIGURATION:
        if any(True for _ in REGISTRY[code].check(document.root)):
            return [REGISTRY[code]]
    return list(REGISTRY.values())


def _touches(path: Path, explained: set[Path]) -> bool:
    """Whether one of the explained fields is at, in or around `path`."""
    return any(other[: len(path)] == path or path[: len(other)] == other for other in explained)


def _finding(document: Document, rule: Rule, path: Path, detail: str) -> Finding:
    return Finding(rule, path, document.line(path), document.value(path), detail)


# -- for people and for machines ----------------------------------------------------------------------------------


def unseen(*, with_config: bool) -> tuple[str, ...]:
    """What the file does not tell."""
    return UNSEEN if with_config else (*UNSEEN_WITHOUT_CONFIG, *UNSEEN)


def as_text(file: str, findings: Sequence[Finding], *, with_config: bool = False) -> str:
    """For people and for editors, which know `file:line:`. `with_config`: Waggle's own was held against it."""
    blocks = [_block(file, finding) for finding in findings]
    blocks.append(f"{file}: {_summary(findings, with_config)}")
    blocks.append(
        "\n".join(["What the file does not tell:", *(f"  - {text}" for text in unseen(with_config=with_config))])
    )
    return "\n\n".join(blocks)


def _block(file: str, finding: Finding) -> str:
    rule = finding.rule
    return "\n".join(
        [
            f"{file}:{finding.line}: {rule.severity} {rule.code} {rule.name}: {what(finding)}",
            f"    what happens: {rule.happens}",
            f"    what to do:   {rule.mend}",
            f"    more:         {rule.docs}",
        ]
    )


def what(finding: Finding) -> str:
    """The field with its value if that is short, and the detail."""
    if finding.value is None:
        shown = f"{finding.field} is not set"
    elif isinstance(finding.value, str | int | float):
        shown = f"{finding.field} is {json.dumps(finding.value)}"
    else:
        shown = finding.field
    return printable("; ".join(text for text in (shown if finding.path else "", finding.detail) if text))


def _summary(findings: Sequence[Finding], with_config: bool) -> str:
    if not findings:
        asked = sum(with_config or rule.check_with is None for rule in REGISTRY.values())
        return f"nothing found by {asked} rules"
    counts = {severity: sum(f.rule.severity is severity for f in findings) for severity in Severity}
    return ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items() if count)


def as_json(file: str, findings: Sequence[Finding], *, with_config: bool = False) -> str:
    """One object: the findings with everything about their rules, and what the file does not tell."""
    entries = [_entry(finding) for finding in findings]
    return json.dumps({"file": file, "findings": entries, "unseen": unseen(with_config=with_config)}, indent=2)


def _entry(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "line": finding.line,
        "field": finding.field,
        "what": what(finding),
        "happens": rule.happens,
        "mend": rule.mend,
        "docs": rule.docs,
    }


def as_markdown() -> str:
    """Every rule with its section, as docs/kube-scheduler-config.md has it."""
    return "\n".join(_section(rule) for _, rule in sorted(REGISTRY.items()))


def _section(rule: Rule) -> str:
    happens = textwrap.fill(f"*{rule.severity.capitalize()}.* {rule.happens}", _PAGE_WIDTH, break_on_hyphens=False)
    mend = textwrap.fill(f"**Do:** {rule.mend}", _PAGE_WIDTH, break_on_hyphens=False)
    return f"### {rule.code} {rule.name}\n\n{happens}\n\n{mend}\n"
