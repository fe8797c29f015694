"""What must hold of every answer, of every look at a server, and of everything once nothing happens any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from tests.conformance.claims_adversary.callers import Ask, Object
from tests.conformance.claims_adversary.ledger import PHASE, Spell
from tests.conformance.claims_adversary.world import POOLS, World, total

#: docs/claims.md, section Answers; "" where the field is wrong before any pool is looked at.
CODES = {
    201: {"Claimed"},
    202: {""},
    400: {"TooManyPods", "UnknownContainer", "NotPossible", "InvalidMetadata", ""},
    403: {"NotYours"},
    404: {"UnknownPool", "UnknownClaim"},
    409: {"KeyReused"},
    410: {"ClaimEnded"},
    499: {"Cancelled"},
    429: {"NoIdlePod", "QueueFull", "TenantQueueFull", "TooManyDemands"},
    502: {"WriteRefused"},
    503: {"NotReady", "ShuttingDown"},
    504: {"DeadlineExceeded", "WriteUnknown", "StartTimeout"},
}
#: How late after its lease a claim may end, and a caller hear of its deadline, on a machine that others use, too.
GRACE = 6.0


def check_answer(world: World, ask: Ask) -> Iterator[str]:
    """What is wrong with the answer to a request for pods."""
    if ask.left:
        return
    instance = world.instances[ask.server]
    if not ask.status:
        if not instance.was_down(ask.sent, ask.answered):
            yield f"no answer although the server lived: {ask}"
        return
    if ask.code not in CODES.get(ask.status, ()):
        yield f"a status with a code that is not in the table: {ask}"
    if ask.status == 429 and "retry-after" not in ask.headers:
        yield f"429 without Retry-After: {ask}"
    if ask.code == "WriteRefused" and not world.refuses:
        yield f"nothing was refused for good: {ask}"
    if ask.status == 503 and not instance.was_down(ask.sent - 5, ask.answered):
        yield f"503 although the server was not restarted: {ask}"
    wait = float(ask.body.get("wait_seconds", 30))
    if (
        ask.code == "DeadlineExceeded"
        and not ask.repeats
        and not wait - 0.05 <= ask.answered - ask.sent <= wait + GRACE
    ):
        yield f"the deadline was {wait} s: {ask}"
    if ask.code == "Cancelled" and world.callers.released_at(ask) is None:
        yield f"nobody wanted it to end: {ask}"
    if ask.code == "NoIdlePod" and wait > 0 and ask.body.get("on_empty") != "fail":
        yield f"it was to wait: {ask}"
    if ask.status == 201:
        yield from check_claimed(world, ask)


def check_claimed(world: World, ask: Ask) -> Iterator[str]:
    """What is wrong with an answer that names pods."""
    uids = [pod["uid"] for pod in ask.answer["pods"]]
    if len(set(uids)) != len(uids):
        yield f"a pod is named twice: {ask}"
    gone = [uid for uid in uids if uid not in world.ledger.pods]
    if gone:
        yield f"pods {gone} never were: {ask}"
        return
    spells = [spell for spell in world.ledger.of(ask.claim) if spell.uid in uids]
    released = world.callers.released_at(ask)
    if len(spells) != len(uids):
        yield f"not all pods carry the claim: {ask}, {spells}"
    if len(uids) != ask.count and released is None and not _is_shaken(world, world.ledger.of(ask.claim)):
        yield f"{len(uids)} pods instead of {ask.count}: {ask}"
    for spell in spells:
        if spell.ask != ask.name:
            yield f"pod {spell.pod} belongs to {spell.ask}: {ask}"
        if spell.pool != ask.pool:
            yield f"pod {spell.pod} is of pool {spell.pool}: {ask}"
        if spell.began > ask.answered:
            yield f"pod {spell.pod} was claimed after the answer: {ask}"
        missing = {n: v for n, v in ask.body.get("requires", {}).items() if spell.labels.get(n) != v}
        if missing:
            yield f"pod {spell.pod} lacks {missing}: {ask}, {spell.labels}"
        if spell.over is not None and spell.over < ask.answered and not excuse(world, spell, spell.over):
            yield f"pod {spell.pod} was taken back before the answer: {ask}, {spell}"
        record = world.ledger.pods[spell.uid]
        shown = next(pod for pod in ask.answer["pods"] if pod["uid"] == spell.uid)
        if shown["name"] != record.name or shown["node"] != record.now["spec"].get("nodeName"):
            yield f"pod {spell.pod} is shown wrongly: {ask}"


def excuse(world: World, spell: Spell, at: float) -> str:
    """Why the claim of this pod could end at that moment; "" if nobody had a reason."""
    released = [world.callers.released.get(spell.claim)]
    for ask in list(world.callers.asks):
        if ask.name == spell.ask:
            released.append(world.callers.released_at(ask))
            if (ask.left or not ask.status) and not _is_answered(world, spell):
                return "its caller left"
            if ask.status not in (0, 201, 202) and not _is_answered(world, spell):
                return "its request failed"
    if any(each is not None and each <= at for each in released):
        return "released"
    wall = time.time() - (time.monotonic() - at)
    if spell.expires and spell.expires <= wall + 0.1:
        return "its lease was over"
    if _is_shaken(world, world.ledger.of(spell.claim)):
        return "a step did something to it"
    if not _is_answered(world, spell) and not any(ask.name == spell.ask for ask in world.callers.asks):
        return "an object's"
    return ""


def _is_shaken(world: World, spells: list[Spell]) -> bool:
    """Whether a step did something that can take one of these pods away."""
    by_workload = {pool for pool in world.shaken if world.ledger.modes[pool] == "recycle"}
    return any(spell.uid in world.touched or spell.pool in by_workload for spell in spells)


def _is_answered(world: World, spell: Spell) -> bool:
    """Whether somebody was told that the claim is theirs."""
    return any(ask.claim == spell.claim and ask.status == 201 for ask in list(world.callers.asks))


def _is_told(world: World, spell: Spell) -> bool:
    """Whether somebody was told that this pod is theirs."""
    told = (ask.answer["pods"] for ask in list(world.callers.asks) if ask.claim == spell.claim and ask.status == 201)
    return any(pod["uid"] == spell.uid for pods in told for pod in pods)


def check_spells(world: World) -> Iterator[str]:
    """Claims that ended without a reason, and requests with two claims."""
    with world.ledger.lock:
        spells = list(world.ledger.spells)
    for spell in spells:
        if spell.over is not None and _is_told(world, spell) and not excuse(world, spell, spell.over):
            yield f"a claim ended without a reason: {spell}"
    told: dict[str, set[str]] = {}
    for ask in list(world.callers.asks):
        if ask.status == 201:
            told.setdefault(ask.name, set()).add(ask.claim)
    for name, claims in told.items():
        live = [claim for claim in claims if any(spell.is_live for spell in world.ledger.of(claim))]
        if len(live) > 1:
            yield f"request {name} has claims {live}"


def check_look(world: World, number: int) -> Iterator[str]:
    """What a scrape and the pages of pools say at any moment."""
    samples = world.metrics(number)
    accepted, pending = total(samples, "waggle_claims_accepted_total"), total(samples, "waggle_claims_pending")
    ended = total(samples, "waggle_claims_ended_total")
    if accepted != ended + pending or pending < 0:
        yield f"server {number}: {accepted} accepted, {ended} ended, {pending} pending"
    for name in ("waggle_claims_missed_total",):
        if total(samples, name):
            yield f"server {number}: {[item for item in samples.items() if item[0].startswith(name)]}"
    for page in world.get(number, "/v1/pools")["items"]:
        if page["accepted"] != page["succeeded"] + sum(page["failed"].values()) + page["pending"]:
            yield f"server {number}: the law does not hold: {page}"
        if min(value for value in page.values() if type(value) is int) < 0:
            yield f"server {number}: a negative number: {page}"


def at_rest(world: World, number: int) -> Iterator[str]:
    """What server `number` says otherwise than the API server, once nothing happens any more."""
    yield from check_look(world, number)
    samples, live = world.metrics(number), world.ledger.live()
    if total(samples, "waggle_claims_writes_in_flight"):
        yield f"server {number} still writes"
    for pool in POOLS:
        page = world.get(number, f"/v1/pools/default/{pool}")
        if "idle" not in page:
            yield f"server {number} does not show pool {pool}: {page}"
            continue
        idle, claimed = world.ledger.names(pool, claimed=False), world.ledger.names(pool, claimed=True)
        real = {"idle": len(idle), "claimed": len(claimed), "in_flight": 0, "starting": 0, "stopping": 0}
        if {name: page[name] for name in real} != real:
            yield f"server {number}, pool {pool}: {real} at the API server ({idle}, {claimed}), and it shows {page}"
        yield from _check_waiting(world, number, pool, page)
        yield from _check_list(world, number, pool, live)


def _check_waiting(world: World, number: int, pool: str, page: Object) -> Iterator[str]:
    waiting = []
    for ask in list(world.callers.asks):
        if ask.status == 202 and ask.server == number and ask.pool == pool and world.callers.released_at(ask) is None:
            answer = world.http_get(world.instances[number], f"/v1/claims/{ask.claim}")
            if answer.status_code == 200 and answer.json()["state"] in ("waiting", "claiming"):
                waiting.append(ask)
    if page["pending"] != len(waiting):
        yield f"server {number}, pool {pool}: {page['pending']} pending, and known are {[str(ask) for ask in waiting]}"
    for ask in waiting:
        wants = ask.body.get("requires", {}).items()
        fits = [pod for pod in world.ledger.claimable(pool) if wants <= pod.labels.items()]
        tenant = ask.body.get("tenant", "")
        have = sum(
            spell.tenant == tenant and spell.pool == pool for each in world.ledger.live().values() for spell in each
        )
        cap = world.draw.caps[pool]
        if len(fits) >= ask.count and not (cap and have + ask.count > cap):
            yield f"it waits, and {[pod.name for pod in fits]} are idle: {ask}"


def _check_list(world: World, number: int, pool: str, live: dict[str, list[Spell]]) -> Iterator[str]:
    listed: dict[str, Object] = {}
    after = ""
    while True:
        page = world.get(number, f"/v1/pools/default/{pool}/claims?limit=3&after={after}")
        listed |= {each["id"]: each for each in page["items"] if each["state"] != "waiting"}
        if not (after := page["next"]):
            break
    real = {claim: spells for claim, spells in live.items() if spells[0].pool == pool}
    if listed.keys() != real.keys():
        odd = {claim: world.get(number, f"/v1/claims/{claim}") for claim in listed.keys() ^ real.keys()}
        yield f"server {number}, pool {pool}: lists {sorted(listed)}, at the API server {sorted(real)}; it says {odd}"
        return
    for claim, spells in real.items():
        shown = listed[claim]
        # After a restart nobody knows whether a pod is missing because it is gone, or because it was not claimed yet.
        may_lack = len(spells) < size_of(world, spells[0]) and world.instances[number].downs
        states = ("claimed", "claiming") if may_lack else ("claimed",)
        if shown["state"] not in states or {pod["uid"] for pod in shown["pods"]} != {each.uid for each in spells}:
            yield f"server {number}: {shown}, at the API server {spells}"
        expires = datetime.fromisoformat(shown["expires"]).timestamp()
        if abs(expires - max(spell.expires for spell in spells)) > 0.01:
            yield f"server {number}: {shown} expires at {expires}, by the pods at {[s.expires for s in spells]}"


def size_of(world: World, spell: Spell) -> int:
    """How many pods the claim was asked for with; 1 if it is an object's."""
    return max((ask.count for ask in list(world.callers.asks) if ask.name == spell.ask), default=1)


