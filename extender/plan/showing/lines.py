"""The lines of a plan: rows that are alike are one line.

Rows of one workload (without one: of one gang) are alike if the same happens to them for the same reason, in the same
wave. So are lone objects of one kind and namespace, if there are many of them: their line names the first one.
`lines(plan, every=True)` has a line for each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from extender.ordering.records import GROUP
from extender.plan.records import Estimate, Plan, Row, Sign, Total

#: Nodes that a line names.
_NODES = 3
#: Up to how many lone objects that are alike have a line each. What runs has more of them, since its node differs.
_MOST_ALIKE = {Sign.WAITS: 3, Sign.EVICTED: 3}
_MOST_ALIKE_ELSE = 20
#: The order of the sections: what the reader has to act on comes last, next to the sums.
_ORDER = (Sign.STAYS, Sign.RUNS, Sign.MOVES, Sign.EVICTED, Sign.WAITS)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are alike. `subject` is what they belong to, or the object itself if the line is about one. If they
    belong to nothing, it is the first of them."""

    sign: Sign
    subject: str
    kind: str
    number: int
    wave: int
    #: Where they go, and where they were.
    where: str = ""
    before: str = ""
    code: str = ""
    text: str = ""
    fix: str = ""
    start: Estimate | None = None

    @property
    def count(self) -> str:
        """How many objects, in words; "" if the line is about one object itself."""
        if self.subject.startswith(f"{self.kind}/"):
            return f"and {self.number - 1} more like it" if self.number > 1 else ""
        return f"{self.number} {self.kind.lower()}{'s'[: self.number != 1]}"

    @property
    def place(self) -> str:
        """Where they go, or from where to where."""
        if not self.before or self.sign is Sign.RUNS:
            return self.where
        return f"{self.before} -> {self.where}" if self.where else self.before

    @property
    def why(self) -> str:
        """The reason: code and text; "" if there is none."""
        return ": ".join(filter(None, (self.code, self.text)))


def name_of(row: Row) -> str:
    """Return the object of a row as "Kind/namespace/name"."""
    return f"{row.kind}/{row.namespace}/{row.name}"


def group_of(row: Row) -> str:
    """Return the gang of a row as "Group/namespace/name", as dependencies name it; "" if it has none."""
    if not row.group or row.group.startswith(f"{GROUP}/"):
        return row.group
    return f"{GROUP}/{row.group}" if "/" in row.group else f"{GROUP}/{row.namespace}/{row.group}"


def subject_of(row: Row) -> str:
    """Return what a row is counted with: its workload, its gang, or itself."""
    return row.workload or group_of(row) or name_of(row)


def lines(plan: Plan, *, every: bool = False) -> list[Line]:
    """Return the lines: what runs, by wave; then what moves, what is evicted, and what waits."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for number, row in enumerate(plan.rows):
        alike.setdefault((number,) if every else _key(row), []).append(row)
    sizes = Counter(subject_of(row) for row in plan.rows)
    made = [_line(rows, _title(rows, sizes, every=every)) for found in alike.values() for rows in _split(found)]
    return sorted(made, key=lambda line: (_ORDER.index(line.sign), line.wave if line.sign is Sign.RUNS else 0))


def _key(row: Row) -> tuple[object, ...]:
    belongs_to = row.namespace if is_lone(row) else subject_of(row)
    return row.sign, row.kind, is_lone(row), belongs_to, row.code, row.text, row.fix, row.wave


def is_lone(row: Row) -> bool:
    """Whether an object belongs to no workload and to no gang."""
    return not row.workload and not row.group


def _split(rows: list[Row]) -> list[list[Row]]:
    """Return a list for each line: a few lone objects have lines of their own."""
    most = _MOST_ALIKE.get(rows[0].sign, _MOST_ALIKE_ELSE)
    return [[row] for row in rows] if is_lone(rows[0]) and len(rows) <= most else [rows]


def _title(rows: Sequence[Row], sizes: Mapping[str, int], *, every: bool) -> str:
    """Return what a line is about: the workload or gang, but the object itself if others of it fare otherwise."""
    subject = subject_of(rows[0])
    return name_of(rows[0]) if every or (len(rows) == 1 and sizes[subject] > 1) else subject


def _line(rows: Sequence[Row], subject: str) -> Line:
    first = rows[0]
    return Line(
        sign=first.sign,
        subject=subject,
        kind=first.kind,
        number=len(rows),
        wave=first.wave,
        where=_nodes(row.node for row in rows),
        before=_nodes(row.before for row in rows),
        code=first.code,
        text=first.text,
        fix=first.fix,
        start=_start(rows),
    )


def _nodes(names: Iterable[str]) -> str:
    """Return the nodes with how many go there, the first ones by name."""
    counts = Counter(filter(None, names))
    shown = [name if number == 1 else f"{name} ({number})" for name, number in counts.items()]
    more = len(shown) - _NODES
    return ", ".join(shown[:_NODES]) + (f" and {more} more node{'s'[: more != 1]}" if more > 0 else "")


def _start(rows: Iterable[Row]) -> Estimate | None:
    """Return when the first of them starts at the earliest, and the last of them at the latest."""
    known = [row.start for row in rows if row.start is not None]
    if not known:
        return None
    return Estimate(min(each.earliest for each in known), max(each.latest for each in known))


def sums(plan: Plan, *, stays: bool = True) -> Iterator[str]:
    """Yield the totals in words, which are right for one and for many: "8 will run", "1 will be evicted".

    `stays`: also what stays as it is.
    """
    total = plan.total
    for number, what in (
        (total.runs, "run"),
        (total.moves, "move"),
        (total.evicted, "be evicted"),
        (total.waits, "wait"),
        (total.stays if stays else 0, "stay"),
    ):
        if number:
            yield f"{number} will {what}"


def urgent_first(totals: Sequence[Total]) -> list[Total]:
    """Return the totals with those first in which something waits or is evicted; else their order stays."""
    return sorted(totals, key=lambda each: not (each.waits or each.evicted))


def made_with(plan: Plan) -> str:
    """Return what the plan was made of, as a sentence."""
    source = f" for {plan.source}" if plan.source else ""
    taken = f" as of {plan.taken}" if plan.taken else ""
    return f"Made with the algorithm {plan.algorithm}{source}{taken}." if plan.algorithm else ""


def seconds(value: float) -> str:
    """Return seconds as people say them: 40s, 10m, 2.5h, 3d."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("m", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}s"


def estimate(start: Estimate) -> str:
    """Return when something starts, in words."""
    low, high = seconds(start.earliest), seconds(start.latest)
    if low == high:
        return "starts now" if not start.latest else f"starts in {low}"
    return f"starts in {low} to {high}"
