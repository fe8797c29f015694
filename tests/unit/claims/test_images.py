"""Pools that recycle: a pod gets the images of its claim in place, and the idle ones back afterwards."""

from __future__ import annotations

import re

import pytest

from extender.claims import images
from extender.claims.codes import ClaimCode
from extender.claims.events import MembersSeen
from extender.claims.members import Members
from extender.claims.records import Container, Mode, Phase
from extender.claims.views import ClaimStage
from extender.claims.writes import names
from extender.claims.writes.advance import AdvancePod
from extender.core.outcomes import Outcome, OutcomeKind
from tests.unit.claims.test_claims import CONFLICT, FORBIDDEN, THROTTLED, UNKNOWN, code, pods, world
from tests.unit.claims.world import POOL, World

TARGET = (("main", "job:7"),)


def asked(*names_of_pods: str, **changes: object) -> World:
    cluster = world(*(names_of_pods or ("a",)), mode=Mode.RECYCLE)
    cluster.ask("r", images=TARGET, **changes)
    cluster.settle()
    return cluster


def image(cluster: World, uid: str) -> str:
    found: str = cluster.pods[uid]["spec"]["containers"][0]["image"]
    return found


def test_c50_idle_starting_running_stopping_idle() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    [uid] = cluster.pods
    before = {**cluster.pods[uid]["metadata"]["labels"]}
    cluster.change(uid, lambda pod: pod["metadata"]["labels"].update(team="pool"))
    cluster.observe()
    labels, annotations = (("app", "job"), ("team", "mine")), (("note", "1"),)
    cluster.ask("r", images=TARGET, put=labels, annotations=annotations)
    cluster.settle()
    metadata = cluster.pods[uid]["metadata"]
    assert (cluster.phase(uid), image(cluster, uid)) == (Phase.STARTING, "job:7")
    assert (metadata["labels"]["app"], metadata["labels"]["team"], metadata["annotations"]["note"]) == (
        "job",
        "mine",
        "1",
    )
    assert "r" not in cluster.answers
    cluster.kubelet(uid, ready=False)
    cluster.settle()
    assert cluster.phase(uid) == Phase.STARTING
    cluster.kubelet(uid)
    cluster.settle()
    assert cluster.phase(uid) == Phase.RUNNING
    assert pods(cluster, "r") == ["a"]
    assert cluster.writes == 2
    cluster.release("x", "c-r")
    cluster.settle()
    metadata = cluster.pods[uid]["metadata"]
    assert (cluster.phase(uid), image(cluster, uid)) == (Phase.STOPPING, "base:1")
    assert code(cluster, "x") is ClaimCode.RELEASED
    assert (metadata["labels"][names.CLAIM_LABEL], metadata["labels"]["app"]) == ("c-r", "job")  # kept until it is idle
    cluster.ask("s")
    cluster.kubelet(uid, ready=False)
    cluster.settle()
    assert "s" not in cluster.answers
    cluster.kubelet(uid)
    cluster.observe()
    [sent] = cluster.sent
    cluster.arrive(sent)
    metadata = cluster.pods[uid]["metadata"]
    assert metadata["labels"] == {**before, "team": "pool"}  # all of it in the same write as idle
    assert metadata["annotations"] == {}
    cluster.settle()
    assert pods(cluster, "s") == ["a"]


def test_an_image_that_runs_already_needs_one_write() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r", images=(("main", "base:1"),))
    cluster.settle()
    assert (pods(cluster, "r"), cluster.writes) == (["a"], 1)
    cluster.release("x", "c-r")
    cluster.settle()
    assert (cluster.phase(next(iter(cluster.pods))), cluster.writes) == (Phase.IDLE, 2)


def test_labels_and_annotations_go_with_the_claim_of_a_pool_that_changes_no_images() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    [uid] = cluster.pods
    before = {**cluster.pods[uid]["metadata"]["labels"]}
    cluster.ask("r", put=(("app", "job"),), annotations=(("note", "1"),))
    cluster.settle()
    cluster.change(uid, lambda pod: pod["metadata"]["annotations"].pop("note"))  # somebody took it off already
    cluster.release("x", "c-r")
    cluster.settle()
    assert cluster.pods[uid]["metadata"]["labels"] == {**before, names.PHASE_LABEL: Phase.IDLE}
    assert cluster.pods[uid]["metadata"]["annotations"] == {}


