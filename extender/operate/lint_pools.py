"""`waggle lint pool`: finds misconfigured pools, from files or from the API server.

    findings = lint(scene)      in the order of the rules, then of the pools

A pool without findings may still be wrong: `unseen` says what was not checked.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.kube.client.api import ApiServer
from extender.logs.printable import printable
from extender.operate.pool_rules import POOL_RULES, PoolRule
from extender.operate.pool_scene import LintedPool, Scene
from extender.operate.rights import Right, allowed
from extender.operate.rules import Severity

_PAGE_WIDTH = 120


@dataclass(frozen=True)
class PoolFinding:
    """A rule that a pool breaks. `pool`: "" if the finding concerns all pools."""

    rule: PoolRule
    pool: str
    detail: str


def lint(scene: Scene, *, ignore: Iterable[str] = ()) -> list[PoolFinding]:
    """Return the findings of all rules except those whose codes are in `ignore`."""
    skipped = frozenset(ignore)
    return [each for code, rule in POOL_RULES.items() if code not in skipped for each in _findings(rule, scene)]


def _findings(rule: PoolRule, scene: Scene) -> Iterator[PoolFinding]:
    if not _can_be_asked(rule, scene):
        return
    if rule.check_all is not None:
        yield from (PoolFinding(rule, "", printable(text)) for text in rule.check_all(scene))
    if rule.check is not None:
        for pool in scene.pools:
            yield from (PoolFinding(rule, str(pool), printable(text)) for text in rule.check(scene, pool))


def _can_be_asked(rule: PoolRule, scene: Scene) -> bool:
    if rule.needs == "cluster":
        return scene.missing_rights is not None
    return rule.needs != "objects" or scene.objects is not None


def to_mend(findings: Iterable[PoolFinding]) -> bool:
    """Whether any finding is an error or a warning."""
    return any(finding.rule.severity is not Severity.INFO for finding in findings)


def rights_of_claims(namespace: str) -> list[Right]:
    """Return the rights that claims need for the pools of a namespace."""
    return [Right(verb, "pods", namespace=namespace) for verb in ("get", "list", "watch", "patch", "delete")]


def missing_rights(api: ApiServer, pools: Iterable[LintedPool]) -> Mapping[str, list[str]]:
    """What the account of `api` may not do, by the namespaces of pools. Raises as `rights.allowed` does."""
    found: dict[str, list[str]] = {}
    for namespace in sorted({pool.namespace for pool in pools}):
        found[namespace] = [str(right) for right in rights_of_claims(namespace) if not allowed(api, right)]
    return found


# -- for people and for machines ----------------------------------------------------------------------------------


def unseen(scene: Scene) -> list[str]:
    """Return what was not checked."""
    found = list(scene.unread)
    if scene.objects is None:
        found.append(
            "Workloads, budgets, autoscalers and policies: give them by --objects FILE, or read them by --cluster."
        )
    if scene.missing_rights is None:
        found.append("Waggle's rights: --cluster checks those of the account that it uses.")
    return [*found, "Whether the images of a pool's pods start, and how long that takes."]


def as_text(scene: Scene, findings: Sequence[PoolFinding]) -> str:
    """Return the report as text."""
    blocks = [_block(finding) for finding in findings]
    blocks.append(f"{len(scene.pools)} pool{'s' * (len(scene.pools) != 1)}: {_summary(findings, scene)}")
    blocks.append("\n".join(["What was not checked:", *(f"  - {printable(text)}" for text in unseen(scene))]))
    return "\n\n".join(blocks)


def _block(finding: PoolFinding) -> str:
    rule = finding.rule
    return "\n".join(
        [
            f"{finding.pool or 'pools'}: {rule.severity} {rule.code} {rule.name}: {finding.detail}",
            f"    what happens: {rule.happens}",
            f"    what to do:   {rule.mend}",
            f"    more:         {rule.docs}",
        ]
    )


def _summary(findings: Sequence[PoolFinding], scene: Scene) -> str:
    if not findings:
        return f"nothing found by {sum(_can_be_asked(rule, scene) for rule in POOL_RULES.values())} rules"
    counts = {severity: sum(f.rule.severity is severity for f in findings) for severity in Severity}
    return ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items() if count)


def as_json(scene: Scene, findings: Sequence[PoolFinding]) -> str:
    """Return the report as a JSON object: the findings with their rules, and what was not checked."""
    entries = [
        {
            "code": finding.rule.code,
            "name": finding.rule.name,
            "severity": finding.rule.severity,
            "pool": finding.pool,
            "what": finding.detail,
            "happens": finding.rule.happens,
            "mend": finding.rule.mend,
            "docs": finding.rule.docs,
        }
        for finding in findings
    ]
    return json.dumps({"pools": list(map(str, scene.pools)), "findings": entries, "unseen": unseen(scene)}, indent=2)


def as_markdown(examples: Mapping[str, str] | None = None) -> str:
    """Return every rule's section, with its example, as docs/pool-lint.md has it."""
    return "\n".join(_section(rule, (examples or {}).get(code, "")) for code, rule in sorted(POOL_RULES.items()))


def _section(rule: PoolRule, example: str) -> str:
    happens = textwrap.fill(f"*{rule.severity.capitalize()}.* {rule.happens}", _PAGE_WIDTH, break_on_hyphens=False)
    mend = textwrap.fill(f"**Do:** {rule.mend}", _PAGE_WIDTH, break_on_hyphens=False)
    shown = f"\n```yaml\n{example.strip()}\n```\n" if example else ""
    return f"### {rule.code} {rule.name}\n\n{happens}\n\n{mend}\n{shown}"
