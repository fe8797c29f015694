"""What must hold of every write of Waggle's, and of everything once nothing happens any more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.conformance.vpods_adversary.history import Object, Write
from tests.conformance.vpods_adversary.world import CLOSED, SetDraw, World
from tests.support.placements.flow import best_rate
from tests.support.placements.states import Question

#: Seconds after which a server that leads must have heard of a change, although watches were cut and began again late.
GRACE = 30.0
_POD = re.compile(r"^(.*)-(0|[1-9][0-9]*)$")
ZONE = "topology.kubernetes.io/zone"


def placements(vpod: Object) -> Counter[str]:
    """By pod, leniently: what others wrote may be anything."""
    found: Counter[str] = Counter()
    for each in (vpod.get("status") or {}).get("placements") or ():
        number = each.get("vreplicas", 0)
        if isinstance(number, int) and number > 0:
            found[str(each.get("podName", ""))] += number
    return found


def ordinal(pod: str, workload: str) -> int | None:
    found = _POD.match(pod)
    return int(found[2]) if found and found[1] == workload and len(found[2]) < 10 else None


def set_of(vpod: Object) -> str:
    named = str(vpod["spec"].get("set", ""))
    return named.removeprefix("default/") if vpod["metadata"]["namespace"] == "default" else ""


def is_well(pod: Object, nodes: dict[str, Object]) -> bool:
    """Whether a pod can host vreplicas."""
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
    node = nodes.get(pod["spec"].get("nodeName", ""))
    return (
        conditions.get("Ready") == "True"
        and "deletionTimestamp" not in pod["metadata"]
        and not (pod["metadata"].get("annotations") or {}).get(CLOSED)
        and node is not None
        and not node["spec"].get("unschedulable")
    )


@dataclass
class Judge:
    """Plays a history again, write by write. `found` is what did not hold; `moves` the vreplicas that Waggle moved."""

    sets: dict[str, SetDraw]
    own: set[int]
    found: list[str] = field(default_factory=list)
    moves: int = 0
    writes: int = 0
    vpods: dict[str, Object] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    #: When somebody else last took pods of a StatefulSet away, and since when a pod is not well.
    shrunk: dict[str, float] = field(default_factory=dict)
    unwell: dict[str, float] = field(default_factory=dict)
    #: VPods whose placements somebody else wrote last: a scale-down may be on its way already.
    foreign: dict[str, float] = field(default_factory=dict)

    def take(self, write: Write) -> None:
        handle = getattr(self, f"_{write.kind}", None)
        if handle is not None:
            handle(write)

    def held(self, hosting: SetDraw) -> Counter[str]:
        """What pods of a set hold. A status may name pods of other sets, too: that is nonsense."""
        return sum((placements(vpod) for vpod in self.members(hosting).values()), Counter())

    def members(self, hosting: SetDraw) -> dict[str, Object]:
        """The vpods of a set."""
        return {name: vpod for name, vpod in self.vpods.items() if self.sets.get(set_of(vpod)) is hosting}

    def _say(self, write: Write, text: str) -> None:
        self.found.append(f"version {write.revision}, {write.kind} {write.name}: {text}")

    # -- what Waggle must do right ------------------------------------------------------------------------------------

    def _vpods(self, write: Write) -> None:
        before = self.vpods.get(write.name)
        if write.is_deletion:
            self.vpods.pop(write.name, None)
            return
        self.vpods[write.name] = write.body
        had, has = placements(before or {}), placements(write.body)
        if had == has:
            return
        if write.revision in self.own:
            self.foreign[write.name] = write.at
            return
        self.foreign.pop(write.name, None)
        self.writes += 1
        self.moves += max(0, sum((had - has).values()) - max(0, sum(had.values()) - sum(has.values())))
        hosting = self.sets.get(set_of(write.body))
        if hosting is None:
            self._say(write, f"it has no set, and got {dict(has)}")
            return
        self._check_list(write, hosting)
        wanted = write.body["spec"].get("vreplicas", 1)
        if sum(has.values()) > max(wanted * 2 if hosting.overlap else wanted, sum(had.values())):
            self._say(write, f"more than it wants: {dict(has)}, before {dict(had)}, {write.body['spec']}")
        held = self.held(hosting)
        for pod in has - had:
            self._check_growth(write, hosting, pod, held[pod])

    def _check_list(self, write: Write, hosting: SetDraw) -> None:
        listed = write.body["status"]["placements"]
        names = [each.get("podName") for each in listed]
        odd = [name for name in names if ordinal(str(name), hosting.name) is None]
        if odd or len({*names}) < len(names) or any(each.get("vreplicas", 0) < 1 for each in listed):
            self._say(write, f"a list of placements that is wrong: {listed}")

    def _check_growth(self, write: Write, hosting: SetDraw, pod: str, held: int) -> None:
        if held > hosting.capacity:
            self._say(write, f"{pod} has {held} of {hosting.capacity}")
        number = ordinal(pod, hosting.name)
        late = write.at - self.shrunk.get(hosting.name, float("-inf")) > GRACE
        if number is not None and number >= self.replicas.get(hosting.name, 0) and late:
            self._say(write, f"{pod} got more, and there are {self.replicas.get(hosting.name)} replicas")
        if write.at - self.unwell.get(f"default/{pod}", write.at) > GRACE:
            self._say(
                write, f"{pod} got more, and has not been well for {write.at - self.unwell[f'default/{pod}']:.1f} s"
            )

    def _statefulsets(self, write: Write) -> None:
        name = write.body["metadata"]["name"]
        before, now = self.replicas.get(name), write.body["spec"].get("replicas", 1)
        if write.is_deletion:
            self.replicas.pop(name, None)
            self.shrunk[name] = write.at
            return
        self.replicas[name] = now
        if before is None or before == now:
            return
        if write.revision in self.own:
            if now < before:
                self.shrunk[name] = write.at
            return
        hosting = self.sets[name]
        if not hosting.autoscale:
            self._say(write, f"scaled from {before} to {now}, and Waggle must not")
        if not min(before, hosting.least) <= now <= max(before, hosting.most):
            self._say(write, f"scaled from {before} to {now}, out of {hosting.least} to {hosting.most}")
        if now < before and (lost := self._left_behind(hosting, now, write.at)):
            self._say(write, f"scaled from {before} to {now} while {lost} were there")
        step = hosting.up_step if now > before else hosting.down_step
        if step and abs(now - before) > step and before >= hosting.least:
            self._say(write, f"scaled from {before} to {now} in one step, not {step}")

    def _left_behind(self, hosting: SetDraw, replicas: int, at: float) -> dict[str, int]:
        """Vreplicas that Waggle placed on pods beyond so many replicas, or could know of."""
        known = [name for name in self.members(hosting) if at - self.foreign.get(name, float("-inf")) > GRACE]
        held = sum((placements(self.vpods[name]) for name in known), Counter())
        return {pod: n for pod, n in held.items() if (o := ordinal(pod, hosting.name)) is not None and o >= replicas}

    def _pods(self, write: Write) -> None:
        self.pods.pop(write.name, None) if write.is_deletion else self.pods.update({write.name: write.body})
        self._note_health(write, write.name)

    def _nodes(self, write: Write) -> None:
        name = write.name
        self.nodes.pop(name, None) if write.is_deletion else self.nodes.update({name: write.body})
        for pod, body in self.pods.items():
            if body["spec"].get("nodeName") == name:
                self._note_health(write, pod)

    def _note_health(self, write: Write, pod: str) -> None:
        body = self.pods.get(pod)
        if body is not None and is_well(body, self.nodes):
            self.unwell.pop(pod, None)
        else:
            self.unwell.setdefault(pod, write.at)

    # -- at rest ------------------------------------------------------------------------------------------------------

    def at_rest(self) -> Iterator[str]:
        """What is not as it should be, if nothing happens any more and everything is well."""
        for name, vpod in self.vpods.items():
            yield from self._check_status(name, vpod)
        for hosting in self.sets.values():
            yield from self._check_set(hosting)

    def _check_status(self, name: str, vpod: Object) -> Iterator[str]:
        status, has = vpod.get("status") or {}, placements(vpod)
        hosting = self.sets.get(set_of(vpod))
        if not status.get("reason"):
            yield f"{name} has no reason: {vpod}"
        if hosting is None:
            if has or status.get("reason") in ("Placed", None):
                yield f"{name} has no set: {vpod}"
            return
        scheduled = {each["type"]: each["status"] for each in status.get("conditions", ())}.get("Scheduled")
        is_whole = sum(has.values()) == vpod["spec"].get("vreplicas", 1)
        if (scheduled == "True") != is_whole or status.get("scheduled", 0) != sum(has.values()):
            yield f"{name}: Scheduled is {scheduled}, wanted {vpod['spec']}, status {status}"
        if status.get("observedGeneration") != vpod["metadata"].get("generation"):
            yield f"{name} was not observed: {vpod['metadata'].get('generation')}, {status}"
        gone = [pod for pod in has if (o := ordinal(pod, hosting.name)) is None or o >= self.replicas[hosting.name]]
        if gone:
            yield f"{name} is on {gone}, of {self.replicas[hosting.name]} replicas"

    def _check_set(self, hosting: SetDraw) -> Iterator[str]:
        held = self.held(hosting)
        names = [f"{hosting.name}-{number}" for number in range(self.replicas[hosting.name])]
        over = {pod: held[pod] for pod in names if held[pod] > hosting.capacity}
        if over:
            yield f"set {hosting.name}: {over} of {hosting.capacity}"
        if any(f"default/{pod}" in self.unwell for pod in names):
            yield f"set {hosting.name}: not all pods are well: {self.unwell}"
            return
        mine = self.members(hosting)
        short = {
            name for name, vpod in mine.items() if sum(placements(vpod).values()) < vpod["spec"].get("vreplicas", 1)
        }
        for name, vpod in mine.items():
            asked = self._question(hosting, vpod, names, held)
            counts = [placements(vpod)[pod] for pod in names]
            if name in short and hosting.partial is not None:
                if any(counts):
                    yield f"{name} has {sum(counts)} of {asked.wanted}, and parts are given back"
            elif name in short and sum(counts) < asked.placeable:
                yield f"{name} has {sum(counts)}, and there is room for {asked.placeable}: {asked}"
            if hosting.policy == "balanced" and name not in short and asked.rate(counts)[:3] != best_rate(asked)[:3]:
                yield f"{name} is not balanced: {counts}, {asked}"
        yield from self._check_replicas(hosting, mine, is_short=bool(short))

    def _question(self, hosting: SetDraw, vpod: Object, names: list[str], held: Counter[str]) -> Question:
        spec, has = vpod["spec"], placements(vpod)
        most = spec.get("maxPerPod") or hosting.capacity
        return Question(
            wanted=spec.get("vreplicas", 1),
            spread=spec.get("spread", 0),
            has=[has[pod] for pod in names],
            room=[max(0, min(most, hosting.capacity - held[pod] + has[pod])) for pod in names],
            zones=[self._zone(pod) if hosting.zones else "" for pod in names],
        )

    def _zone(self, pod: str) -> str:
        node = self.nodes[self.pods[f"default/{pod}"]["spec"]["nodeName"]]
        return str(node["metadata"].get("labels", {}).get(ZONE, ""))

    def _check_replicas(self, hosting: SetDraw, mine: dict[str, Object], *, is_short: bool) -> Iterator[str]:
        if not hosting.autoscale:
            return
        specs = [vpod["spec"] for vpod in mine.values()]
        wanted = [spec.get("vreplicas", 1) for spec in specs]
        needed = max(
            -(-sum(wanted) // hosting.capacity),
            max((min(spec.get("spread", 0), number) for spec, number in zip(specs, wanted, strict=True)), default=0),
            max(
                (
                    -(-number // spec["maxPerPod"])
                    for spec, number in zip(specs, wanted, strict=True)
                    if spec.get("maxPerPod")
                ),
                default=0,
            ),
        )
        expected, found = min(hosting.most, max(hosting.least, needed)), self.replicas[hosting.name]
        if is_short and found < hosting.most:
            yield f"set {hosting.name}: {found} replicas of {hosting.most}, and some have no room: {specs}"
        if found < expected or (found > expected and not is_short and needed < hosting.most):
            held = dict(self.held(hosting))
            yield f"set {hosting.name}: {found} replicas, and {expected} are needed: {specs}, {held}"


def judged(world: World) -> Judge:
    """The whole history until now."""
    judge = Judge({each.name: each for each in world.draw.sets}, world.history.own)
    for write in world.history.since(0):
        judge.take(write)
    return judge
