"""The cache against a naive oracle, and against an API server whose events come late, doubled, reordered or never."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from algorithm.model import Node, Pod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.state.cache import Cache, CacheError, PodState
from tests.support.examples import few

NODES = ["n0", "n1", "n2"]
REMEMBERED = 4
UIDS = [f"u{number}" for number in range(6)]

nodes = st.sampled_from(NODES)
uids = st.sampled_from(UIDS)
versions = st.one_of(st.integers(1, 12).map(str), st.just(""))


@st.composite
def pods(draw):
    """Two UIDs share each name, as when a pod is replaced."""
    uid = draw(uids)
    return Pod(
        namespace="default",
        name=f"pod-{int(uid[1:]) % 3}",
        uid=uid,
        resource_version=draw(versions),
        node_name=draw(nodes),
        phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded"])),
        requests=(("cpu", draw(st.sampled_from([0, 100, 250]))), ("nvidia.com/gpu", draw(st.integers(0, 2)))),
    )


class Oracle:
    """The cache's rules over one list of (pod, state): everything else is recounted whenever it is asked."""

    def __init__(self):
        self.records = []
        self.gone = []

    def find(self, uid):
        return next(((pod, state) for pod, state in self.records if pod.uid == uid), (None, None))

    def namesakes(self, pod):
        return [other for other, _ in self.records if other.key == pod.key and other.uid != pod.uid]

    def late(self, pod):
        held, state = self.find(pod.uid)
        rivals = self.namesakes(pod) + ([held] if state is PodState.ADDED else [])
        return pod.uid in self.gone[-REMEMBERED:] or any(self.before(pod, rival) for rival in rivals)

    @staticmethod
    def before(pod, other):
        first, second = pod.resource_version, other.resource_version
        return first != "" and second != "" and int(first) < int(second)

    def put(self, pod, state):
        for other in self.namesakes(pod):
            self.remove(other.uid)
        self.discard(pod.uid)
        self.records.append((pod, state))

    def discard(self, uid):
        self.records = [record for record in self.records if record[0].uid != uid]

    def remove(self, uid):
        self.discard(uid)
        self.gone = [other for other in self.gone if other != uid] + [uid]

    def on(self, node):
        found = [pod for pod, state in self.records if state is not PodState.EXPIRED and pod.node_name == node]
        return sorted(found, key=lambda pod: pod.key)

    def requested(self, node):
        total = {"pods": len(self.on(node))}
        for pod in self.on(node):
            for name, amount in pod.requests:
                total[name] = total.get(name, 0) + amount
        return {name: amount for name, amount in total.items() if amount}


class CacheMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.cache = Cache(remembered=REMEMBERED)
        self.oracle = Oracle()
        self.known = {}
        self.snapshots = []

    @rule(pod=pods())
    def assume(self, pod):
        _, state = self.oracle.find(pod.uid)
        if state in (PodState.ASSUMED, PodState.ADDED) or self.oracle.late(pod):
            self.refused(self.cache.assume, pod)
        else:
            self.cache.assume(pod)
            self.oracle.put(pod, PodState.ASSUMED)

    @rule(pod=pods(), kind=st.sampled_from([OutcomeKind.DONE, OutcomeKind.DONE, *OutcomeKind]))
    def assume_if(self, pod, kind):
        held, state = self.oracle.find(pod.uid)
        expected = False
        if kind is OutcomeKind.DONE and state is PodState.ADDED:
            expected = held.node_name == pod.node_name
        elif kind is OutcomeKind.DONE and not self.oracle.late(pod):
            self.oracle.put(pod, PodState.ASSUMED)
            expected = True
        assert self.cache.assume_if(pod, Outcome(kind)) == expected

    @rule(uid=uids, end=st.sampled_from(["forget", "expire"]))
    def end_assumption(self, uid, end):
        pod, state = self.oracle.find(uid)
        if state is None or (end == "expire" and state is not PodState.ASSUMED):
            self.refused(getattr(self.cache, end), uid)
            return
        assert getattr(self.cache, end)(uid) == pod
        self.oracle.discard(uid) if end == "forget" else self.oracle.put(pod, PodState.EXPIRED)

    @rule(pod=pods())
    def pod_seen(self, pod):
        expected = None
        if not self.oracle.late(pod):
            self.oracle.put(pod, PodState.ADDED)
            expected = pod
            if pod.finished:
                self.oracle.remove(pod.uid)
                expected = None
        assert self.cache.add_pod(pod) == expected

    @rule(uid=uids)
    def pod_gone(self, uid):
        pod, _ = self.oracle.find(uid)
        assert self.cache.remove_pod(uid) == pod
        self.oracle.remove(uid)

    @rule(name=nodes, uid=st.sampled_from(["a", "b"]))
    def node_seen(self, name, uid):
        node = Node(name=name, uid=uid)
        assert self.cache.set_node(node) == self.known.get(name)
        self.known[name] = node

    @rule(name=nodes)
    def node_gone(self, name):
        assert self.cache.remove_node(name) == self.known.pop(name, None)

    @rule()
    def take_snapshot(self):
        snapshot = self.cache.snapshot()
        expected = {
            name: (self.known.get(name), self.oracle.on(name), self.oracle.requested(name))
            for name in NODES
            if name in self.known or self.oracle.on(name)
        }
        assert list(snapshot.nodes) == sorted(expected)
        for name, info in snapshot.nodes.items():
            assert (info.node, list(info.pods), dict(info.requested)) == expected[name]
        self.compare_with_the_last(snapshot)
        self.snapshots.append((snapshot, repr(snapshot)))

    def compare_with_the_last(self, snapshot):
        """Equal generations say equal content, of the whole and of each node."""
        if not self.snapshots:
            return
        last, _ = self.snapshots[-1]
        assert (last.generation == snapshot.generation) == (last is snapshot)
        for name in last.nodes.keys() & snapshot.nodes.keys():
            same = last.nodes[name] is snapshot.nodes[name]
            assert (last.nodes[name].generation == snapshot.nodes[name].generation) == same

    def refused(self, call, argument):
        try:
            call(argument)
        except CacheError:
            return
        raise AssertionError(f"{argument} was not refused")

    @invariant()
    def is_what_the_oracle_says(self):
        for uid in UIDS:
            assert (self.cache.pod(uid), self.cache.state(uid)) == self.oracle.find(uid)
            assert self.cache.removed(uid) == (uid in self.oracle.gone[-REMEMBERED:])
        for name in NODES:
            assert self.cache.pods_on(name) == self.oracle.on(name)
        self.cache.validate()

    def teardown(self):
        for snapshot, text in self.snapshots:
            assert repr(snapshot) == text, "a snapshot has changed"


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = few(80, 40)