def test_the_pool_says_which_images_its_idle_pods_have() -> None:
    cluster = World(Mode.RECYCLE)
    uid = cluster.add("a")
    cluster.start(cluster.pool(images={"main": "base:2"}))
    cluster.ask("r", images=TARGET)
    cluster.settle()
    cluster.kubelet(uid)
    cluster.settle()
    cluster.release("x", "c-r")
    cluster.settle()
    assert image(cluster, uid) == "base:2"


def test_a_gang_is_answered_when_all_of_it_runs() -> None:
    cluster = asked("a", "b", count=2)
    first, second = cluster.pods
    cluster.kubelet(first)
    cluster.settle()
    assert "r" not in cluster.answers
    view = cluster.engine.claim("c-r", cluster.now)
    assert view is not None
    assert view.stage is ClaimStage.CLAIMING
    cluster.kubelet(second)
    cluster.settle()
    assert pods(cluster, "r") == ["a", "b"]


def test_a_pod_that_does_not_start_in_time_is_given_back_and_says_why() -> None:
    cluster = asked()
    [uid] = cluster.pods
    cluster.pass_time(119.0)
    cluster.settle()
    assert "r" not in cluster.answers
    cluster.pass_time(2.0)
    assert code(cluster, "r") is ClaimCode.START_TIMEOUT
    assert "a/main runs docker.io/library/base:1" in cluster.answers["r"].detail
    cluster.settle()
    cluster.kubelet(uid)
    cluster.settle()
    assert (cluster.claimed(), cluster.phase(uid), image(cluster, uid)) == ({}, Phase.IDLE, "base:1")


@pytest.mark.parametrize("crash_after", ["taken", "started", "stopping", "stopped"])
def test_a_restart_loses_no_pod_between_two_phases(crash_after: str) -> None:
    cluster = asked()
    [uid] = cluster.pods
    if crash_after != "taken":
        cluster.kubelet(uid)
    if crash_after in ("stopping", "stopped"):
        cluster.settle()
        cluster.release("x", "c-r")
        cluster.settle()
    if crash_after == "stopped":
        cluster.kubelet(uid)
    cluster.sent.clear()
    cluster.start()
    cluster.settle()
    cluster.kubelet(uid)
    cluster.settle()
    if crash_after in ("taken", "started"):
        assert cluster.phase(uid) == Phase.RUNNING
        assert cluster.claimed() == {"c-r": {uid}}
        cluster.pass_time(3601.0)
        cluster.settle()
        cluster.kubelet(uid)
        cluster.settle()
    assert (cluster.phase(uid), cluster.claimed()) == (Phase.IDLE, {})


def test_a_restart_gives_back_a_pod_that_never_starts() -> None:
    cluster = asked()
    [uid] = cluster.pods
    cluster.start()
    cluster.pass_time(131.0)
    cluster.settle()
    assert (cluster.phase(uid), image(cluster, uid)) == (Phase.STOPPING, "base:1")


def test_a_pod_that_starts_just_before_it_is_given_back_stays_claimed() -> None:
    cluster = asked()
    [uid] = cluster.pods
    other = cluster.engine
    cluster.start()
    cluster.kubelet(uid)
    cluster.watch.clear()  # this server does not hear of it
    cluster.pass_time(131.0)
    [give] = cluster.sent
    theirs = cluster.another()
    theirs.engine, theirs.now = other, 119.0
    theirs.change(uid, lambda _: None)
    theirs.settle()
    assert cluster.phase(uid) == Phase.RUNNING
    cluster.arrive(give)
    cluster.settle()
    cluster.pass_time(10.0)
    cluster.settle()
    assert (cluster.phase(uid), cluster.claimed()) == (Phase.RUNNING, {"c-r": {uid}})


