"""Plans made by hand."""

from __future__ import annotations

from typing import Any

from extender.plan.records import Plan, Row, Sign, Total

#: What a stranger may write where a name or a text is expected.
HOSTILE = "<script>alert(1)</script> \x1b[31m`|\"' @octocat #1 [x](http://evil.example) \u202e ]]> &lt; \n\\n"


def row(name: str, sign: Sign = Sign.RUNS, **fields: Any) -> Row:
    return Row(sign=sign, kind="Pod", namespace="default", name=name, **fields)


def gang(name: str, size: int, sign: Sign = Sign.RUNS, **fields: Any) -> list[Row]:
    """The pods of one Job; they go to two nodes if they run."""
    return [
        row(
            f"{name}-{number}",
            sign,
            workload=f"Job/default/{name}",
            group=name,
            node=f"gpu-{number % 2}" if sign is Sign.RUNS else "",
            **fields,
        )
        for number in range(size)
    ]


def plan(rows: list[Row], **fields: Any) -> Plan:
    """A plan with these rows, and sums that fit them."""
    signs = [each.sign for each in rows]
    total = Total(
        name="",
        runs=signs.count(Sign.RUNS),
        moves=signs.count(Sign.MOVES),
        evicted=signs.count(Sign.EVICTED),
        waits=signs.count(Sign.WAITS),
    )
    waves = max((each.wave for each in rows), default=-1) + 1
    return Plan(**{"rows": tuple(rows), "total": total, "waves": waves, "fingerprint": "f00d", **fields})


WAITS: dict[str, Any] = {
    "code": "GangDoesNotFit",
    "text": "gang default/big does not fit as a whole: needs 4 nodes",
    "fix": "would fit if 2 GPUs on rack r3 ended: train-7",
}


def mixed() -> Plan:
    """What runs, moves, is evicted and waits."""
    return plan(
        [
            *gang("big", 4, Sign.WAITS, **WAITS),
            *gang("train", 3),
            row("late", wave=1, node="cpu-1", after=("Job/default/train",)),
            row("web", Sign.MOVES, before="gpu-1", node="cpu-1"),
            row("filler", Sign.EVICTED, before="gpu-1", code="Preempted", text="evicted for default/train-0"),
        ],
        edges=(("Pod/default/late", "Job/default/train", "Ready"), ("Pod/default/late", "Job/default/old", "Complete")),
        groups=(Total(name="train", runs=3), Total(name="big", waits=4)),
        critical_path=("Job/default/train", "Pod/default/late"),
        unknown=("ConfigMap/default/settings (a.yaml, document 2)",),
        warnings=("a CronJob is suspended",),
    )
