"""Workloads as files: what is written is read again; what is no workload is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from algorithm.model import Node, Pod
from extender.lab.workload import CPU, GPU, Job, MachineNode, NodeFailure, Workload
from extender.lab.workload_file import WorkloadError, decode, encode, read

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