def test_a_claim_whose_container_restarts_ends() -> None:
    cluster = asked()
    [uid] = cluster.pods
    cluster.kubelet(uid)
    cluster.settle()
    cluster.kubelet(uid, restart="side")  # one that the claim did not choose
    cluster.settle()
    assert cluster.claimed() == {"c-r": {uid}}
    cluster.kubelet(uid, restart="main")
    cluster.settle()
    assert (cluster.claimed(), cluster.engine.restarted) == ({}, 1)


def test_a_pool_may_keep_claims_whose_containers_restart() -> None:
    cluster = World(Mode.RECYCLE)
    uid = cluster.add("a")
    cluster.start(cluster.pool(ends_on_restart=False))
    cluster.ask("r", images=TARGET)
    cluster.settle()
    for restart in ("", "main"):
        cluster.kubelet(uid, restart=restart)
        cluster.settle()
    assert cluster.claimed() == {"c-r": {uid}}


@pytest.mark.parametrize("reports_generations", [True, False])
def test_a_caller_who_leaves_while_the_pod_starts_leaves_nothing_claimed(reports_generations: bool) -> None:
    cluster = asked()
    [uid] = cluster.pods
    if not reports_generations:  # before Kubernetes 1.33
        cluster.change(uid, lambda pod: (pod["metadata"].pop("generation"), pod["status"].pop("observedGeneration")))
    cluster.leave("r")
    cluster.settle()
    assert cluster.phase(uid) == (Phase.STOPPING if reports_generations else Phase.IDLE)
    cluster.kubelet(uid)  # it has never run the claim's image
    cluster.settle()
    assert (cluster.phase(uid), cluster.claimed()) == (Phase.IDLE, {})


def test_a_pod_that_is_deleted_while_it_starts_is_replaced() -> None:
    cluster = asked()
    cluster.delete(next(iter(cluster.pods)))
    uid = cluster.add("b")
    cluster.settle()
    cluster.kubelet(uid)
    cluster.settle()
    assert pods(cluster, "r") == ["b"]
    cluster.release("x", "c-r")
    cluster.settle()
    assert code(cluster, "x") is ClaimCode.RELEASED


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("outcome", [UNKNOWN, CONFLICT, THROTTLED, FORBIDDEN])
def test_the_second_write_is_repeated_until_it_is_known(outcome: Outcome, applied: bool) -> None:
    cluster = asked(wait_seconds=300.0)
    [uid] = cluster.pods
    cluster.kubelet(uid)
    cluster.observe()
    [sent] = cluster.sent
    assert isinstance(sent.command.command, AdvancePod)
    if applied:
        cluster.arrive(sent)
        cluster.watch.clear()
    cluster.answer(sent, outcome)
    cluster.settle()
    cluster.pass_time(10.0)
    cluster.settle()
    assert pods(cluster, "r") == ["a"]


def test_the_first_server_finishes_and_the_next_ones_only_if_it_does_not() -> None:
    cluster = asked()
    [uid] = cluster.pods
    cluster.start()  # a server that does not have the request
    others = tuple(f"s{number}" for number in range(8))
    cluster.tell(MembersSeen(others, next(each for each in others if rank(each, others, uid) == 2)))
    cluster.kubelet(uid)
    cluster.observe()
    assert not cluster.sent
    cluster.pass_time(9.9)
    assert not cluster.sent
    cluster.pass_time(0.2)
    cluster.settle()
    assert cluster.phase(uid) == Phase.RUNNING


def rank(me: str, others: tuple[str, ...], uid: str) -> int:
    members = Members()
    members.set(others, me)
    return members.rank(uid)


def test_the_other_servers_go_on_when_the_first_is_gone() -> None:
    cluster = asked()
    [uid] = cluster.pods
    cluster.start()
    others = tuple(f"s{number}" for number in range(8))
    me = next(each for each in others if rank(each, others, uid) == 7)
    cluster.tell(MembersSeen(others, me))
    cluster.kubelet(uid)
    cluster.observe()
    assert not cluster.sent
    cluster.tell(MembersSeen((me,), me))
    cluster.settle()
    assert cluster.phase(uid) == Phase.RUNNING


