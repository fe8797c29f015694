"""Workloads as files: what is written is read again; what is no workload is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from algorithm.model import Node, Pod
from extender.lab.checking import LATEST, MOST_AMOUNT, MOST_JOBS, MOST_NODES, MOST_PODS_OF_JOB, check
from extender.lab.workload import CPU, GPU, LONGEST_NAME, Job, MachineNode, NodeChange, NodeFailure, Workload
from extender.lab.workload_file import File, WorkloadError, decode, encode, read

WORKLOAD = Workload(
    "both",
    (
        Job("a", 0.0, {GPU: 500}, 9.5, 2, gang=True, priority=3, tenant="x", gpu_models=("A100", "H100")),
        Job("b", 1.0, {CPU: 100}, templates=(Pod(namespace="x", name="b", annotations=(("k", "v"),)),)),
    ),
    (MachineNode("n0", {GPU: 8000}, "A100", {"rack": "1"}), MachineNode("n1", {}, record=Node(name="n1"))),
    (NodeFailure("n0", 5.0), NodeFailure("n1", 6.0, 7.0)),
    ("assumed something",),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    file.write_bytes(encode(WORKLOAD))
    assert read(file) == WORKLOAD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not a waggle-workload"),
        (b'{"jobs": []}', "missing required field `format`"),
        (b'{"format": "x"}', "format: expected waggle-workload, got 'x'"),
        (b'{"format": "waggle-workload", "version": 2}', "version: expected 1, got 2"),
        (b'{"format": "waggle-workload", "jobz": []}', "unknown field `jobz`"),
        (
            b'{"format": "waggle-workload", "jobs": [{"name": "a", "arrival": 0, "requests": {}, "second": 1}]}',
            r"unknown field `second` - at `\$.jobs\[0\]`",
        ),
        (b'{"format": "waggle-workload", "jobs": [{"name": "a"}]}', "missing required field `arrival`"),
        (
            b'{"format": "waggle-workload", "jobs": [{"name": "a", "arrival": "x", "requests": {}}]}',
            r"\$.jobs\[0\].arrival",
        ),
    ],
)
def test_what_is_no_workload_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        decode(text)


def test_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(encode(WORKLOAD)[:-20])
    with pytest.raises(WorkloadError, match="broken.json: not a waggle-workload"):
        read(file)


# -- the table of fields in docs/simulate.md -------------------------------------------------------------------------


def documented() -> dict[str, tuple[str, str]]:
    """Default and bounds of each field of the table: `job.pods`."""
    text = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text(encoding="utf-8")
    part = text.partition("## The format of a workload")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split(" | ")] for line in part.splitlines() if line.startswith("| `")]
    return {row[0].removeprefix("| ").strip("`"): (row[2], row[3]) for row in rows}


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """As the table writes it."""
    if field.required:
        return "required"
    if field.default is None:
        return "none"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{msgspec.json.encode(value).decode()}`"


def test_the_documentation_has_every_field_with_its_default() -> None:
    kinds = {"workload": File, "job": Job, "node": MachineNode, "failure": NodeFailure, "change": NodeChange}
    model = {
        f"{kind}.{field.encode_name}": default_of(field)
        for kind, struct in kinds.items()
        for field in msgspec.structs.fields(struct)
    }
    assert {name: default.partition(":")[0] for name, (default, _) in documented().items()} == model


@pytest.mark.parametrize(
    ("field", "most", "refused"),
    [
        ("workload.jobs", MOST_JOBS, None),
        ("workload.nodes", MOST_NODES, None),
        ("job.name", LONGEST_NAME, {"name": "x" * (LONGEST_NAME + 1)}),
        ("job.arrival", LATEST, {"arrival": LATEST * 2}),
        ("job.seconds", LATEST, {"seconds": -1.0}),
        ("job.pods", MOST_PODS_OF_JOB, {"pods": MOST_PODS_OF_JOB + 1}),
        ("job.priority", 2**31 - 1, {"priority": 2**31}),
        ("job.requests", MOST_AMOUNT, {"requests": {CPU: MOST_AMOUNT + 1}}),
        ("job.patience", LATEST, {"patience": -1.0}),
    ],
)
def test_the_documentation_has_the_bounds_that_are_checked(field: str, most: float, refused: dict | None) -> None:
    written = documented()[field][1]
    assert f"{most:,.0f}" in written, written
    if refused is not None:
        job = msgspec.structs.replace(Job("a", 0.0, {}), **refused)
        with pytest.raises(WorkloadError, match=field.partition(".")[2]):
            check(Workload("w", (job,), (MachineNode("n", {}),)))
