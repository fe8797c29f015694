"""An extender over HTTP, called the way kube-scheduler's Go client calls it.

POST with Content-Length, at most two idle connections a host, one time-out for the whole call, only status 200 is
success (the body of anything else is thrown away), redirects as net/http follows them. Thread-safe: binds come from
threads of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import unquote, urljoin

import msgspec
import urllib3
from urllib3.util import Timeout, make_headers, parse_url

from algorithm.decoding import DecodeError
from algorithm.model import Node
from extender.embedded.kubescheduler import gojson
from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.extenders import (
    Extender,
    ExtenderError,
    FilterResult,
    MetaVictims,
    SchedulerPanic,
    Victims,
)
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, decode_node

_HEADERS = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
_IDLE_PER_HOST = 2
_MAX_REDIRECTS = 10

_encode = msgspec.json.Encoder().encode


def _worth_logging(record: logging.LogRecord) -> bool:
    """More connections than are kept idle are no fault here: every bind under way has one."""
    return not record.getMessage().startswith("Connection pool is full")


logging.getLogger("urllib3.connectionpool").addFilter(_worth_logging)


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it was made, for demos and tests."""

    url: str
    #: filter, prioritize, preempt or bind, whatever the configuration calls it.
    kind: str
    pod: str
    #: The nodes that were sent, in their order.
    nodes: tuple[str, ...]
    #: Seconds.
    duration: float
    #: "" if the call succeeded.
    error: str = ""


