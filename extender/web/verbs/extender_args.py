"""Decodes the bodies of kube-scheduler's four verbs from bytes straight into the engine's types.

Each body is decoded at most twice. The first attempt expects exactly what kube-scheduler sends (Go's field names, one
pass in C). Only if that gives no usable request, the body is decoded leniently: the outer names in any case
(`nodeNames` from a person with curl), null elements left out. If that fails too, BadRequest names the field's path.
Unknown fields are ignored and null means absent, as in Go.

The content of a body cannot make decoding slow: nodes, victims and the pod have limits, and a large body is decoded in
kube-scheduler's form only, after a check of how many parts it can have.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from algorithm.decoding import DecodeError
from algorithm.interface import SuggestedNodes
from algorithm.kubernetes_types import PodWire
from algorithm.model import Pod
from algorithm.reads import LONGEST_NAME
from extender.kube.informers.podreader import PodReader
from extender.scheduling.events import Candidate
from extender.web.errors import BadRequest
from extender.web.verbs.costly import refuse_costly
from extender.web.verbs.plain_names import SHORT, plain_names

#: A node's name or a UID. Longer ones would not only be slow to read; the answer repeats them, too.
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
_Text = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
#: Nodes of a request by name. Kubernetes supports 5,000; some clusters have more than 15,000.
MOST_NODES: Final = 20_000
#: Full Node objects of a request: 10,000 of them are some 90 MB.
MOST_ITEMS: Final = 10_000
#: Victims of a request, on all its nodes: there may be 110 pods on a node, and kube-scheduler looks at a tenth of the
#: nodes.
MOST_VICTIMS: Final = 100_000
#: Bytes from which on a body is large.
_LARGE: Final = 1 << 20
#: Bytes between two commas of a large body, on average. Go's nodes and pods have more than 20, victims by UID 40.
_BYTES_A_COMMA: Final = 10
_BYTES_A_COMMA_OF_VICTIMS: Final = 20
#: Bytes of all names of a request, with their quotes.
_MOST_BYTES_OF_NAMES: Final = MOST_NODES * (LONGEST_NAME + 3)

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class FilterArgs(NamedTuple):
    """The pod of a filter or prioritize request, and the nodes that are offered to it.

    `items` are the full Node objects in the order of `nodes` if the caller sent them (nodeCacheCapable: false) and
    expects them back, else None. A name may occur twice.
    """

    pod: Pod
    nodes: SuggestedNodes
    items: list[msgspec.Raw] | None = None


class PreemptRequest(NamedTuple):
    pod: Pod
    candidates: tuple[Candidate, ...]


class BindRequest(NamedTuple):
    namespace: str
    name: str
    uid: str
    node: str


_ABSENT: Final = msgspec.Raw(b"null")


# -- the exact forms, named as k8s.io/kube-scheduler/extender/v1 names them -------------------------------------


class _NodeList(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class _ExtenderArgs(msgspec.Struct, gc=False, rename="pascal"):
    pod: PodWire | None = None
    nodes: _NodeList | None = None
    node_names: list[_Name] | None = None


@cache
def _large_args() -> msgspec.json.Decoder[Any]:
    """The decoder of a large offer. Made by the first one: it takes 50 ms, and a caller that sends names sends none.

    Its nodes are an array with a maximum number of values. One more value stops the decoder; a list would be read to
    its end first, and a body can hold a million values.
    """
    fields = [(f"i{number}", msgspec.Raw, _ABSENT) for number in range(MOST_ITEMS)]
    items = msgspec.defstruct("_Items", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    nodes = msgspec.defstruct("_BoundedNodes", [("items", items | None, None)], gc=False)
    parts = [("pod", msgspec.Raw, _ABSENT), ("nodes", nodes | None, None), ("node_names", msgspec.Raw, _ABSENT)]
    return msgspec.json.Decoder(msgspec.defstruct("_LargeArgs", parts, gc=False, rename="pascal"))


class _LargePreemption(msgspec.Struct, gc=False, rename="pascal"):
    pod: msgspec.Raw = _ABSENT
    node_name_to_victims: msgspec.Raw = _ABSENT
    node_name_to_meta_victims: msgspec.Raw = _ABSENT


class _NameMeta(msgspec.Struct, gc=False):
    name: _Text | None = None
    uid: _Text | None = None


class _Named(msgspec.Struct, gc=False):
    metadata: _NameMeta | None = None


class _Victims(msgspec.Struct, gc=False):
    pods: list[_Named] | None = msgspec.field(name="Pods")
    violations: _Count | None = msgspec.field(name="NumPDBViolations", default=None)


class _MetaPod(msgspec.Struct, gc=False):
    uid: _Name = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct, gc=False):
    pods: list[_MetaPod] | None = msgspec.field(name="Pods")
    violations: _Count | None = msgspec.field(name="NumPDBViolations", default=None)


_VictimMap = dict[_Name, _Victims | None]
_MetaVictimMap = dict[_Name, _MetaVictims | None]


class _PreemptionArgs(msgspec.Struct, gc=False, rename="pascal"):
    pod: PodWire | None = None
    node_name_to_victims: _VictimMap | None = None
    node_name_to_meta_victims: _MetaVictimMap | None = None


class _BindingArgs(msgspec.Struct, gc=False, rename="pascal"):
    pod_name: str | None = None
    pod_namespace: str | None = None
    pod_uid: str | None = msgspec.field(name="PodUID", default=None)
    node: str | None = None


_T = TypeVar("_T")
_KEEPS_ALL = PodReader()
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: Bytes of a pod that are read. etcd accepts objects of 1.5 MiB, in a form that is shorter than JSON.
_MOST_POD_BYTES = 2 << 20

_extender_args = msgspec.json.Decoder(_ExtenderArgs)
_preemption_args = msgspec.json.Decoder(_PreemptionArgs)
_binding_args = msgspec.json.Decoder(_BindingArgs)
_named = msgspec.json.Decoder(_Named | None)
_large_preemption = msgspec.json.Decoder(_LargePreemption)
_victim_map = msgspec.json.Decoder(_VictimMap | None)
_meta_victim_map = msgspec.json.Decoder(_MetaVictimMap | None)
_pod_wire = msgspec.json.Decoder(PodWire | None)
_names = msgspec.json.Decoder(list[_Name] | None)


def decode_filter(body: bytes, reader: PodReader = _KEEPS_ALL) -> FilterArgs:
    """Decode the body of filter or prioritize, with the pod as `reader` reads it. Raises BadRequest."""
    if len(body) > _LARGE:
        return _decode_large(body, reader)
    plain = plain_names(body) if len(body) > SHORT else None
    if plain is not None:
        args = _exactly(_extender_args, plain.head)
        if args is not None and args.pod is not None:
            return _args_of_names(_pod(args.pod, reader), plain.names)
    args = _exactly(_extender_args, body)
    if args is None or args.pod is None or (args.node_names is None and args.nodes is None):
        fields = _fields(body, ("Pod", "Nodes", "NodeNames"))
        args = _ExtenderArgs(
            pod=_field(fields, "Pod", PodWire),
            nodes=_field(fields, "Nodes", _NodeList),
            node_names=_present(_field(fields, "NodeNames", list[_Name | None])),
        )
    pod = _pod(args.pod, reader)
    if args.node_names is not None or args.nodes is None:
        return _args_of_names(pod, SuggestedNodes(args.node_names or ()))
    items = args.nodes.items or []
    _limit(len(items), MOST_ITEMS, "Nodes.items", "nodes")
    return _args_of_items(pod, items)


def decode_preempt(body: bytes, reader: PodReader = _KEEPS_ALL) -> PreemptRequest:
    """Decode the body of preempt, with the pod as `reader` reads it. Raises BadRequest."""
    args = _large_preemption_args(body) if len(body) > _LARGE else _small_preemption_args(body)
    pod = _pod(args.pod, reader)
    for field, victims in (
        ("NodeNameToVictims", args.node_name_to_victims),
        ("NodeNameToMetaVictims", args.node_name_to_meta_victims),
    ):
        _limit(len(victims or ()), MOST_NODES, field, "nodes")
        _limit(sum(len(each.pods or ()) for each in (victims or {}).values() if each), MOST_VICTIMS, field, "victims")
        for node in victims or ():
            _refuse_control(node, f"{field}[{node}]")
    if args.node_name_to_meta_victims is not None:
        return PreemptRequest(pod, _meta_candidates(args.node_name_to_meta_victims))
    return PreemptRequest(pod, _full_candidates(args.node_name_to_victims or {}))


def _small_preemption_args(body: bytes) -> _PreemptionArgs:
    args = _exactly(_preemption_args, body)
    if (
        args is None
        or args.pod is None
        or (args.node_name_to_victims is None and args.node_name_to_meta_victims is None)
    ):
        fields = _fields(body, ("Pod", "NodeNameToVictims", "NodeNameToMetaVictims"))
        args = _PreemptionArgs(
            pod=_field(fields, "Pod", PodWire),
            node_name_to_victims=_field(fields, "NodeNameToVictims", _VictimMap),
            node_name_to_meta_victims=_field(fields, "NodeNameToMetaVictims", _MetaVictimMap),
        )
    return args


def decode_bind(body: bytes) -> BindRequest:
    """Decode the body of bind; all four fields must be there. Raises BadRequest."""
    args = _exactly(_binding_args, body)
    if args is None or not (args.pod_name and args.pod_namespace and args.pod_uid and args.node):
        names = ("PodName", "PodNamespace", "PodUID", "Node")
        fields = _fields(body, names)
        given = {name: _field(fields, name, str) for name in names}
        for name, value in given.items():
            if not value:
                raise BadRequest(f"{name} must not be empty", name)
        args = _BindingArgs(*given.values())
    request = BindRequest(args.pod_namespace or "", args.pod_name or "", args.pod_uid or "", args.node or "")
    for text, field in zip(request, ("PodNamespace", "PodName", "PodUID", "Node"), strict=True):
        _refuse_control(text, field)
    return request


# -- the parts ------------------------------------------------------------------------------------------------


def _pods_of(body: bytes) -> list[msgspec.Raw]:
    """The pod under any spelling of its name, as the lenient decoder would take it."""
    try:
        return [part for name, part in _object.decode(body).items() if name.lower() == "pod"]
    except _UNREADABLE:
        return []


def _exactly(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T | None:
    """Decode the body as kube-scheduler sends it; None if it has another form (the lenient decoder then finds out
    why)."""
    try:
        return decoder.decode(body)
    except _UNREADABLE:
        return None


def _pod(wire: PodWire | None, reader: PodReader) -> Pod:
    if wire is None:
        raise BadRequest("Pod is missing; expected a v1 Pod object", "Pod")
    try:
        pod = reader.from_wire(wire)
    except DecodeError as error:
        text = f"Pod.{error}"
        raise BadRequest(text, text.split(" ", 1)[0].rstrip(":")) from error
    if not pod.uid:
        raise BadRequest("Pod.metadata.uid must not be empty", "Pod.metadata.uid")
    _refuse_control(pod.name, "Pod.metadata.name")
    _refuse_control(pod.namespace, "Pod.metadata.namespace")
    _refuse_control(pod.uid, "Pod.metadata.uid")
    return pod


def _refuse_control(text: str, field: str) -> None:
    """Raises BadRequest for a name that no object can have: it would stand in paths, Events, logs and annotations."""
    if not text.isprintable():
        raise BadRequest(f"{field} has control characters: {text!r}", field)


def _args_of_items(pod: Pod, items: list[msgspec.Raw]) -> FilterArgs:
    names, kept = [], []
    for index, item in enumerate(items):
        field = f"Nodes.items[{index}]"
        node = _decode(_named, item, field)
        if node is None:
            continue
        if node.metadata is None or not node.metadata.name:
            raise BadRequest(f"{field}.metadata.name must not be empty", f"{field}.metadata.name")
        names.append(node.metadata.name)
        kept.append(item)
    return FilterArgs(pod, SuggestedNodes(names), kept)


def _args_of_names(pod: Pod, names: SuggestedNodes) -> FilterArgs:
    _limit(len(names), MOST_NODES, "NodeNames", "names")
    return FilterArgs(pod, names)


def _limit(number: int, most: int, field: str, what: str) -> None:
    if number > most:
        raise BadRequest(f"{field}: {number} {what}; expected at most {most}", field)


# -- large bodies ---------------------------------------------------------------------------------------------


def _decode_large(body: bytes, reader: PodReader) -> FilterArgs:
    """Like `decode_filter`, for kube-scheduler's own form only."""
    refuse_costly(body, bytes_a_comma=_BYTES_A_COMMA)
    args = _large(body)
    pod = _pod(_large_pod(args.pod, body), reader)
    if len(args.node_names) > _MOST_BYTES_OF_NAMES:
        text = f"NodeNames: {len(args.node_names)} bytes; expected at most {MOST_NODES} names of {LONGEST_NAME}"
        raise BadRequest(text, "NodeNames")
    listed = bytes(args.node_names)
    if args.nodes is None or listed != b"null":
        _limit(listed.count(b",") + 1, MOST_NODES, "NodeNames", "names")
        return _args_of_names(pod, SuggestedNodes(_decode(_names, listed, "NodeNames") or ()))
    items: tuple[msgspec.Raw, ...] = ()
    if args.nodes.items is not None:
        items = msgspec.structs.astuple(args.nodes.items)
    return _args_of_items(pod, [item for item in items if item is not _ABSENT])


