"""Jobs in the words of each algorithm."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from algorithm.fgd.needs import Need, need_of
from algorithm.hived.formats.podspec import SPEC, parse_spec
from algorithm.model import Node, Pod
from algorithm.packing.gangs import is_name
from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.filters import static_refusal
from extender.lab.translate import GPUS, TranslationError, Translator, node_of
from extender.lab.workload import CPU, GPU, Job, MachineNode

GANG = Job(
    "train", 0.0, {CPU: 4000, GPU: 8000}, 10.0, 4, gang=True, priority=5, tenant="research", gpu_models=("A100",)
)


def annotations(algorithm: str, job: Job) -> dict[str, str]:
    return dict(Translator(algorithm).pods(job)[0].pod.annotations)


def test_packing_and_unknown_algorithms_get_whole_gpus_and_gangs() -> None:
    for algorithm in ("packing", "somebody-elses"):
        (pod,) = Translator(algorithm).pods(GANG)
        assert pod.pod.requests == ((CPU, 4000), (GPUS, 8))
        assert dict(pod.pod.annotations) == {"waggle.dev/gang": "train", "waggle.dev/gang-min": "4"}
        assert (pod.pod.namespace, pod.priority) == ("research", 5)


def test_a_model_is_a_node_affinity() -> None:
    (pod,) = Translator("packing").pods(GANG)
    right, wrong = (node_of(MachineNode("n", {GPU: 8000}, model)) for model in ("A100", "H100"))
    assert static_refusal(pod, NodeInfo(right)) is None
    assert static_refusal(pod, NodeInfo(wrong)) is not None


def test_parts_are_rounded_up_once_said() -> None:
    translator = Translator("packing")
    job = replace(GANG, requests={GPU: 250}, pods=1)
    assert dict(translator.pods(job)[0].pod.requests) == {GPUS: 1}
    translator.pods(job)
    assert translator.remarks == ("a part of a GPU was rounded up to a whole one (2 jobs)",)
    assert translator.need(job).milli == 1000


def test_fgd_gets_parts_and_models_as_it_reads_them() -> None:
    part = replace(GANG, requests={CPU: 100, GPU: 250}, gang=False, gpu_models=("A100", "T4"))
    (pod,) = Translator("fgd").pods(part)
    assert need_of(pod.pod, GPUS) == Need(100, 0, 250, 1, "A100|T4")
    (pod,) = Translator("fgd").pods(GANG)
    assert need_of(pod.pod, GPUS) == Need(4000, 0, 1000, 8, "A100")


def test_hived_gets_its_own_annotation() -> None:
    spec = parse_spec(annotations("hived", GANG)[SPEC], namespace="research", name="train-0")
    assert (spec.tenant, spec.priority, spec.leaf_type, spec.leafs) == ("research", 5, "A100", 8)
    assert (spec.group, spec.pods) == ("train", ((8, 4),))
    assert not spec.ignores_offer


def test_a_tenant_with_yaml_in_its_name_stays_one_name() -> None:
    job = replace(GANG, tenant='a: "b"\n#', gang=False)
    assert parse_spec(annotations("hived", job)[SPEC], namespace="x", name="y").tenant == 'a: "b"\n#'


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"requests": {CPU: 1}}, "job 'train': requests: gpu: hived places pods with GPUs only"),
        ({"tenant": ""}, "job 'train': tenant: hived needs the name of a virtual cluster"),
        ({"gpu_models": ("A", "B")}, "job 'train': gpu_models: hived can ask for one type of device or any, not for 2"),
    ],
)
def test_what_hived_has_no_words_for_is_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        Translator("hived").pods(replace(GANG, **wrong))


def test_priorities_beyond_those_of_hived_are_cut_and_said() -> None:
    translator = Translator("hived")
    text = dict(translator.pods(replace(GANG, priority=2000))[0].pod.annotations)[SPEC]
    assert parse_spec(text, namespace="x", name="y").priority == 1000
    assert translator.remarks == ("a priority was cut to -1 (opportunistic) to 1000 (1 job)",)


def test_jobs_are_of_one_kind_if_only_their_names_and_times_differ() -> None:
    packing, hived = Translator("packing"), Translator("hived")
    other = replace(GANG, name="other", arrival=5.0, seconds=1.0)
    assert packing.kind(GANG) == packing.kind(other)
    for field, value in (("priority", 0), ("pods", 3), ("gang", False), ("requests", {GPU: 1000}), ("gpu_models", ())):
        assert packing.kind(GANG) != packing.kind(replace(GANG, **{field: value}))
    elsewhere = replace(GANG, tenant="production")
    assert packing.kind(GANG) == packing.kind(elsewhere)
    assert hived.kind(GANG) != hived.kind(elsewhere)


def test_recorded_pods_are_of_one_kind_if_their_records_are_alike() -> None:
    first, second = (Pod(namespace="x", name=name, uid=name, requests=(("cpu", 1),)) for name in "ab")
    kind = Translator("packing").kind
    assert kind(replace(GANG, templates=(first,))) == kind(replace(GANG, name="b", templates=(second,)))
    assert kind(replace(GANG, pods=2, templates=(first, second))) == kind(replace(GANG, templates=(first,)))
    labelled = replace(second, labels=(("a", "b"),))
    assert kind(replace(GANG, templates=(first,))) != kind(replace(GANG, templates=(labelled,)))
    assert kind(replace(GANG, pods=2, templates=(first, labelled))) is None


def test_records_are_used_as_they_are() -> None:
    pod = Pod(namespace="x", name="p", node_name="n", phase="Running", annotations=(("a", "b"),), labels=(("l", "m"),))
    node = Node(name="n0", allocatable=(("cpu", 7),))
    (made,) = Translator("hived").pods(replace(GANG, arrival=1.0, templates=(pod,)))
    assert made.pod == replace(pod, node_name="", phase="Pending")
    assert Translator("hived").pods(replace(GANG, arrival=0.0, templates=(pod,)))[0].pod == pod
    assert node_of(MachineNode("n0", {}, record=node)).node is node


@pytest.mark.parametrize("name", ["\u00dc", "a\n", "a" * 300])
def test_a_gang_has_a_name_that_gangs_may_have(name: str) -> None:
    made, other = (annotations("packing", replace(GANG, name=each))["waggle.dev/gang"] for each in (name, f"{name}2"))
    assert is_name(made)
    assert made != other
