"""The cache: one behaviour a test. Every test ends with validate()."""

import re

import pytest

from algorithm.model import Node, Pod, pairs
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.state.cache import Cache, CacheError, Counts, PodState

DONE = Outcome(OutcomeKind.DONE)


@pytest.fixture
def cache():
    cache = Cache()
    yield cache
    cache.validate()


def make_pod(uid="u1", *, name="", node="n1", version="", cpu=100, phase="Running", labels=None, namespace="default"):
    return Pod(
        namespace=namespace,
        name=name or f"pod-{uid}",
        uid=uid,
        resource_version=version,
        node_name=node,
        phase=phase,
        requests=(("cpu", cpu),),
        labels=pairs(labels),
    )


def requested(cache, node="n1"):
    info = cache.snapshot().nodes.get(node)
    return dict(info.requested) if info else {}


# -- our own decisions -----------------------------------------------------------------------------------------


def test_an_assumed_pod_takes_room_at_once(cache):
    cache.assume(make_pod(cpu=300))
    assert cache.state("u1") is PodState.ASSUMED
    assert requested(cache) == {"cpu": 300, "pods": 1}


@pytest.mark.parametrize("held", [PodState.ASSUMED, PodState.ADDED])
def test_a_pod_that_takes_room_cannot_be_assumed_again(cache, held):
    cache.assume(make_pod()) if held is PodState.ASSUMED else cache.add_pod(make_pod())
    with pytest.raises(CacheError, match=rf"cannot be assumed on n2: {held} on n1"):
        cache.assume(make_pod(node="n2"))
    assert cache.pods_on("n1") == [make_pod()]


@pytest.mark.parametrize(
    ("pod", "field"), [(make_pod(""), "metadata.uid is empty"), (make_pod(node=""), "spec.nodeName is empty")]
)
def test_a_pod_without_uid_or_node_is_refused_by_name_of_the_field(cache, pod, field):
    for call in (cache.assume, cache.add_pod, lambda pod: cache.assume_if(pod, DONE)):
        with pytest.raises(CacheError, match=field):
            call(pod)
    assert cache.counts() == Counts(0, 0, 0, 0)


def test_a_forgotten_pod_gives_its_room_back_and_may_be_assumed_elsewhere(cache):
    cache.assume(make_pod())
    assert cache.forget("u1") == make_pod()
    assert cache.state("u1") is None
    assert requested(cache) == {}
    cache.assume(make_pod(node="n2"))
    assert cache.pods_on("n2") == [make_pod(node="n2")]


def test_an_expired_pod_takes_no_room_but_is_remembered(cache):
    cache.assume(make_pod())
    assert cache.expire("u1") == make_pod()
    assert cache.state("u1") is PodState.EXPIRED
    assert cache.pod("u1") == make_pod()
    assert requested(cache) == {}
    assert cache.pods() == []
    assert cache.counts() == Counts(nodes=0, pods=0, assumed=0, expired=1)


def test_an_expired_pod_may_be_assumed_again(cache):
    cache.assume(make_pod())
    cache.expire("u1")
    cache.assume(make_pod(node="n2"))
    assert cache.state("u1") is PodState.ASSUMED
    assert cache.pods_on("n2") == [make_pod(node="n2")]


def test_only_an_assumed_pod_expires(cache):
    with pytest.raises(CacheError, match="not in the cache"):
        cache.expire("u1")
    cache.add_pod(make_pod())
    with pytest.raises(CacheError, match="it is added on n1"):
        cache.expire("u1")


def test_what_is_forgotten_may_come_again(cache):
    with pytest.raises(CacheError, match="not in the cache"):
        cache.forget("u1")
    cache.add_pod(make_pod())
    cache.forget("u1")
    assert cache.pods() == []
    assert cache.add_pod(make_pod()) == make_pod()


def test_an_expired_pod_does_not_expire_again_but_may_be_forgotten(cache):
    cache.assume(make_pod())
    cache.expire("u1")
    with pytest.raises(CacheError, match="it is expired on n1"):
        cache.expire("u1")
    cache.forget("u1")
    assert cache.state("u1") is None


def test_a_removed_pod_cannot_be_assumed(cache):
    cache.remove_pod("u1")
    with pytest.raises(CacheError, match="no longer exists"):
        cache.assume(make_pod())
    assert cache.removed("u1")


# -- assume if the bind succeeded ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in OutcomeKind if kind is not OutcomeKind.DONE])
def test_a_bind_that_did_not_succeed_assumes_nothing(cache, kind):
    assert not cache.assume_if(make_pod(), Outcome(kind))
    assert cache.state("u1") is None