def check_claims(world: World) -> Iterator[str]:
    """What is claimed at the API server, and must not be; what was promised, and is not."""
    live, now = world.ledger.live(), time.time()
    asks = list(world.callers.asks)
    by_name: dict[str, list[Ask]] = {}
    for ask in asks:
        by_name.setdefault(ask.name, []).append(ask)
    for claim, spells in live.items():
        mine = by_name.get(spells[0].ask, [])
        if max(spell.expires for spell in spells) < now - GRACE:
            said = [world.get(instance.number, f"/v1/claims/{claim}") for instance in world.instances]
            yield f"a claim outlives its lease by {now - max(s.expires for s in spells):.2f} s: {spells}; {said}"
        if mine and not _is_owned(world, claim, mine):
            yield f"claimed, and nobody has it: {spells}, asked by {[str(ask) for ask in mine]}"
        if claim in world.callers.ended:
            yield f"released, and still claimed: {spells}"
        sizes = {ask.count for ask in mine}
        # If its server died in the midst of it, it ends with its lease, or its key's next request completes it.
        told = any(ask.claim == claim and ask.status == 201 for ask in mine)
        if told and len(spells) not in sizes and not _is_shaken(world, world.ledger.of(claim)):
            yield f"{len(spells)} pods of {sizes}: {spells}"
    for pod in list(world.ledger.pods.values()):
        if not pod.is_gone and pod.labels.get(PHASE) in ("starting", "stopping"):
            yield f"pod {pod.name} is {pod.labels[PHASE]}"


def _is_owned(world: World, claim: str, asks: list[Ask]) -> bool:
    """Whether somebody was told, or could not be told since the server died in the midst of it."""
    for ask in asks:
        if ask.claim == claim and ask.status in (201, 202):
            return True
        if ask.left and ask.body.get("key"):
            return True  # it is kept for the next request with this key
        instance = world.instances[ask.server]
        if (not ask.status or ask.status == 503) and instance.was_down(ask.sent, ask.answered or ask.sent + 5):
            return True
    return False


def codes(world: World) -> Counter[str]:
    """How requests ended."""
    return Counter(f"{ask.status} {ask.code}".strip() if not ask.left else "left" for ask in world.callers.asks)
