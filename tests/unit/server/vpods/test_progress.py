"""How long vpods wait, and how many vreplicas move, from what the API server shows."""

from __future__ import annotations

from extender.server.vpods.progress import Progress
from extender.vpods.records import ObjectKey, VPodKey, VPodRecord

KEY = VPodKey("ns", "a")


def record(wanted: int, *, deleting: bool = False, uid: str = "u", **placements: int) -> VPodRecord:
    return VPodRecord(
        key=KEY,
        uid=uid,
        version="1",
        set=ObjectKey("ns", "fleet"),
        wanted=wanted,
        placements=tuple(placements.items()),
        deleting=deleting,
    )


class Measured:
    def __init__(self) -> None:
        self.now = 0.0
        self.progress = Progress(lambda: self.now)

    def see(self, *records: VPodRecord, seconds: float = 1.0) -> None:
        before = None
        for each in records:
            self.progress.seen(before, each)
            before = each
            self.now += seconds

    @property
    def schedule(self) -> tuple[float, float]:
        """Number and sum of the histogram."""
        histogram = self.progress.metrics()[0]
        return histogram.samples[-1][1], histogram.sums[0][1]

    @property
    def moves(self) -> float:
        return self.progress.metrics()[1].samples[0][1]


def test_the_time_runs_from_the_wish_to_its_fulfilment() -> None:
    m = Measured()
    m.see(record(2), record(2, p0=1), record(2, p0=1, p1=1))
    assert m.schedule == (1, 2.0)


def test_a_vpod_that_has_what_it_wants_is_not_measured() -> None:
    m = Measured()
    m.see(record(1, p0=1), record(1, p1=1))
    assert m.schedule == (0, 0.0)


def test_a_vpod_that_goes_is_not_measured() -> None:
    m = Measured()
    m.see(record(2), record(0, deleting=True))
    assert m.schedule == (0, 0.0)
    m.progress.gone(KEY)


def test_moves_are_what_left_a_pod_for_another() -> None:
    m = Measured()
    m.see(record(4, p0=4), record(4, p0=2, p1=2), record(6, p0=2, p1=2, p2=2), record(4, p1=2, p2=2))
    assert m.moves == 2


def test_another_object_of_the_same_name_has_not_moved() -> None:
    m = Measured()
    m.see(record(1, p0=1), record(1, uid="other", p1=1))
    assert m.moves == 0
