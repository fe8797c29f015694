"""Random worlds with random what-ifs, and what must hold of any plan of them.

Taken from docs/plan.md: no node holds more than it has, gangs are whole, every pod has one row or stays, what waits has
one reason, what is evicted or moves has a cause, the same input gives the same bytes, and nothing in the world changes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import msgspec

from algorithm.reasons import Code
from extender.ordering.records import Target
from extender.plan.errors import PlanError
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import Changes, Options, Plan, Row, Sign, World
from extender.plan.run import make_plan
from extender.plan.showing.difference import difference
from tests.conformance.plan_truth.hived_states import hived_state
from tests.conformance.plan_truth.outcomes import changes_of
from tests.conformance.plan_truth.states import GPU, Object, State, packing_state, priority_classes
from tests.support.plan.worlds import a_node

_encode = msgspec.json.encode
_NEW = 2


def draw(seed: int) -> tuple[State, World, Changes]:
    """A state, its world, and changes of all kinds."""
    some = random.Random(seed)
    state = (packing_state if some.random() < 0.6 else hived_state)(seed)
    world = _world(state)
    changes = _changes(some, state)
    try:
        make_plan(world, changes, Options(seed=seed))
    except PlanError:
        # The pod whose priority changes was evicted for one that waited, or by a drain: that is said as an error.
        changes = msgspec.structs.replace(changes, priorities=())
    return state, world, changes


def _world(state: State) -> World:
    reader = WorldReader(state.settings, state.scheduler)
    for each in (*priority_classes(state), *state.nodes, *state.bound, *state.waiting):
        reader.add(each["apiVersion"], each["kind"], _encode(_lived(each)))
    assert not reader.faults, reader.faults
    return reader.world(source="adversary")


def _lived(body: Object) -> Object:
    """As the API server would have it: with a UID and, of pods, a priority."""
    metadata = {"uid": f"uid-{body['metadata']['name']}", "resourceVersion": "1", **body["metadata"]}
    if body["kind"] != "Pod":
        return {**body, "metadata": metadata}
    name = body["spec"].get("priorityClassName", "p0")
    return {**body, "metadata": metadata, "spec": {**body["spec"], "priority": int(name[1:])}}


def _changes(some: random.Random, state: State) -> Changes:
    nodes = [each["metadata"]["name"] for each in state.nodes]
    pods = [Target("Pod", "default", each["metadata"]["name"]) for each in (*state.bound, *state.waiting)]
    new = tuple(a_node(f"new-{n}", cpu="16", more={GPU: "8"}) for n in range(_NEW))
    packing = "packing" in state.settings
    changes = changes_of(state)
    doomed = {*some.sample(pods, min(len(pods), some.choice((0, 0, 1, 2)))), *changes.delete}
    others = [pod for pod in pods if pod not in doomed]
    return msgspec.structs.replace(
        changes,
        cordon=tuple(some.sample(nodes, some.choice((0, 0, 1)))),
        drain=tuple(some.sample(nodes, some.choice((0, 0, 1)))),
        delete=tuple(sorted(doomed)),
        add_nodes=new if packing and some.random() < 0.3 else (),
        priorities=tuple(
            (pod, some.randint(1, 999)) for pod in some.sample(others, min(len(others), some.choice((0, 1))))
        ),
    )


# -- what must hold ------------------------------------------------------------------------------------------------


def faults(seed: int) -> list[str]:
    """What is wrong with the plan of this seed, and with the difference to the one without its what-ifs."""
    state, world, changes = draw(seed)
    before, options = _encode(world), Options(seed=seed)
    plan = make_plan(world, changes, options)
    found = list(_wrong(state, world, changes, plan))
    if _encode(make_plan(world, changes, options)) != _encode(plan):
        found.append("the same input gave another plan")
    base = make_plan(world, Changes(create=changes.create), options)
    found += [f"without what-ifs: {each}" for each in _wrong(state, world, Changes(create=changes.create), base)]
    found += _wrong_difference(base, plan)
    if _encode(world) != before:
        found.append("the world was changed")
    return [f"seed {seed}: {each}" for each in found]


def _wrong(state: State, world: World, changes: Changes, plan: Plan) -> Iterator[str]:
    bodies = {each["metadata"]["name"]: each for each in (*state.bound, *state.waiting, *state.create)}
    places = {each.pod.pod.name: each.pod.pod.node_name for each in world.pods}
    counts = Counter(row.name for row in plan.rows)
    yield from (f"{name} has {number} rows" for name, number in counts.items() if number > 1)
    yield from (f"{name} has no row" for name in bodies if not places.get(name) and name not in counts)
    early = {each["metadata"]["name"] for each in state.waiting}
    for row in plan.rows:
        yield from _wrong_row(row, changes, places.get(row.name, ""), row.name in early)
        places[row.name] = row.node
    yield from _overcommitted(state, changes, bodies, places)
    yield from _broken_gangs(state, changes, plan)
    signs = Counter(row.sign for row in plan.rows)
    total = plan.total
    if (total.runs, total.moves, total.evicted, total.waits) != tuple(signs[sign] for sign in list(Sign)[:4]):
        yield f"the total {total} is not that of the rows {signs}"


def _wrong_row(row: Row, changes: Changes, before: str, early: bool) -> Iterator[str]:
    """`early`: it waited, so that it was tried before the changes."""
    told = f"{row.sign} {row.name}"
    if bool(row.node) is not (row.sign in (Sign.RUNS, Sign.MOVES, Sign.STAYS)):
        yield f"{told}: on node {row.node!r}"
    if row.sign in (Sign.WAITS, Sign.EVICTED) and not (row.code and row.text):
        yield f"{told}: has no reason"
    if row.sign is Sign.MOVES and not row.text:
        yield f"{told}: has no cause"
    if row.before != before:
        yield f"{told}: was on {before!r}, not on {row.before!r}"
    if row.node in {*changes.cordon, *changes.drain} and row.node != before and not early:
        yield f"{told}: is new on {row.node}, which is cordoned"
    if row.node in changes.drain and row.sign is not Sign.STAYS:
        yield f"{told}: on {row.node}, which is drained"


def _overcommitted(state: State, changes: Changes, bodies: dict[str, Object], places: dict[str, str]) -> Iterator[str]:
    room = {each["metadata"]["name"]: int(each["status"]["allocatable"][GPU]) for each in state.nodes}
    room |= {each.name: 8 for each in changes.add_nodes}
    for name, node in places.items():
        if node not in room and node:
            yield f"{name} is on {node}, which does not exist"
        elif node and name in bodies:
            room[node] -= int(bodies[name]["spec"]["containers"][0]["resources"]["requests"][GPU])
    yield from (f"{node} lacks {-left} GPUs" for node, left in room.items() if left < 0)


def _broken_gangs(state: State, changes: Changes, plan: Plan) -> Iterator[str]:
    """No gang runs in part. But one that waited may lose members by a deletion or a drain, and any by preemption; and
    the seat of a member is no use to it if kube-scheduler's own filters refuse all nodes when its turn comes.
    """
    signs = {row.name: row.sign for row in plan.rows}
    refused = {row.name for row in plan.rows if row.code == Code.UNSCHEDULABLE.value}
    gangs: dict[str, list[Object]] = {}
    calm = not (changes.delete or changes.drain)
    for each in (*(state.waiting if calm else ()), *state.create):
        annotations = each["metadata"]["annotations"]
        if "waggle.dev/gang" in annotations:
            gangs.setdefault(annotations["waggle.dev/gang"], []).append(each)
    for name, members in gangs.items():
        least = int(members[0]["metadata"]["annotations"]["waggle.dev/gang-min"])
        run = sum(signs.get(each["metadata"]["name"]) is Sign.RUNS for each in members)
        names = [each["metadata"]["name"] for each in members]
        broken = any(signs.get(each) is Sign.EVICTED or each in refused for each in names)
        if 0 < run < least and not broken:
            yield f"{run} pods of {name} run, which needs {least}"


def _wrong_difference(base: Plan, plan: Plan) -> Iterator[str]:
    if difference(plan, plan).changed or difference(base, base).changed:
        yield "a plan differs from itself"
    there, back = difference(base, plan), difference(plan, base)
    if (there.gangs_more, there.gangs_fewer) != (back.gangs_fewer, back.gangs_more):
        yield f"gangs: {there.gangs_more}, {there.gangs_fewer} there, {back.gangs_more}, {back.gangs_fewer} back"
    if {each.name for each in there.changed} != {each.name for each in back.changed}:
        yield "another difference the other way round"
