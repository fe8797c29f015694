"""The nodes that an extender is asked about, in order. Thousands of them are neither copied nor named before somebody
needs that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.model import SchedNode
from extender.embedded.kubescheduler.views import Survey


class Offer(Sequence[SchedNode]):
    """Nodes that were found feasible so far."""

    def __init__(self, infos: Sequence[NodeInfo]) -> None:
        self.infos = infos

    @property
    def names(self) -> Sequence[str]:
        """Do not change."""
        return [info.name for info in self.infos]

    def chosen(self, names: Iterable[str]) -> Offer:
        """Those of these names. Raises KeyError for one that is not offered."""
        known = {info.name: info for info in self.infos}
        return Offer([known[name] for name in names])

    def __len__(self) -> int:
        return len(self.infos)

    def __iter__(self) -> Iterator[SchedNode]:
        return (info.node for info in self.infos if info.node is not None)

    @overload
    def __getitem__(self, at: int) -> SchedNode: ...
    @overload
    def __getitem__(self, at: slice) -> list[SchedNode]: ...
    def __getitem__(self, at: int | slice) -> SchedNode | list[SchedNode]:
        return list(self)[at]


def offer_of(survey: Survey, start: int, wanted: int) -> SurveyOffer:
    """The feasible nodes of a survey. The same object as long as nothing has changed."""
    known = survey.offer
    if isinstance(known, SurveyOffer) and known.start == start and known.wanted == wanted:
        return known
    survey.offer = made = SurveyOffer(survey, start, wanted)
    return made


class SurveyOffer(Offer):
    """The feasible nodes of a survey, from one position on, around the end."""

    def __init__(self, survey: Survey, start: int, wanted: int) -> None:
        self._positions, self.looked_at = survey.walk(start, wanted)
        self.survey = survey
        self.start, self.wanted = start, wanted
        self._names: list[str] | None = None

    @property
    def infos(self) -> Sequence[NodeInfo]:  # type: ignore[override]
        infos = self.survey.order.infos
        return [infos[at] for at in self._positions]

    @property
    def names(self) -> Sequence[str]:
        if self._names is None:
            names = self.survey.order.names
            self._names = [names[at] for at in self._positions]
        return self._names

    @property
    def is_of_all(self) -> bool:
        """Whether every node was looked at."""
        return self.looked_at == len(self.survey.verdicts)

    def chosen(self, names: Iterable[str]) -> Offer:
        wanted = list(names)
        if len(wanted) == len(self) and wanted == self.names:
            return self
        return Offer([self._info(name) for name in wanted])

    def _info(self, name: str) -> NodeInfo:
        order, verdicts = self.survey.order, self.survey.verdicts
        at = order.position[name]
        if verdicts[at] is not None or (at - self.start) % len(verdicts) >= self.looked_at:
            raise KeyError(name)
        return order.infos[at]

    def __len__(self) -> int:
        return len(self._positions)
