"""What pods ask for, from their requests and annotations."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.fgd.needs import Need, indexes_of, need_of, need_or_plain
from algorithm.interface import PodRefused
from algorithm.model import pairs
from tests.support.fgd.records import GPU, pod


def annotated(requested: int = 0, **annotations: str):
    made = pod("p", gpus=requested)
    written = {f"waggle.dev/gpu-{key}": value for key, value in annotations.items()}
    return msgspec.structs.replace(made, annotations=pairs(written))


@pytest.mark.parametrize(
    ("record", "milli", "gpus"),
    [
        (pod("p"), 0, 0),
        (pod("p", gpus=2), 1000, 2),
        (pod("p", milli=250), 250, 1),
        (annotated(milli="1000"), 1000, 1),
        (annotated(count="3"), 1000, 3),
        (annotated(count="3", milli="1000"), 1000, 3),
        (annotated(1, milli="400"), 400, 1),
        (annotated(2, count="2"), 1000, 2),
        (annotated(milli="0"), 0, 0),
    ],
)
def test_a_pod_asks_for_parts_or_for_whole_gpus(record, milli: int, gpus: int) -> None:
    assert need_of(record, GPU) == Need(1000, 0, milli, gpus)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (annotated(milli="half"), "waggle.dev/gpu-milli: expected a whole number from 0 to 1000, got 'half'"),
        (annotated(milli="1001"), "waggle.dev/gpu-milli: expected a whole number from 0 to 1000"),
        (annotated(milli="-1"), "waggle.dev/gpu-milli"),
        (annotated(milli="٣"), "waggle.dev/gpu-milli"),
        (annotated(2, milli="500"), "a part of a GPU is a part of one GPU, and 2 are requested"),
        (annotated(1, milli="0"), "expected 1 to 1000"),
        (annotated(2, count="3"), "waggle.dev/gpu-count says 3, and 2 nvidia.com/gpu are requested"),
        (annotated(1, model="x" * 5000), "waggle.dev/gpu-model: longer than 4096"),
    ],
)
def test_a_wrong_annotation_is_named(record, said: str) -> None:
    with pytest.raises(PodRefused) as refused:
        need_of(record, GPU)
    assert said in refused.value.reason.text
    assert need_or_plain(record, GPU).gpus == dict(record.requests).get(GPU, 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [("0,3", (0, 3)), ("3", None), ("0,0", None), ("0,x", None), ("", None), ("0,99999", None), (None, None)],
)
def test_the_gpus_of_a_binding(text: str | None, found: tuple[int, ...] | None) -> None:
    record = annotated(2) if text is None else annotated(2, index=text)
    assert indexes_of(record, need_of(record, GPU)) == found
    assert indexes_of(pod("p"), Need(1, 1)) == ()