def test_a_bind_that_succeeded_assumes_the_pod_however_often_it_is_told(cache):
    assert cache.assume_if(make_pod(), DONE)
    assert cache.assume_if(make_pod(), DONE)
    assert cache.state("u1") is PodState.ASSUMED
    assert requested(cache) == {"cpu": 100, "pods": 1}


def test_a_bind_that_succeeded_says_where_an_assumed_pod_really_is(cache):
    cache.assume(make_pod(node="n1"))
    assert cache.assume_if(make_pod(node="n2"), DONE)
    assert cache.pods_on("n1") == []
    assert cache.pods_on("n2") == [make_pod(node="n2")]


def test_a_bind_that_succeeded_revives_an_expired_pod(cache):
    cache.assume(make_pod())
    cache.expire("u1")
    assert cache.assume_if(make_pod(), DONE)
    assert cache.state("u1") is PodState.ASSUMED


def test_a_confirmation_that_was_quicker_than_the_answer_stays(cache):
    cache.add_pod(make_pod(version="7"))
    assert cache.assume_if(make_pod(version="3"), DONE)
    assert cache.state("u1") is PodState.ADDED
    assert cache.pod("u1").resource_version == "7"


def test_the_api_servers_word_about_the_node_beats_the_answer_of_a_write(cache):
    cache.add_pod(make_pod(node="n2"))
    assert not cache.assume_if(make_pod(node="n1"), DONE)
    assert cache.pods_on("n2") == [make_pod(node="n2")]


def test_a_pod_that_was_deleted_before_the_answer_of_its_bind_came_stays_deleted(cache):
    cache.assume(make_pod())
    cache.remove_pod("u1")
    assert not cache.assume_if(make_pod(), DONE)
    assert cache.counts().pods == 0


# -- events ----------------------------------------------------------------------------------------------------


def test_an_event_confirms_an_assumed_pod_and_its_room_is_counted_once(cache):
    cache.assume(make_pod(version="1"))
    assert cache.add_pod(make_pod(version="2")) == make_pod(version="2")
    assert cache.state("u1") is PodState.ADDED
    assert requested(cache) == {"cpu": 100, "pods": 1}


def test_an_event_moves_a_pod_that_was_assumed_elsewhere(cache):
    cache.assume(make_pod(node="n1"))
    cache.add_pod(make_pod(node="n2"))
    assert requested(cache, "n1") == {}
    assert requested(cache, "n2") == {"cpu": 100, "pods": 1}


def test_a_late_confirmation_revives_an_expired_pod(cache):
    cache.assume(make_pod())
    cache.expire("u1")
    cache.add_pod(make_pod())
    assert cache.state("u1") is PodState.ADDED
    assert requested(cache) == {"cpu": 100, "pods": 1}


def test_a_pod_may_be_added_that_never_was_assumed(cache):
    cache.add_pod(make_pod())
    assert cache.state("u1") is PodState.ADDED


def test_an_update_moves_a_pod_to_another_node_and_changes_its_room(cache):
    cache.add_pod(make_pod(version="1", cpu=100))
    cache.update_pod(make_pod(version="2", cpu=400, node="n2"))
    assert requested(cache, "n1") == {}
    assert requested(cache, "n2") == {"cpu": 400, "pods": 1}


def test_a_repeated_event_changes_nothing(cache):
    cache.add_pod(make_pod(version="4"))
    before = cache.snapshot()
    assert cache.add_pod(make_pod(version="4")) == make_pod(version="4")
    assert cache.snapshot() is before


def test_an_event_that_is_older_than_the_record_is_ignored(cache):
    cache.add_pod(make_pod(version="10", node="n2"))
    assert cache.add_pod(make_pod(version="9", node="n1")) is None
    assert cache.pods_on("n2") == [make_pod(version="10", node="n2")]


def test_versions_that_are_no_numbers_are_taken_as_they_come(cache):
    cache.add_pod(make_pod(version="b"))
    assert cache.add_pod(make_pod(version="a")) == make_pod(version="a")


def test_an_event_is_never_late_compared_with_an_assumption(cache):
    cache.assume(make_pod(version="10", node="n1"))
    assert cache.add_pod(make_pod(version="9", node="n2")) == make_pod(version="9", node="n2")


def test_another_uid_under_the_name_is_a_deletion_and_an_addition(cache):
    cache.add_pod(make_pod("old", name="web-0", version="5", node="n1"))
    cache.add_pod(make_pod("new", name="web-0", version="8", node="n2"))
    assert cache.state("old") is None
    assert cache.removed("old")
    assert cache.uid_of("default", "web-0") == "new"
    assert requested(cache, "n1") == {}
    assert cache.add_pod(make_pod("old", name="web-0", version="6", node="n1")) is None


