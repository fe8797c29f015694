"""The extenders of a workload: one HTTP server that answers by the script, and remembers every call in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from tests.golden.calls.names import Names
from tests.golden.calls.play import Answer, Bind, Drop, Keep, Never, Object, Raw, Scores, Victims
from tests.support.kubescheduler.objects import ScriptedServer

#: More nodes than this are counted, not named: samples have a size, not members.
MANY_NODES = 20
Reply = tuple[int, bytes, Mapping[str, str]]
_AGREES: dict[str, Answer] = {"filter": Keep(("*",)), "prioritize": Scores({}), "bind": Bind()}


class Extenders:
    """`urls` has one prefix for each. With `forward`, a URL, that one answers instead of the script.

    Before a call is forwarded, `ready` is called, which may wait.
    """

    def __init__(
        self,
        count: int,
        http: httpx.Client,
        names: Names,
        *,
        forward: str = "",
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.calls: list[Object] = []
        #: The first body of each verb.
        self.bodies: dict[str, Object] = {}
        self._http, self._names, self._forward, self._ready = http, names, forward, ready
        self._answers: dict[str, list[Answer]] = {}
        self._lock = threading.Lock()
        self._opened, self._ended = threading.Event(), threading.Event()
        self._server = ScriptedServer(self._reply)
        self.urls = [f"{self._server.url}/{index}" for index in range(count)]

    def __enter__(self) -> Extenders:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._opened.set()
        self._server.__exit__()

    def answer(self, answers: Mapping[str, Answer | Sequence[Answer]]) -> None:
        with self._lock:
            for key, given in answers.items():
                self._answers[key] = list(given) if isinstance(given, tuple) else [given]  # type: ignore[list-item]
        self._opened.clear()

    def open(self) -> None:
        self._opened.set()

    def asked(self, verb: str, pod: str) -> int:
        with self._lock:
            return sum((call["verb"], call["pod"]) == (verb, pod) for call in self.calls)

    # -- one call -------------------------------------------------------------------------------------------

    def _reply(self, path: str, body: bytes) -> Reply | None:
        index, verb = path.strip("/").split("/", 1)
        args = json.loads(body)
        name, uid = _identity(verb, args)
        self._names.learn(name, uid)
        pod = self._names.pod(uid)
        with self._lock:
            self.calls.append(self._seen(int(index), verb, pod, args))
            self.bodies.setdefault(verb, self._names.body(args))
            answer = self._scripted(index, verb, pod)
        if self._forward:
            self._ready()
            response = self._http.post(f"{self._forward}/{verb}", content=body)
            return response.status_code, response.content, {}
        return self._given(answer, verb, args)

    def _seen(self, index: int, verb: str, pod: str, args: Object) -> Object:
        """A call as it is compared; what is usual is left out."""
        call: Object = {"verb": verb, "pod": pod}
        if index:
            call["extender"] = index
        if verb == "bind":
            return {**call, "nodes": [args["Node"]]}
        if verb == "preempt":
            call |= {"victims": self._victims(args), "whole": args["NodeNameToVictims"] is not None}
        else:
            names = offered(args)
            call |= {"nodes": names if len(names) <= MANY_NODES else len(names), "whole": args["Nodes"] is not None}
        return {key: value for key, value in {**call, **self._status(args["Pod"])}.items() if value}

    def _status(self, pod: Object) -> Object:
        status = pod.get("status", {})
        conditions = [[c["type"], c["status"], c.get("reason", "")] for c in status.get("conditions", [])]
        return {"conditions": conditions, "nominated": status.get("nominatedNodeName", "")}

    def _victims(self, args: Object) -> Object:
        nodes: Object = {}
        for name, victims in sorted((args["NodeNameToMetaVictims"] or args["NodeNameToVictims"]).items()):
            pods = [self._names.pod(uid) for uid in _uids(victims)]
            violations = victims.get("NumPDBViolations", 0)
            nodes[name] = {"pods": pods, "violations": violations} if violations else pods
        return nodes

    def _scripted(self, index: str, verb: str, pod: str) -> Answer | None:
        for key in (f"{index}/{verb} {pod}", f"{index}/{verb}", f"{verb} {pod}", verb):
            given = self._answers.get(key)
            if given:
                return given.pop(0) if len(given) > 1 else given[0]
        return _AGREES.get(verb)

    def _given(self, answer: Answer | None, verb: str, args: Object) -> Reply | None:
        if isinstance(answer, Raw):
            return answer.status, answer.body.encode(), {}
        if isinstance(answer, Drop):
            return None
        if isinstance(answer, Never):
            self._ended.wait()
            return None
        if getattr(answer, "held", False):
            self._opened.wait()
        give: Callable[[Any, Object], Any] = getattr(self, f"_{verb}")
        return 200, json.dumps(give(answer, args)).encode(), {}

    # -- answers by verb ------------------------------------------------------------------------------------

    def _filter(self, answer: Keep, args: Object) -> Object:
        kept = [name for name in offered(args) if name in answer.nodes or answer.nodes == ("*",)]
        kept += [name for name in answer.nodes if name not in (*kept, "*")]
        whole = answer.form == "nodes" or (answer.form == "as asked" and args["Nodes"] is not None)
        given: Object = {"Nodes": {"items": [{"metadata": {"name": name}} for name in kept]}} if whole else {}
        if not whole:
            given["NodeNames"] = kept
        return {
            **given,
            "FailedNodes": dict(answer.failed),
            "FailedAndUnresolvableNodes": dict(answer.unresolvable),
        }

    def _prioritize(self, answer: Scores, args: Object) -> list[Object]:
        return [{"Host": name, "Score": score} for name, score in answer.of.items()]

    def _preempt(self, answer: Victims | None, args: Object) -> Object:
        if answer is None:
            asked = args["NodeNameToMetaVictims"] or args["NodeNameToVictims"]
            chosen = {name: (_uids(victims), victims.get("NumPDBViolations", 0)) for name, victims in asked.items()}
        else:
            chosen = {
                name: ([self._names.uid(pod) for pod in pods], answer.violations.get(name, 0))
                for name, pods in answer.of.items()
            }
        victims = {
            name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
            for name, (uids, violations) in chosen.items()
        }
        return {"NodeNameToMetaVictims": victims}

    def _bind(self, answer: Bind, args: Object) -> Object:
        if not answer.binds:
            return {"Error": answer.error}
        binding = {
            "metadata": {"name": args["PodName"], "uid": args["PodUID"], "annotations": {"bound-by": "extender"}},
            "target": {"kind": "Node", "name": answer.node or args["Node"]},
        }
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        response = self._http.post(path, json=binding)
        return {"Error": answer.error or ("" if response.is_success else response.json()["message"])}


def _identity(verb: str, args: Object) -> tuple[str, str]:
    if verb == "bind":
        return args["PodName"], args["PodUID"]
    return args["Pod"]["metadata"]["name"], args["Pod"]["metadata"]["uid"]


def offered(args: Object) -> list[str]:
    """The nodes of a filter or prioritize call, by name: their order changes from cycle to cycle."""
    if args["NodeNames"] is not None:
        return sorted(args["NodeNames"])
    return sorted(node["metadata"]["name"] for node in args["Nodes"]["items"])


def _uids(victims: Object) -> list[str]:
    """From whole pods or from UIDs alone."""
    return [each.get("UID") or each["metadata"]["uid"] for each in victims["Pods"] or ()]
