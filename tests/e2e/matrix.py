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
WHOLE_NODES = Entry("whole-nodes", names=False)
OLD_SCHEDULER = Entry("old-scheduler", scheduler="kube-scheduler-old")
EMBEDDED = Entry("embedded", cluster="embedded")


def _on(*entries: Entry) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: entry.name, indirect=True, scope="module")


#: Marks of modules that run once for each entry. Others run with the newest versions only.
every_entry = _on(NEWEST, WHOLE_NODES, OLD_SCHEDULER, EMBEDDED)
both_schedulers = _on(NEWEST, OLD_SCHEDULER)
