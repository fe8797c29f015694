"""Which combinations the scenarios run on: API servers, versions of kube-scheduler, and what it sends."""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Entry(NamedTuple):
    """One entry of the matrix: which API server, which kube-scheduler, and whether it sends names or whole nodes."""

    name: str
    cluster: str = "real"
    scheduler: str = "kube-scheduler"
    names: bool = True


NEWEST = Entry("newest")
MATRIX = (
    NEWEST,
    Entry("whole-nodes", names=False),
    Entry("old-scheduler", scheduler="kube-scheduler-old"),
    Entry("embedded", cluster="embedded"),
)
#: The mark of modules that run once for each entry. Others run with the newest versions only.
every_entry = pytest.mark.parametrize("entry", MATRIX, ids=lambda entry: entry.name, indirect=True, scope="module")