@pytest.mark.parametrize(
    ("changes", "mode", "expected", "detail"),
    [
        ({"images": (("mian", "job:7"),)}, Mode.RECYCLE, ClaimCode.UNKNOWN_CONTAINER, "images.mian: .* main, side"),
        ({"images": TARGET}, Mode.DETACH, ClaimCode.NOT_POSSIBLE, "images: pool default/warm has mode detach"),
        ({"images": (("main", " "),)}, Mode.RECYCLE, ClaimCode.NOT_POSSIBLE, "images.main: expected an image"),
        ({"put": (("waggle.dev/claim", "x"),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "labels: .*Waggle's own"),
        ({"put": (("pool", "x"),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "labels: pool is a label by which"),
        ({"put": (("a", "b c"),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "labels.a: expected up to 63"),
        ({"put": (("a b", ""),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "labels: a name has up to 63"),
        ({"put": (("X/a", ""),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "labels: the prefix .* DNS name"),
        ({"put": (("a", ""), ("a", ""))}, Mode.DETACH, ClaimCode.INVALID_METADATA, "labels: a is given twice"),
        ({"annotations": (("a", "x" * 70_000),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "annotations: .* 65536"),
        ({"annotations": (("b.waggle.dev/a", ""),)}, Mode.DETACH, ClaimCode.INVALID_METADATA, "annotations: .*own"),
    ],
)
def test_what_cannot_be_put_on_a_pod_is_refused_and_named(
    changes: dict[str, object], mode: Mode, expected: ClaimCode, detail: str
) -> None:
    cluster = world("a", mode=mode)
    answer = cluster.ask("r", **changes)
    assert answer is not None
    assert answer.code is expected
    assert re.search(detail, answer.detail), answer.detail
    assert not cluster.sent


def test_a_pod_without_the_container_does_not_serve() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    other = cluster.add("b", seen=False)
    cluster.change(other, lambda pod: pod["spec"]["containers"].append({"name": "extra", "image": "x"}))
    cluster.observe()
    cluster.ask("r", images=(("extra", "x"),))
    cluster.settle()
    assert pods(cluster, "r") == ["b"]


@pytest.mark.parametrize(
    ("wanted", "reported", "same"),
    [
        ("nginx", "docker.io/library/nginx:latest", True),
        ("nginx:1", "nginx:1", True),
        ("me/app:1", "docker.io/me/app:1", True),
        ("docker.io/nginx", "docker.io/library/nginx:latest", True),
        ("localhost/app:1", "docker.io/localhost/app:1", False),
        ("registry:5000/app", "registry:5000/app:latest", True),
        ("nginx:1", "nginx:2", False),
        ("nginx@sha256:ab", "sha256:cd", True),
        ("nginx:1", "", False),
    ],
)
def test_images_are_compared_as_runtimes_write_them(wanted: str, reported: str, same: bool) -> None:
    container = Container("main", wanted, reported, "docker.io/library/nginx@sha256:ab")
    assert images.same_image(wanted, container) is same


def test_the_kubelets_report_of_an_older_specification_is_no_evidence() -> None:
    cluster = asked()
    [uid] = cluster.pods

    def stale(pod: dict) -> None:  # type: ignore[type-arg]
        cluster._start_containers(pod)
        pod["status"]["observedGeneration"] = 1

    cluster.change(uid, stale)
    cluster.settle()
    assert cluster.phase(uid) == Phase.STARTING
    cluster.kubelet(uid)
    cluster.settle()
    assert cluster.phase(uid) == Phase.RUNNING


def test_snapshots_count_pods_between_two_phases() -> None:
    cluster = asked()
    [uid] = cluster.pods
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.starting, shot.stopping, shot.pending) == (1, 0, 1)
    cluster.kubelet(uid)
    cluster.settle()
    cluster.release("x", "c-r")
    cluster.settle()
    shot = cluster.engine.snapshot(POOL, cluster.now)
    assert shot is not None
    assert (shot.starting, shot.stopping, shot.idle) == (0, 1, 0)


def test_gone_is_gone() -> None:
    cluster = asked(wait_seconds=1.0)
    [uid] = cluster.pods
    cluster.kubelet(uid)
    cluster.observe()
    cluster.answer(cluster.sent[0], Outcome(OutcomeKind.GONE, "not found"))
    cluster.pass_time(300.0)
    assert code(cluster, "r") is ClaimCode.DEADLINE_EXCEEDED
