"""From an order to its answer, in the child process: reads the request, asks for what it needs, plans, and writes."""

from __future__ import annotations

import msgspec

from extender.logs.printable import printable
from extender.plan.errors import PlanError
from extender.plan.fingerprint import fingerprint
from extender.plan.records import Changes, Options, Plan, Sign, World
from extender.plan.run import make_plan
from extender.plan.showing.difference import Difference, difference, of_change
from extender.plan.showing.dot import dot
from extender.plan.showing.markdown import markdown
from extender.plan.showing.svg import svg
from extender.plan.showing.table import table
from extender.server.plans.changes import read_changes, without_what_ifs
from extender.server.plans.frames import MOST_NEEDS, Answer, Channel, Ended, Needs, Order, Sent
from extender.server.plans.needs import needs_of, needs_of_waiting
from extender.server.plans.requests import PlanRequest, RequestError, read_request
from extender.server.plans.world import WorldBuilder

#: Bytes of an answer: it passes through the server's own process. A row has some 300.
MOST_ANSWER = 32 << 20
#: Nodes whose pods are read in full because the plan evicts some of them.
_MOST_NODES = 200
#: What an HTTP caller can ask with for all rows: it has no options of a command.
_ALL_BY = "format json"
_MEDIA = {
    "json": "application/json",
    "markdown": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "dot": "text/vnd.graphviz; charset=utf-8",
    "text": "text/plain; charset=utf-8",
}

#: The fields of a request by what the errors of a plan begin with: they name the options of the command.
_FIELDS = {
    "delete": "delete",
    "cordon": "cordon",
    "drain": "drain",
    "add nodes": "add_nodes",
    "priority": "priorities",
}


class TooLargeError(Exception):
    """The answer is too large to be sent."""


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The body in the format json."""

    plan: Plan
    #: From the plan without the what-if changes, if it was asked for.
    difference: Difference | None = None
    #: The graph as SVG, if it was asked for.
    graph: str | None = None


def answer_to(order: Order, channel: Channel) -> Answer:
    """Return the answer. Raises Ended, MemoryError."""
    try:
        request = read_request(order.body, is_yaml=order.is_yaml, format_=order.format)
        changes, warnings = read_changes(request)
        found = _Making(order, request, changes, channel).run()
        plan = msgspec.structs.replace(found.plan, warnings=(*warnings, *found.plan.warnings))
        return _body(request, msgspec.structs.replace(found, plan=plan))
    except RequestError as error:
        return Answer(outcome="refused", status=400, error=str(error), field=error.field)
    except PlanError as error:
        return Answer(outcome="refused", status=400, error=str(error), field=_FIELDS.get(str(error).partition(":")[0]))
    except TooLargeError as error:
        return Answer(outcome="too_large", status=422, error=str(error), code="PlanTooLarge")


#: Kinds that are planned, and of which those of the cluster are not read: running pods are known without their owners.
_NOT_READ = frozenset({"Pool", "Claim", "VPodSet", "VPod"})


class _Making:
    """One plan, and what it has been told of the cluster."""

    def __init__(self, order: Order, request: PlanRequest, changes: Changes, channel: Channel) -> None:
        self._request = request
        self._changes = changes
        self._channel = channel
        self._builder = WorldBuilder(order)
        self._notes: tuple[str, ...] = ()
        self._asked = 0
        self._options = Options(
            seed=request.seed, most_pods=order.most_pods, most_nodes=order.most_nodes, estimate=request.estimate
        )

    def run(self) -> PlanAnswer:
        """Return the plan. Raises PlanError, Ended."""
        world = self._ask(needs_of(self._changes))
        more = needs_of_waiting(world.pods)
        if not more.is_empty:
            world = self._ask(more)
        made = make_plan(world, self._changes, self._options)
        while (nodes := self._evicted_from(made)) and self._asked < MOST_NEEDS:
            world = self._ask(Needs(nodes=nodes))
            made = make_plan(world, self._changes, self._options)
        return self._complete(world, made)

    def _ask(self, needs: Needs) -> World:
        """Return the world with what is sent for these needs."""
        self._asked += 1
        self._channel.send(needs)
        while not isinstance(message := self._channel.receive(), Sent):
            if isinstance(message, Answer | Needs | Order):
                raise Ended(f"{type(message).__name__} was not expected")
            self._builder.add(message)
        self._notes += message.notes
        return self._builder.world()

    def _evicted_from(self, plan: Plan) -> tuple[str, ...]:
        """The nodes of evicted pods of which it is not known what would make them again; none if there are too many."""
        gone = (row for row in plan.rows if row.sign in (Sign.EVICTED, Sign.MOVES) and row.uid in self._builder.lean)
        nodes = tuple(sorted({row.before for row in gone if row.before}))
        return nodes if len(nodes) <= _MOST_NODES else ()

    def _complete(self, world: World, made: Plan) -> PlanAnswer:
        warnings = (*made.warnings, *self._builder.notes(), *self._notes)
        if any(each.kind in _NOT_READ for each in self._changes.create):
            warnings += (
                "pools, claims and vpods of the cluster are not considered, only those of the request: "
                "`waggle plan` reads them",
            )
        shown = made.fingerprint or fingerprint(world).text
        plan = msgspec.structs.replace(made, fingerprint=shown, warnings=warnings)
        differs = None
        if self._request.compare and self._request.has_changes:
            differs = difference(make_plan(world, without_what_ifs(self._changes), self._options), plan)
        return PlanAnswer(plan=plan, difference=differs, graph=svg(plan) if self._request.graph else None)


def _body(request: PlanRequest, found: PlanAnswer) -> Answer:
    if request.format == "json":
        body = msgspec.json.encode(found)
    else:
        body = "\n\n".join(filter(None, (_text(request.format, found.plan), _compared(request, found)))).encode()
    if len(body) > MOST_ANSWER:
        raise TooLargeError(
            f"the answer has {len(body) >> 20} MiB, more than {MOST_ANSWER >> 20}; format text is shorter"
        )
    outcome = "clean" if found.plan.is_clean else "waits"
    return Answer(outcome=outcome, media=_MEDIA[request.format], body=body)


def _text(format_: str, plan: Plan) -> str:
    writers = {"markdown": markdown, "svg": svg, "dot": dot, "text": _table}
    return writers[format_](plan)


def _table(plan: Plan) -> str:
    """For a terminal, whose owner must not see what a pod's author has hidden in a name."""
    return table(plan, clean=_clean, all_by=_ALL_BY)


def _clean(text: str) -> str:
    return printable(text, keep="\n")


def _compared(request: PlanRequest, found: PlanAnswer) -> str:
    """The difference as text, where a format has room for one."""
    if found.difference is None or request.format not in ("text", "markdown"):
        return ""
    text = _clean(of_change(found.difference, all_by=_ALL_BY))
    return text if request.format == "text" else f"```text\n{text}\n```\n"
