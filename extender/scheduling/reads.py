"""Which fields of pods and nodes the algorithm and the server together read. Informers keep no others."""

from __future__ import annotations

from algorithm.reads import LONGEST_NAME, NATIVE, Reads
from extender.core.ordering_names import AFTER, GROUP_ANNOTATIONS
from extender.scheduling.policy import Policy
from extender.scheduling.writes.preemption_mark import ANNOTATION, LONGEST_RECORD

#: The annotation with the name of a pod's gang. The server only displays it; the algorithm decides what it means.
GANG_ANNOTATION = "waggle.dev/gang"


def reads_for(algorithm: Reads, policy: Policy) -> Reads:
    """The fields that the algorithm and the server together read."""
    wishes = None if algorithm.wishes is None else algorithm.wishes | {ANNOTATION, GANG_ANNOTATION}
    # Whether a pod declares dependencies; what they are is for start-up ordering to read.
    gangs = GROUP_ANNOTATIONS if policy.ordering else ()
    looked_for = frozenset({AFTER, policy.annotation, *gangs} - {""})
    # An algorithm that reads the gang's name by itself also says how long it may be.
    displayed = {} if GANG_ANNOTATION in (algorithm.wishes or ()) else {GANG_ANNOTATION: LONGEST_NAME}
    lengths = {**displayed, **algorithm.lengths, ANNOTATION: LONGEST_RECORD}
    resources = NATIVE | ({policy.resource} if policy.resource else frozenset[str]())
    return Reads(wishes, algorithm.decisions, looked_for, algorithm.claims, resources, algorithm.of_nodes, lengths)
