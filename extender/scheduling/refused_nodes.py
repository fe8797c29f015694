"""What kube-scheduler is told about each node that a filter refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from algorithm.reasons import Reason


def refusal_texts(
    reasons: Mapping[str, Reason], names: Iterable[str], shared: Reason
) -> tuple[dict[str, str], dict[str, str]]:
    """Map every refused name to its text: the nodes where preemption could help, and those where it could not."""
    # Few reasons stand for many nodes: their texts are made once.
    why_of = reasons.get
    texts = {why: why.text for why in {shared, *reasons.values()}}
    by_node = {name: texts[why_of(name, shared)] for name in names}
    if all(why.preemptible for why in texts):
        return by_node, {}
    failed = {name: text for name, text in by_node.items() if why_of(name, shared).preemptible}
    return failed, {name: text for name, text in by_node.items() if name not in failed}