def _large_preemption_args(body: bytes) -> _PreemptionArgs:
    refuse_costly(body, bytes_a_comma=_BYTES_A_COMMA_OF_VICTIMS)
    args = _decode(_large_preemption, body, "body")
    return _PreemptionArgs(
        pod=_large_pod(args.pod, body),
        node_name_to_victims=_decode(_victim_map, args.node_name_to_victims, "NodeNameToVictims"),
        node_name_to_meta_victims=_decode(_meta_victim_map, args.node_name_to_meta_victims, "NodeNameToMetaVictims"),
    )


def _large_pod(pod: msgspec.Raw, body: bytes) -> PodWire | None:
    """Decode the pod of a large body. Raises BadRequest if it has more bytes than any real pod: half a million fields
    are slow to read."""
    # The pod may be there under another spelling, which is not read here.
    longest = max(map(len, _pods_of(body)), default=0) if pod is _ABSENT else len(pod)
    if longest > _MOST_POD_BYTES:
        raise BadRequest(f"Pod: {longest} bytes; expected at most {_MOST_POD_BYTES}", "Pod")
    wire: PodWire | None = _decode(_pod_wire, pod, "Pod")
    return wire


def _large(body: bytes) -> Any:
    try:
        return _decode(_large_args(), body, "body")
    except BadRequest as error:
        if "at most length" in error.text:
            raise BadRequest(f"Nodes.items: more than {MOST_ITEMS} nodes", "Nodes.items") from error
        raise