class HttpExtender(Extender):
    """`on_call` hears of every request when it is over, from the thread that made it."""

    def __init__(self, config: ExtenderConfig, *, on_call: Callable[[Call], None] | None = None) -> None:
        super().__init__(config)
        self._on_call = on_call
        self._headers = dict(_HEADERS)
        auth = parse_url(config.url).auth
        if auth:
            self._headers["Authorization"] = make_headers(basic_auth=unquote(auth))["authorization"]
        self._pool = urllib3.PoolManager(
            maxsize=_IDLE_PER_HOST,
            block=False,
            retries=False,
            **_tls_options(config),  # type: ignore[arg-type]
        )

    def close(self) -> None:
        self._pool.clear()

    # -- verbs --------------------------------------------------------------------------------------------

    def filter(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> FilterResult:
        answer = self._call("filter", pod, _names(nodes), self._node_args(pod, nodes), _filter_answer)
        if answer.get("Error"):
            raise ExtenderError(answer["Error"])
        failed, unresolvable = answer.get("FailedNodes", {}), answer.get("FailedAndUnresolvableNodes", {})
        names = answer.get("NodeNames")
        if self.config.node_cache_capable and names is not None:
            self._check_offered(names, nodes)
            return FilterResult(tuple(names), None, failed, unresolvable)
        return FilterResult((), tuple(answer.get("Nodes", ())), failed, unresolvable)

    def prioritize(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> list[tuple[str, int]]:
        args = self._node_args(pod, nodes)
        scores: list[tuple[str, int]] = self._call("prioritize", pod, _names(nodes), args, _prioritize_answer)
        return scores

    def preempt(self, pod: SchedPod, candidates: Mapping[str, Victims]) -> dict[str, MetaVictims]:
        names = tuple(sorted(candidates))
        whole = not self.config.node_cache_capable
        victims = {name: _victims_json(candidates[name], whole=whole) for name in names}
        args = {
            "Pod": msgspec.Raw(pod.raw),
            "NodeNameToVictims": victims if whole else None,
            "NodeNameToMetaVictims": None if whole else victims,
        }
        answer: dict[str, MetaVictims] = self._call("preempt", pod, names, args, _preempt_answer)
        return answer

    def bind(self, pod: SchedPod, node: str) -> None:
        args = {"PodName": pod.key.name, "PodNamespace": pod.key.namespace, "PodUID": pod.uid, "Node": node}
        error = self._call("bind", pod, (node,), args, _bind_answer)
        if error:
            raise ExtenderError(error)

    def _node_args(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> dict[str, Any]:
        """One of Nodes and NodeNames, the other one null."""
        if self.config.node_cache_capable:
            return {"Pod": msgspec.Raw(pod.raw), "Nodes": None, "NodeNames": _names(nodes)}
        items = [msgspec.Raw(node.raw) for node in nodes]
        return {"Pod": msgspec.Raw(pod.raw), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    def _check_offered(self, names: Sequence[str], nodes: Sequence[SchedNode]) -> None:
        offered = {node.name for node in nodes}
        for name in names:
            if name not in offered:
                raise ExtenderError(
                    f'extender "{self.config.url}" claims a filtered node "{name}" '
                    "which is not found in the input node list"
                )

    # -- HTTP ---------------------------------------------------------------------------------------------

    def _call(
        self, kind: str, pod: SchedPod, nodes: tuple[str, ...], args: object, read: Callable[[Any, str], Any]
    ) -> Any:
        verb: str = getattr(self.config, f"{kind}_verb")
        url, started, error = f"{self.config.url}/{verb}", monotonic(), ""
        try:
            return read(gojson.first_value(self._post(verb, url, _encode(args))), self.config.url)
        except (ExtenderError, gojson.GoJsonError, SchedulerPanic) as failure:
            error = str(failure)
            if isinstance(failure, gojson.GoJsonError):
                raise ExtenderError(error) from failure
            raise
        finally:
            if self._on_call is not None:
                self._on_call(Call(url, kind, str(pod.key), nodes, monotonic() - started, error))

    def _post(self, verb: str, url: str, body: bytes) -> bytes:
        method, target, content = "POST", url, body
        deadline = monotonic() + self.config.http_timeout
        for _ in range(_MAX_REDIRECTS):
            response = self._request(method, target, content, deadline - monotonic())
            location = response.headers.get("Location")
            if response.status not in (301, 302, 303, 307, 308) or not location:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                return response.data
            target = urljoin(target, location)
            if response.status in (301, 302, 303):
                method, content = "GET", b""
        raise ExtenderError(f'Post "{url}": stopped after {_MAX_REDIRECTS} redirects')

    def _request(self, method: str, url: str, body: bytes, seconds: float) -> urllib3.BaseHTTPResponse:
        if "://" not in url:
            raise ExtenderError(f'parse "{url}": first path segment in URL cannot contain colon')
        if seconds <= 0:
            raise ExtenderError(_timed_out(url))
        try:
            return self._pool.request(
                method,
                url,
                body=body or None,
                headers=self._headers,
                timeout=Timeout(total=seconds),
                redirect=False,
                retries=False,
            )
        except urllib3.exceptions.NewConnectionError as error:
            reason = "connection refused" if "refused" in str(error) else str(error)
            raise ExtenderError(f'Post "{url}": dial tcp {parse_url(url).netloc}: connect: {reason}') from error
        except urllib3.exceptions.TimeoutError as error:
            raise ExtenderError(_timed_out(url)) from error
        except urllib3.exceptions.ProtocolError as error:
            raise ExtenderError(f'Post "{url}": EOF') from error
        except urllib3.exceptions.HTTPError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error


def _timed_out(url: str) -> str:
    return f'Post "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'


def _tls_options(config: ExtenderConfig) -> dict[str, object]:
    """Without a CA, enableHTTPS means "do not verify"; without both, the system's roots verify."""
    if not config.url.startswith("https:"):
        return {}
    tls = config.tls_config
    options: dict[str, object] = {}
    if tls is not None:
        given = {"cert_file": tls.cert_file, "key_file": tls.key_file, "ca_certs": tls.ca_file}
        given |= {"server_hostname": tls.server_name, "assert_hostname": tls.server_name}
        options = {name: value for name, value in given.items() if value}
    if (tls is not None and tls.insecure) or (config.enable_https and "ca_certs" not in options):
        options |= {"cert_reqs": "CERT_NONE", "assert_hostname": False}
    return options


def _names(nodes: Sequence[SchedNode]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def _victims_json(victims: Victims, *, whole: bool) -> dict[str, Any]:
    pods = [msgspec.Raw(pod.raw) if whole else {"UID": pod.uid} for pod in victims.pods]
    return {"Pods": pods, "NumPDBViolations": victims.pdb_violations}


# -- answers -------------------------------------------------------------------------------------------------


def _node(value: Any, path: str) -> SchedNode:
    if not isinstance(value, dict):
        gojson.struct(value, path, {})
    try:
        return decode_node(_encode(value))
    except DecodeError as error:
        raise gojson.GoJsonError(f"json: cannot unmarshal into Go struct field {path}: {error}") from error


_ZERO_NODE = SchedNode(node=Node(name=""), raw=b"{}")


def _node_items(value: Any, path: str) -> list[SchedNode]:
    items: list[SchedNode] = gojson.struct(value, path, {"items": gojson.list_of(_node, _ZERO_NODE, "v1.Node")}).get(
        "items", []
    )
    return items


_NODE_TEXTS = gojson.map_of(gojson.text, "", "string")
_FILTER_FIELDS: dict[str, gojson.Reader] = {
    "Nodes": _node_items,
    "NodeNames": gojson.list_of(gojson.text, "", "string"),
    "FailedNodes": _NODE_TEXTS,
    "FailedAndUnresolvableNodes": _NODE_TEXTS,
    "Error": gojson.text,
}


def _filter_answer(value: Any, url: str) -> dict[str, Any]:  # noqa: ARG001 - all answers are read with the URL
    return gojson.struct(value, "ExtenderFilterResult", _FILTER_FIELDS)


def _prioritize_answer(value: Any, url: str) -> list[tuple[str, int]]:  # noqa: ARG001
    def host(item: Any, path: str) -> tuple[str, int]:
        found = gojson.struct(item, path, {"Host": gojson.text, "Score": gojson.int64})
        return found.get("Host", ""), found.get("Score", 0)

    scores: list[tuple[str, int]] = gojson.list_of(host, ("", 0), "v1.HostPriority")(
        [] if value is None else value, "HostPriority"
    )
    return scores


def _bind_answer(value: Any, url: str) -> str:  # noqa: ARG001
    error: str = gojson.struct(value, "ExtenderBindingResult", {"Error": gojson.text}).get("Error", "")
    return error


def _preempt_answer(value: Any, url: str) -> dict[str, MetaVictims]:
    found = gojson.struct(
        value,
        "ExtenderPreemptionResult",
        {"NodeNameToMetaVictims": gojson.map_of(_meta_victims, None, "*v1.MetaVictims")},
    )
    victims: dict[str, MetaVictims | None] = found.get("NodeNameToMetaVictims", {})
    for node, chosen in victims.items():
        if chosen is None or None in chosen.uids:
            raise SchedulerPanic(f"extender {url} answered null among the victims of node {node}")
    return victims  # type: ignore[return-value]


def _meta_victims(value: Any, path: str) -> MetaVictims:
    def uid(item: Any, path: str) -> str:
        found: str = gojson.struct(item, path, {"UID": gojson.text}).get("UID", "")
        return found

    fields: dict[str, gojson.Reader] = {
        "Pods": gojson.list_of(uid, None, "*v1.MetaPod"),
        "NumPDBViolations": gojson.int64,
    }
    found = gojson.struct(value, path, fields)
    return MetaVictims(tuple(found.get("Pods", ())), found.get("NumPDBViolations", 0))
