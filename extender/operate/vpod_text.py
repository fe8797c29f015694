"""The texts of `waggle vpods`: plain lines, the most important first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.operate.look_text import age, table

#: Pods and moves that are listed at most.
_PODS, _MOVES = 50, 20
#: The numbers of a plan that are shown before and after.
_NUMBERS = (
    ("replicas", "replicas"),
    ("usable pods", "usable"),
    ("vpods", "vpods"),
    ("vreplicas wanted", "expected"),
    ("placed", "placed"),
    ("pending", "pending"),
    ("free", "free"),
    ("spread (max - min)", "spread"),
    ("vpods that wait", "waiting"),
)


def sets_text(items: Sequence[Any]) -> str:
    """Return a table of all sets, one per line."""
    head = ("SET", "POLICY", "PODS", "VPODS", "PLACED", "FREE", "SPREAD", "WAITING", "STATE")
    rows = [
        (
            f"{each['namespace']}/{each['name']}",
            each["policy"],
            f"{each['sums']['usable']}/{each['sums']['replicas']}",
            str(each["sums"]["vpods"]),
            f"{each['sums']['placed']}/{each['sums']['expected']}",
            str(each["sums"]["free"]),
            str(each["sums"]["spread"]),
            str(each["sums"]["waiting"]),
            _state(each),
        )
        for each in items
    ]
    return table([head, *rows]) if rows else "There are no sets."


def _state(found: Any) -> str:
    parts = [
        f"scaling to {found['scaling_to']}" if found["scaling_to"] is not None else "",
        f"draining to {found['draining_to']}" if found["draining_to"] is not None else "",
        f"{found['moves']} being written" if found["moves"] else "",
        found["detail"],
    ]
    return "; ".join(filter(None, parts)) or "at rest"


def set_text(found: Any) -> str:
    """Return the text of one set: its numbers, its pods, what moves, and its vpods."""
    sums = found["sums"]
    head = (
        f"{found['namespace']}/{found['name']}: StatefulSet {found['stateful_set']}, {sums['usable']} of "
        f"{sums['replicas']} pods usable, {found['capacity']} vreplicas each, policy {found['policy']}"
    )
    numbers = (
        f"{sums['placed']} of {sums['expected']} vreplicas placed, {sums['pending']} pending, {sums['free']} free, "
        f"spread {sums['spread']}; {_state(found)}"
    )
    parts = [f"{head}\n{numbers}", _pods(found), _moves(found["vpods"]), _vpods(found)]
    return "\n\n".join(filter(None, parts))


def _pods(found: Any) -> str:
    head = ("POD", "ZONE", "NODE", "HELD", "FREE", "STATE")
    pods = found["pods"]
    rows = [
        (
            pod["name"],
            pod["zone"],
            pod["node"],
            str(pod["held"]),
            str(pod["free"]),
            pod["state"] + (f": {pod['why']}" if pod["why"] else ""),
        )
        for pod in pods[:_PODS]
    ]
    more = len(pods) - len(rows)
    text = table([head, *rows]) if rows else ""
    return f"{text}\nand {more} more pods" if more > 0 or found["next_pod"] is not None else text


def _moves(vpods: Sequence[Any]) -> str:
    moves = [(vpod, move) for vpod in vpods for move in vpod["moves"]]
    rows = [
        (_vpod(vpod), move["source"] or "(new)", move["target"] or "(given up)", str(move["vreplicas"]))
        for vpod, move in moves[:_MOVES]
    ]
    text = table([("MOVING", "FROM", "TO", "VREPLICAS"), *rows]) if rows else ""
    return f"{text}\nand {len(moves) - _MOVES} more moves" if len(moves) > _MOVES else text


def _vpods(found: Any) -> str:
    head = ("VPOD", "PLACED", "PODS", "WAITS", "REASON")
    rows = [
        (
            _vpod(each),
            f"{each['scheduled']}/{each['wanted']}",
            str(len(each["placements"])),
            age(each["waits_seconds"]) if each["waits_seconds"] is not None else "",
            f"{each['reason']}: {each['message']}" if each["message"] else each["reason"],
        )
        for each in found["vpods"]
    ]
    text = table([head, *rows]) if rows else "There are no such vpods."
    return f"{text}\nFor more: --after {found['next']}" if found["next"] else text


def _vpod(found: Any) -> str:
    name = f"{found['namespace']}/{found['name']}"
    return f"{found['source']}:{name}" if found["source"] else name


def plan_text(found: Any) -> str:
    """Return the text of a dry run: what would happen, in order, and who would wait."""
    parts = ["\n".join(_headline(found)), _before_and_after(found), _steps(found), _lacking(found), _ending(found)]
    return "\n\n".join(filter(None, parts))


def _headline(found: Any) -> Iterator[str]:
    moves = ", ".join(f"{number} {why}" for why, number in found["moves"].items())
    total = sum(found["moves"].values())
    yield (
        f"{found['namespace']}/{found['name']}: {total} vreplicas would move"
        + (f" ({moves})" if moves else "")
        + f", {found['grown']} would be new, {found['given_up']} given up; {age(found['seconds'])} until it is at rest"
    )


def _before_and_after(found: Any) -> str:
    before, after = found["before"], found["after"]
    rows = [
        (name, str(before[field]), str(after[field]), "" if before[field] == after[field] else "changes")
        for name, field in _NUMBERS
    ]
    return table([("", "NOW", "AFTER", ""), *rows])


def _steps(found: Any) -> str:
    rows = [_step(step) for step in found["steps"]]
    text = table([("AT", "WHAT", "FROM", "TO", "VREPLICAS", "WHY"), *rows]) if rows else ""
    more = found["steps_total"] - len(rows)
    return f"{text}\nand {more} more steps (--limit shows more)" if more > 0 else text


def _step(step: Any) -> tuple[str, ...]:
    at = f"{step['seconds']:g}s"
    due = ", due in any case" if step["due"] else ""
    if step["kind"] == "move":
        source, target = step["source"] or "(new)", step["target"] or "(given up)"
        return at, step["vpod"], source, target, str(step["vreplicas"]), step["why"] + due
    pods = ", ".join(step["pods"][:5]) + (", ..." if len(step["pods"]) > 5 else "")
    sign = "+" if step["after"] > step["before"] else "-"
    return at, "replicas", str(step["before"]), str(step["after"]), "", f"{sign} {pods}{due}"


def _lacking(found: Any) -> str:
    rows = [
        (each["vpod"], f"{each['pending']} of {each['wanted']}", f"{each['reason']}: {each['message']}")
        for each in found["waiting"]
    ]
    more = found["waiting_total"] - len(rows)
    text = table([("WOULD WAIT", "LACKS", "WHY"), *rows]) if rows else ""
    return f"{text}\nand {more} more" if more > 0 else text


def _ending(found: Any) -> str:
    if not found["complete"]:
        return "This was stopped before the set came to rest: more would happen. Nothing was changed."
    return "Nothing was changed."


def explanation_text(found: Any) -> str:
    """Return the text about one vpod: why it waits, what would help, the rules, and its pods."""
    waits = f", waits for {age(found['waits_seconds'])}" if found["waits_seconds"] is not None else ""
    head = (
        f"{found['vpod']} in {found['namespace']}/{found['name']}: {found['placed']} of {found['wanted']} vreplicas "
        f"placed{waits}. {found['reason']}" + (f": {found['message']}" if found["message"] else "")
    )
    helps = [f"  {each['text']}" for each in found["helps"]]
    if found["pending"] and not helps and found["reason"] == "NotEnoughRoom":  # else the reason says what to mend
        helps = ["  none of the changes that were tried" + ("" if found["complete"] else "; not everything was tried")]
    rules = [
        f"  {number}. {each['rule']}: {each['outcome']}" + ("" if each["kept"] else " (not kept)")
        for number, each in enumerate(found["rules"], 1)
    ]
    rows = [
        (each["pod"], each["zone"], str(each["vreplicas"]), str(each["others"]), each["why"])
        for each in found["pods"][:_PODS]
    ]
    pods = table([("POD", "ZONE", "HAS", "OTHERS", "WHY"), *rows]) if rows else ""
    more = len(found["pods"]) - len(rows)
    parts = [
        head,
        "\n".join(["It waits because", *(f"  {text}" for text in found["waits"])]) if found["waits"] else "",
        "\n".join(["What would help:", *helps]) if helps else "",
        "\n".join(["Rules, in order of precedence:", *rules]) if rules else "",
        f"{pods}\nand {more} more pods" if more > 0 else pods,
    ]
    return "\n\n".join(filter(None, parts))