def _meta_candidates(victims: _MetaVictimMap) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(node, tuple(pod.uid for pod in each.pods or ()), each.violations or 0)
        for node, each in victims.items()
        if each is not None
    )


def _full_candidates(victims: _VictimMap) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(node, tuple(_uids(node, each.pods or [])), each.violations or 0)
        for node, each in victims.items()
        if each is not None
    )


def _uids(node: str, pods: list[_Named]) -> list[str]:
    uids = []
    for index, pod in enumerate(pods):
        if pod.metadata is None or not pod.metadata.uid:
            field = f"NodeNameToVictims[{node[:LONGEST_NAME]}].Pods[{index}].metadata.uid"
            raise BadRequest(f"{field} must not be empty", field)
        uids.append(pod.metadata.uid)
    return uids


# -- the lenient decoder --------------------------------------------------------------------------------------

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WHERE = re.compile(r"(?P<what>.*?)(?: - at `(?:key` in `)?\$(?P<path>.*)`)?", re.DOTALL)


def _fields(body: bytes, names: tuple[str, ...]) -> dict[str, msgspec.Raw]:
    """The fields of the outer object by their known names, matched in any case; the exact name wins over another
    case."""
    if not body.strip():
        raise BadRequest(f"body: empty; expected a JSON object with {', '.join(names)}", "body")
    given = _decode(_object, body, "body")
    wanted = {name.lower(): name for name in names}
    folded = {wanted[key.lower()]: value for key, value in given.items() if key.lower() in wanted}
    return folded | {name: given[name] for name in names if name in given}


def _field(fields: dict[str, msgspec.Raw], name: str, kind: Any) -> Any:
    """Decode one field; None if it is absent or null."""
    if name not in fields:
        return None
    return _decode(msgspec.json.Decoder(kind | None), fields[name], name)


def _decode(decoder: msgspec.json.Decoder[_T], raw: bytes | msgspec.Raw, field: str) -> _T:
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError as error:
        found = _WHERE.fullmatch(str(error))
        assert found is not None
        at = field + (found["path"] or "")
        raise BadRequest(f"{at}: {found['what'].replace('`', '')}", at) from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{field}: not UTF-8", field) from error
    except RecursionError as error:
        raise BadRequest(f"{field}: nested too deeply", field) from error


def _present(names: list[str | None] | None) -> list[str] | None:
    return None if names is None else [name for name in names if name is not None]
