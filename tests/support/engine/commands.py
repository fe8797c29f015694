"""The commands of the engine of pods, as the server has its committer carry them out."""

from __future__ import annotations

from extender.core.commands import CommandSet
from extender.kube.informers.podreader import PodReader
from extender.scheduling.commands import Report, pod_commands


def commands() -> CommandSet[Report]:
    return pod_commands(PodReader().live)
