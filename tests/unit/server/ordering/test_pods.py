"""What the engine of pods, and people, are told of start-up ordering."""

from __future__ import annotations

from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.core.ordering_names import AFTER
from extender.kube.informers.reflector import Change, ChangeKind
from extender.ordering.events import Forget, HoldBack, LetGo, TellPod
from extender.ordering.records import PodKey
from extender.scheduling.events import DependenciesChanged, DependenciesForgotten
from extender.scheduling.writes.event import RecordEvent
from extender.server.ignored_dependencies import IgnoredDependencies
from extender.server.ordering.pods import PodTeller, ToldPods

KEY, WAITS = PodKey("default", "b"), reason(Code.WAITS_FOR_DEPENDENCY, dependencies="Job/default/a")


def test_the_engine_of_pods_hears_in_its_own_words() -> None:
    told: list[ToldPods] = []
    teller = PodTeller(told.append, lambda _: None)
    teller.judged(HoldBack(KEY, "u", WAITS, 7))
    teller.judged(LetGo(KEY, "u", 8))
    teller.over(Forget("u"))
    assert told == [
        DependenciesChanged("u", WAITS, 7),
        DependenciesChanged("u", None, 8),
        DependenciesForgotten("u"),
    ]


def test_without_an_engine_of_pods_nobody_is_told() -> None:
    teller = PodTeller(None, lambda _: None)
    teller.judged(LetGo(KEY, "u"))
    teller.over(Forget("u"))


def test_people_are_told_by_an_event() -> None:
    written: list[RecordEvent] = []
    PodTeller(None, written.append).tell(TellPod(key=KEY, uid="u", reason=WAITS, is_warning=True, term=3))
    assert written == [RecordEvent("default", "b", "u", WAITS, True, 3)]


def test_pods_whose_dependencies_have_no_effect_are_counted_once() -> None:
    ignored = IgnoredDependencies()
    declares = Pod(namespace="default", name="b", uid="u", annotations=((AFTER, ""),))
    plain = Pod(namespace="default", name="c", uid="v")
    bound = Pod(namespace="default", name="d", uid="w", annotations=((AFTER, ""),), node_name="n")
    for pod in (declares, declares, plain, bound):
        ignored.look([Change(ChangeKind.SEEN, pod)])
    assert ignored.count == 1