@pytest.mark.parametrize("state", PodState)
def test_the_late_event_of_a_predecessor_does_not_remove_its_successor(cache, state):
    successor = make_pod("new", name="web-0", version="8")
    cache.add_pod(successor) if state is PodState.ADDED else cache.assume(successor)
    if state is PodState.EXPIRED:
        cache.expire("new")
    assert cache.add_pod(make_pod("old", name="web-0", version="5")) is None
    assert cache.state("new") is state
    with pytest.raises(CacheError, match="no longer exists"):
        cache.assume(make_pod("old", name="web-0", version="5"))


def test_assuming_a_successor_removes_its_predecessor(cache):
    cache.add_pod(make_pod("old", name="web-0", version="5"))
    cache.assume(make_pod("new", name="web-0", version="8"))
    assert cache.removed("old")
    assert cache.pods() == [make_pod("new", name="web-0", version="8")]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_as_good_as_removed(cache, phase):
    cache.add_pod(make_pod())
    assert cache.add_pod(make_pod(phase=phase)) is None
    assert cache.state("u1") is None
    assert cache.removed("u1")
    assert requested(cache) == {}


def test_a_pod_may_finish_without_ever_having_had_a_node(cache):
    assert cache.add_pod(make_pod(node="", phase="Failed")) is None
    assert cache.removed("u1")


@pytest.mark.parametrize("state", PodState)
def test_a_pod_is_removed_from_any_state_once(cache, state):
    cache.add_pod(make_pod()) if state is PodState.ADDED else cache.assume(make_pod())
    if state is PodState.EXPIRED:
        cache.expire("u1")
    assert cache.remove_pod("u1") == make_pod()
    assert cache.remove_pod("u1") is None
    assert cache.uid_of("default", "pod-u1") is None
    assert cache.counts() == Counts(0, 0, 0, 0)


def test_an_event_that_comes_after_the_removal_is_ignored_even_if_the_pod_was_never_seen(cache):
    assert cache.remove_pod("u1") is None
    assert cache.add_pod(make_pod(version="3")) is None
    assert cache.counts().pods == 0


def test_only_so_many_removed_uids_are_remembered_the_oldest_go_first():
    cache = Cache(remembered=2)
    for uid in ("a", "b", "a", "c"):
        cache.remove_pod(uid)
    assert [cache.removed(uid) for uid in "abc"] == [True, False, True]
    cache.validate()


# -- nodes -----------------------------------------------------------------------------------------------------


def test_set_node_returns_the_record_that_was_held(cache):
    first, second = Node(name="n1", uid="a"), Node(name="n1", uid="b")
    assert cache.set_node(first) is None
    assert cache.set_node(second) == first
    assert cache.node("n1") == second


def test_nodes_are_listed_by_name(cache):
    for name in ("n2", "n10", "n1"):
        cache.set_node(Node(name=name))
    assert [node.name for node in cache.nodes()] == ["n1", "n10", "n2"]
    assert list(cache.snapshot().nodes) == ["n1", "n10", "n2"]
    assert cache.counts().nodes == 3


def test_pods_stay_counted_on_a_node_that_is_gone_until_they_are_removed(cache):
    cache.set_node(Node(name="n1"))
    cache.add_pod(make_pod())
    assert cache.remove_node("n1") == Node(name="n1")
    info = cache.snapshot().nodes["n1"]
    assert (info.node, info.pods) == (None, (make_pod(),))
    assert cache.counts().nodes == 0
    cache.remove_pod("u1")
    assert "n1" not in cache.snapshot().nodes


def test_pods_may_come_before_their_node(cache):
    cache.add_pod(make_pod())
    cache.set_node(Node(name="n1"))
    info = cache.snapshot().nodes["n1"]
    assert (info.node, info.pods) == (Node(name="n1"), (make_pod(),))


def test_removing_a_node_twice_or_one_never_seen_is_no_error(cache):
    cache.set_node(Node(name="n1"))
    cache.remove_node("n1")
    assert cache.remove_node("n1") is None
    assert cache.node("n1") is None


# -- lists and snapshots ---------------------------------------------------------------------------------------


