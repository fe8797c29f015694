"""All checks of the conformance kit, by their stable names: each with the promise, and the algorithms that make it.

The names are an interface: reports, `skip`, `--only` and ids of tests have them. A check is never renamed; one that is
no longer true is removed together with the version of the contract that had it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from algorithm.suggest import near

#: The groups of checks, in the order in which they are listed.
DECISIONS, CHANGES, COPIES, VIEWS, PROCESS, PLUGIN = "decisions", "changes", "copies", "views", "process", "plug-in"


class Check(NamedTuple):
    """One promise. `ability`: the optional method without which it does not count; "": all algorithms make it."""

    name: str
    group: str
    promise: str
    ability: str = ""


CHECKS = (
    Check(
        "answers-well-formed", DECISIONS, "`schedule` returns a Bind, Preempt or Wait whose fields have their types."
    ),
    Check(
        "only-offered-nodes",
        DECISIONS,
        "A Bind's node exists. Except as `unoffered` says, it was offered, as was a plan's; "
        "a victim's, too, unless it is in a gang. In FILTERING, accepted plans stay.",
    ),
    Check(
        "victims-run-with-lower-priority",
        DECISIONS,
        "Each victim is allocated on the node that is named, once, with a lower priority than the preemptor.",
    ),
    Check(
        "preemption-policy-obeyed",
        DECISIONS,
        "In no phase are there victims for a pod whose `may_preempt` is false, nor for such a member of its gang.",
    ),
    Check(
        "plans-name-waiting-pods",
        DECISIONS,
        "Only in the phase EVICTING, `gang_members` are other pods that wait, each named once.",
    ),
    Check(
        "protected-pods-spared",
        DECISIONS,
        "In EVICTING, no pod of `set_protected_pods` is a victim.",
        "set_protected_pods",
    ),
    Check(
        "protected-plans-said",
        DECISIONS,
        "In EVICTING, a pod waits with VICTIM_PROTECTED if, and only if, protected pods alone forbid every plan.",
        "set_protected_pods",
    ),
    Check(
        "lingering-pods-spared",
        DECISIONS,
        "In no phase is a pod of `set_lingering_pods` a victim.",
        "set_lingering_pods",
    ),
    Check(
        "schedule-leaves-no-trace",
        DECISIONS,
        "`schedule` changes no later answer, page or number, also if it refuses the pod.",
    ),
    Check(
        "same-question-same-answer",
        DECISIONS,
        "While nothing changes, the same question gets the same answer, in this and in another instance.",
    ),
    Check(
        "callers-record-decides",
        DECISIONS,
        "`schedule` decides by the record that it gets, also if an older record of the pod was reported.",
    ),
    Check("node-order-decides-nothing", DECISIONS, "The order in which nodes are offered does not matter."),
    Check(
        "reasons-do-not-move",
        DECISIONS,
        "The text of a reason has no address, time, free amount or counter. `Wait.nodes` is not changed afterwards.",
    ),
    Check("incomplete-gangs-have-names", DECISIONS, "A pod that waits with GANG_INCOMPLETE has a gang with a name."),
    Check("set-time-decides-nothing", DECISIONS, "`set_time` changes no answer.", "set_time"),
    Check("changes-do-not-raise", CHANGES, "A change that is reported as the contract says does not raise."),
    Check(
        "questions-raise-only-refusals",
        CHANGES,
        "`schedule` raises nothing but PodRefused, with a reason that has a text.",
    ),
    Check(
        "unknown-nodes-accepted", CHANGES, "A pod may be allocated on a node that is not known yet, or not any more."
    ),
    Check(
        "exception-changes-nothing",
        CHANGES,
        "A method that raises leaves the state as it was, one that returns has made the change: "
        "tried with records that raise while they are read.",
    ),
    Check(
        "everything-given-back",
        CHANGES,
        "When all pods are gone, no room is taken, and no page names them or a deleted node any more.",
    ),
    Check(
        "recovery-in-any-order", CHANGES, "After a restart, the order in which pods and nodes are told does not matter."
    ),
    Check(
        "recovery-keeps-decisions",
        CHANGES,
        "After a restart, every question has the same answer as before (unless the world declares its `history`).",
    ),
    Check(
        "preemptors-room-kept",
        CHANGES,
        "Once a Preempt is accepted, no pod of the same or a lower priority gets the room of its victims.",
    ),
    Check("instances-independent", CHANGES, "What one instance is told changes no other instance."),
    Check("reserved-pods-wait", CHANGES, "`reserved_pods` is a frozenset of UIDs of waiting pods.", "reserved_pods"),
    Check(
        "lapsed-pods-not-reserved",
        CHANGES,
        "A pod of `set_lapsed_pods` is not among `reserved_pods`, and no room is kept for it.",
        "set_lapsed_pods",
    ),
    Check("fork-equal", COPIES, "A fork answers every question as its original does.", "fork"),
    Check(
        "fork-independent", COPIES, "What a fork is told does not change its original, nor the other way round.", "fork"
    ),
    Check(
        "forks-copy-a-moment",
        COPIES,
        "`forks` yields one function, whose copy is equal to the algorithm as it was when the function was yielded.",
        "fork",
    ),
    Check("questions-change-nothing", VIEWS, "Pages, explanations, numbers, scores and copies leave no trace."),
    Check("metrics-sound", VIEWS, "`metrics` returns gauges that obey the rules of `algorithm.gauges`.", "metrics"),
    Check("inspect-sound", VIEWS, "`inspect` returns data that is JSON, the same while nothing changes.", "inspect"),
    Check(
        "explain-sound", VIEWS, "`explain` yields a bounded number of texts, the same while nothing changes.", "explain"
    ),
    Check(
        "page-sound",
        VIEWS,
        "`page` returns JSON, or its pieces, or raises PageNotFound or InvalidArgument; whatever the path.",
        "page",
    ),
    Check("changes-to-sound", VIEWS, "`changes_to` returns texts, none for an equal algorithm.", "changes_to"),
    Check(
        "describe-sound", VIEWS, "`describe` returns a PodDescription that does not change for a record.", "describe"
    ),
    Check("gang-sound", VIEWS, "`gang` returns a GangInfo or None, for any pod.", "gang"),
    Check("unoffered-sound", VIEWS, "`unoffered` returns an Unoffered, for any pod.", "unoffered"),
    Check("priority-sound", VIEWS, "`priority` and `current_priority` return whole numbers, for any pod."),
    Check(
        "prioritize-sound", VIEWS, "`prioritize` returns whole numbers from 0 to 10, of offered nodes.", "prioritize"
    ),
    Check("calls-return", PROCESS, "Every call returns within the time limit."),
    Check("process-survives", PROCESS, "No call ends the process."),
    Check("memory-limited", PROCESS, "No call makes the process take more than the memory limit."),
    Check("prints-nothing", PROCESS, "No call writes to standard output or standard error."),
    Check("opens-no-files", PROCESS, "No call opens, lists or changes files."),
    Check("opens-no-sockets", PROCESS, "No call uses the network."),
    Check("starts-no-threads", PROCESS, "No call starts a thread or a process."),
    Check("reads-no-environment", PROCESS, "No call reads environment variables."),
    Check("reads-no-clock", PROCESS, "No call reads a clock of the module `time`."),
    Check("uses-no-random-numbers", PROCESS, "No call draws unseeded random numbers."),
    Check(
        "plugin-well-formed", PLUGIN, "The fields of the Plugin are consistent, and it is for this contract version."
    ),
    Check("abilities-as-declared", PLUGIN, "The optional methods are those that were declared, if any were."),
    Check("settings-accepted", PLUGIN, "The settings are valid, defaults included, and make an algorithm."),
    Check(
        "settings-errors-name-fields", PLUGIN, "A wrong or misspelt setting is refused, and the error names the field."
    ),
    Check("settings-file-parsed", PLUGIN, "`parse` raises nothing but ValueError, whatever the text.", "parse"),
    Check(
        "annotations-declared",
        PLUGIN,
        "Annotations of pods and nodes that the plug-in does not declare decide nothing.",
    ),
    Check("hash-seeds-decide-alike", PLUGIN, "Processes with different hash seeds decide alike."),
    Check(
        "lives-are-independent",
        PLUGIN,
        "What an algorithm leaves in its process (in a global, in a class) decides nothing for the next one.",
    ),
    Check(
        "decides-in-time", PLUGIN, "A decision takes no more than a multiple of what `packing` takes in the same world."
    ),
)

BY_NAME = {check.name: check for check in CHECKS}

#: The optional methods, as they are declared.
ABILITIES = (
    "update_allocated_pod",
    "add_preempting_pod",
    "delete_preempting_pod",
    "set_protected_pods",
    "set_lingering_pods",
    "set_time",
    "reserved_pods",
    "set_lapsed_pods",
    "gang",
    "priority",
    "unoffered",
    "prioritize",
    "inspect",
    "metrics",
    "explain",
    "describe",
    "current_priority",
    "page",
    "changes_to",
    "fork",
    "forks",
    "parse",
)


class UnknownCheckError(ValueError):
    """There is no such check; the message says which one was probably meant."""


def chosen(only: Iterable[str] = ()) -> tuple[Check, ...]:
    """The checks of these names, all if there is none, in the order of the catalogue. Raises UnknownCheckError."""
    names = set(only)
    known(names)
    return tuple(check for check in CHECKS if not names or check.name in names)


def known(names: Iterable[str]) -> None:
    """Raise UnknownCheckError if one of these is no name of a check."""
    for name in sorted(names):
        if name not in BY_NAME:
            raise UnknownCheckError(f"there is no check {name!r}{near(name, BY_NAME)}")