# -- convergence -----------------------------------------------------------------------------------------------


class ApiServer:
    """A history of bound pods: `events` as a perfect informer would tell them, `live` as they are in the end."""

    def __init__(self, operations):
        self.live = {}
        self.events = []
        self.version = 0
        for number, (name, node, what) in enumerate(operations):
            self.version += 1
            if name not in self.live:
                self.show(name, f"uid-{number}", node)
            elif what == "delete":
                self.events.append(("gone", self.live.pop(name)))
            elif what == "finish":
                self.show(name, self.live[name].uid, node, phase="Succeeded")
                del self.live[name]
            else:
                self.show(name, self.live[name].uid, self.live[name].node_name)

    def show(self, name, uid, node, phase="Running"):
        pod = Pod(
            namespace="default",
            name=name,
            uid=uid,
            resource_version=str(self.version),
            node_name=node,
            phase=phase,
            requests=(("cpu", 100),),
        )
        self.live[name] = pod
        self.events.append(("seen", pod))


def deliver(cache, event):
    what, pod = event
    if what == "seen":
        cache.add_pod(pod)
    else:
        cache.remove_pod(pod.uid)


def relist(cache, server):
    """What an informer does after a new list: shows all that is there, and ends what is not there any more."""
    for pod in server.live.values():
        cache.add_pod(pod)
    live = {pod.uid for pod in server.live.values()}
    for uid in sorted(uid for uid in cache._pods if uid not in live):
        cache.remove_pod(uid)


names = st.sampled_from(["a", "b", "c"])
operations = st.lists(
    st.tuples(names, nodes, st.sampled_from(["update", "update", "delete", "finish"])), min_size=1, max_size=25
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(operations=operations, data=st.data())
def test_events_in_any_order_doubled_and_with_our_assumptions_between_come_to_the_truth(operations, data):
    server, cache = ApiServer(operations), Cache()
    doubled = data.draw(st.lists(st.sampled_from(server.events), max_size=8))
    for event in data.draw(st.permutations(server.events + doubled)):
        if event[0] == "seen" and data.draw(st.booleans()):
            assume_and_perhaps_let_go(cache, event[1], data.draw(st.sampled_from(["keep", "forget", "expire"])))
        deliver(cache, event)
        cache.validate()
    assert {pod.name: pod for pod in cache.pods()} == server.live
    assert cache.counts().expired == 0


@settings(max_examples=150, deadline=None, derandomize=True)
@given(operations=operations, data=st.data())
def test_missed_events_are_healed_by_the_next_list_and_late_ones_then_change_nothing(operations, data):
    server, cache = ApiServer(operations), Cache()
    told = data.draw(st.lists(st.sampled_from(server.events), max_size=25))
    for event in told:
        deliver(cache, event)
    relist(cache, server)
    cache.validate()
    assert {pod.name: pod for pod in cache.pods()} == server.live
    for event in reversed(told):
        deliver(cache, event)
    assert {pod.name: pod for pod in cache.pods()} == server.live
    cache.validate()


def assume_and_perhaps_let_go(cache, pod, then):
    try:
        cache.assume(pod)
    except CacheError:
        return
    if then != "keep":
        getattr(cache, then)(pod.uid)