def test_pods_are_listed_by_labels_and_namespace_in_order(cache):
    for uid, namespace, app in (("3", "b", "web"), ("2", "a", "web"), ("1", "a", "db")):
        cache.add_pod(make_pod(uid, namespace=namespace, labels={"app": app}))
    assert [pod.uid for pod in cache.pods()] == ["1", "2", "3"]
    assert [pod.uid for pod in cache.pods("app=web")] == ["2", "3"]
    assert [pod.uid for pod in cache.pods("app in (web, db)", namespace="a")] == ["1", "2"]


def test_a_selector_that_cannot_be_read_is_refused_by_name_of_the_part(cache):
    with pytest.raises(ValueError, match="'app' needs at least one value"):
        cache.pods("app in ()")


def test_pods_on_an_unknown_node_are_none(cache):
    assert cache.pods_on("nowhere") == []


def test_zero_amounts_do_not_show(cache):
    cache.add_pod(make_pod(cpu=0))
    assert requested(cache) == {"pods": 1}


def test_a_snapshot_never_changes(cache):
    cache.set_node(Node(name="n1"))
    cache.add_pod(make_pod())
    before = cache.snapshot()
    cache.remove_pod("u1")
    cache.remove_node("n1")
    assert before.nodes["n1"].pods == (make_pod(),)
    assert before.counts == Counts(nodes=1, pods=1, assumed=0, expired=0)
    with pytest.raises(TypeError):
        before.nodes["n2"] = None


def test_a_snapshot_of_an_unchanged_cache_is_the_same_object(cache):
    cache.set_node(Node(name="n1"))
    before = cache.snapshot()
    cache.set_node(Node(name="n1"))
    assert cache.snapshot() is before


def test_only_the_nodes_that_changed_are_rebuilt(cache):
    for name in ("n1", "n2", "n3"):
        cache.set_node(Node(name=name))
    before = cache.snapshot()
    cache.assume(make_pod(node="n2"))
    after = cache.snapshot()
    assert after.nodes["n1"] is before.nodes["n1"]
    assert after.nodes["n3"] is before.nodes["n3"]
    assert after.nodes["n2"].generation > before.nodes["n2"].generation
    assert after.generation > before.generation


def test_a_node_that_comes_back_has_a_higher_generation(cache):
    cache.set_node(Node(name="n1"))
    before = cache.snapshot().nodes["n1"].generation
    cache.remove_node("n1")
    cache.set_node(Node(name="n1"))
    assert cache.snapshot().nodes["n1"].generation > before


def test_counts_tell_states_apart(cache):
    cache.set_node(Node(name="n1"))
    cache.add_pod(make_pod("a"))
    cache.assume(make_pod("b"))
    cache.assume(make_pod("c"))
    cache.expire("c")
    assert cache.counts() == cache.snapshot().counts == Counts(nodes=1, pods=2, assumed=1, expired=1)


# -- proof of the proof ----------------------------------------------------------------------------------------


def _corrupt_amount(cache):
    cache._builders["n1"].requested["cpu"] += 1


def _corrupt_pods(cache):
    cache._builders["n1"].pods.clear()


def _corrupt_names(cache):
    cache._uids.clear()


def _corrupt_states(cache):
    cache._states[PodState.ASSUMED] += 1


def _corrupt_room(cache):
    cache._builders["n9"] = type(cache._builders["n1"])()


def _corrupt_node(cache):
    cache._builders["n1"].node = None


def _corrupt_removed(cache):
    cache.versions.add_tombstone("u1")


def _corrupt_key(cache):
    cache._pods["u2"] = cache._pods["u1"]


def _forget_to_mark(cache):
    cache.set_node(Node(name="n1", uid="new"))
    cache._changed.clear()


def _corrupt_node_index(cache):
    cache._nodes["n7"] = cache._nodes.pop("n1")


@pytest.mark.parametrize(
    ("corrupt", "said"),
    [
        (_corrupt_amount, "n1: requested"),
        (_corrupt_pods, "n1: pods are {}"),
        (_corrupt_names, "names: {}"),
        (_corrupt_states, "states: counted"),
        (_corrupt_room, "builders: ['n1', 'n9']"),
        (_corrupt_node, "n1: node is None"),
        (_corrupt_removed, "is held and removed"),
        (_corrupt_key, "is held under u2"),
        (_forget_to_mark, "n1: snapshot"),
        (_corrupt_node_index, "node n1 is held under n7"),
    ],
)
def test_validate_finds_what_is_corrupt(corrupt, said):
    cache = Cache()
    cache.set_node(Node(name="n1"))
    cache.add_pod(make_pod())
    cache.snapshot()
    cache.validate()
    corrupt(cache)
    with pytest.raises(AssertionError, match=re.escape(said)):
        cache.validate()
