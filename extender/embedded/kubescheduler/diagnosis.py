"""Why no node was left for a pod: what each in-tree filter and each extender said of which node.

With thousands of nodes this is most of what an attempt in vain would cost. So nothing is copied while the cycle runs:
the survey of the shape and the extenders' answers are kept as they are, and counted or spread out when somebody asks.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from extender.embedded.kubescheduler.cluster import NodeOrder
from extender.embedded.kubescheduler.events import EXTENDER
from extender.embedded.kubescheduler.filters import Refusal
from extender.embedded.kubescheduler.views import CountedAnswer, Survey


class Diagnosis:
    """Why no node was left. Nodes without a refusal were not looked at, or dropped by an extender without a word."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        #: What is said of nodes without a refusal; "" is nothing.
        self.absent = ""
        self._rejecters: set[str] = set()
        self._single: dict[str, Refusal] = {}
        self._survey: Survey | None = None
        self._start = self._looked_at = self._surveyed_refused = 0
        # What extenders said after the survey: refused, refused for good.
        self._answers: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
        self._spread: dict[str, Refusal] | None = None

    # -- what the cycle finds -----------------------------------------------------------------------------

    def rejected_by(self, plugin: str) -> None:
        self._rejecters.add(plugin)

    def refuse(self, node: str, refusal: Refusal) -> None:
        self._spread = None
        self._single[node] = refusal
        if refusal.plugin != EXTENDER:
            self._rejecters.add(refusal.plugin)

    def surveyed(self, survey: Survey, start: int, looked_at: int, found: int) -> None:
        """So many nodes from `start` on, around the end, were looked at. At most once, before extenders answer."""
        self._survey, self._start, self._looked_at = survey, start, looked_at
        self._surveyed_refused = looked_at - found
        self._spread = None
        for node in [node for node in self._single if self._survey_of(node) is not None]:
            del self._single[node]

    def _survey_of(self, node: str) -> Refusal | None:
        assert self._survey is not None
        at = self._survey.order.position.get(node)
        if at is None or (at - self._start) % len(self._survey.verdicts) >= self._looked_at:
            return None
        return self._survey.verdicts[at]

    def answered(self, failed: Mapping[str, str], unresolvable: Mapping[str, str]) -> None:
        """An extender said no to these nodes."""
        if self._survey is not None:
            self._spread = None
            self._answers.append((failed, unresolvable))
            return
        for node, refusal in _refusals(failed, unresolvable):
            self.refuse(node, refusal)

    def keep(self) -> None:
        """It will be asked after the attempt, too: the survey must stay as it is."""
        if self._survey is not None:
            self._survey.is_kept = True

    # -- what is asked ------------------------------------------------------------------------------------

    @property
    def rejecters(self) -> set[str]:
        """The plugins whose events can help."""
        if self._survey is None:
            return set(self._rejecters)
        return self._rejecters | {refusal.plugin for refusal in self._surveyed_tally()}

    @property
    def refused(self) -> int:
        """How many nodes were refused so far, before extenders answered about the survey."""
        return len(self._single) + self._surveyed_refused

    @property
    def refusals(self) -> Mapping[str, Refusal]:
        """By node; the last word on each. Costs time for each node: prefer `tally`."""
        if self._spread is None:
            spread = dict(self._single)
            if self._survey is not None:
                infos = self._survey.order.infos
                spread |= {infos[at].name: refusal for at, refusal in self._looked_at_refused()}
            for failed, unresolvable in self._answers:
                spread.update(_refusals(failed, unresolvable))
            self._spread = spread
        return self._spread

    def tally(self) -> Mapping[Refusal, int]:
        """How many nodes each refusal is the last word on."""
        if self._survey is None or not self._is_disjoint():
            return Counter(self.refusals.values())
        counts = Counter(self._surveyed_tally())
        counts.update(self._single.values())
        for failed, _ in self._answers:
            counts.update(self._counted(failed).tally)
        return counts

    def text(self) -> str:
        return fit_error(self.nodes, self.tally(), self.absent)

    def resolvable(self, order: NodeOrder) -> Sequence[int]:
        """Positions of the nodes on which evicting pods could help, in order."""
        if self._survey is None or self._survey.order is not order or not self._is_disjoint() or self._single:
            refusals = self.refusals
            found = [(at, refusals.get(info.name)) for at, info in enumerate(order.infos)]
            return [at for at, refusal in found if refusal is not None and refusal.resolvable]
        positions = self._survey.within(self._survey.resolvable, self._start, self._looked_at)
        for failed, _ in self._answers:
            answered = self._counted(failed).positions
            positions = sorted([*positions, *answered]) if positions else answered
        return positions

    def _counted(self, failed: Mapping[str, str]) -> CountedAnswer:
        """An extender that refuses the same nodes to pods of the same shape gives the same mapping again."""
        assert self._survey is not None
        known = self._survey.answer
        if known is None or known.failed is not failed:
            known = self._survey.answer = CountedAnswer(failed, self._survey)
        return known

    def _is_disjoint(self) -> bool:
        """Whether no node has two refusals, so that they can be counted one by one."""
        if not self._answers:
            return True
        failed, unresolvable = self._answers[0]
        if len(self._answers) > 1 or unresolvable or self._single:
            return False
        assert self._survey is not None
        if not self._survey.tally:
            return True
        verdicts = self._survey.verdicts
        return all(verdicts[at] is None for at in self._counted(failed).positions)

    def _looked_at_refused(self) -> Iterable[tuple[int, Refusal]]:
        assert self._survey is not None
        verdicts = self._survey.verdicts
        every = array("i", range(len(verdicts)))
        for at in self._survey.within(every, self._start, self._looked_at):
            refusal = verdicts[at]
            if refusal is not None:
                yield at, refusal

    def _surveyed_tally(self) -> Mapping[Refusal, int]:
        assert self._survey is not None
        if self._looked_at == len(self._survey.verdicts):
            return self._survey.tally
        return Counter(refusal for _, refusal in self._looked_at_refused())


def _refusals(failed: Mapping[str, str], unresolvable: Mapping[str, str]) -> Iterable[tuple[str, Refusal]]:
    for node, text in unresolvable.items():
        yield node, Refusal(EXTENDER, (text,))
    for node, text in failed.items():
        if node not in unresolvable:
            yield node, Refusal(EXTENDER, (text,), resolvable=True)


def fit_error(nodes: int, refusals: Mapping[Refusal, int], absent: str = "") -> str:
    """ "0/4 nodes are available: 1 dead, 2 busy.": equal texts are counted, and sorted as texts."""
    counts: dict[str, int] = {}
    known = 0
    for refusal, number in refusals.items():
        known += number
        for text in refusal.reasons:
            counts[text] = counts.get(text, 0) + number
    if absent and known < nodes:
        counts[absent] = counts.get(absent, 0) + nodes - known
    found = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"0/{nodes} nodes are available:" + (f" {found}." if found else "")
