"""Encodes the engine's answers to kube-scheduler as bytes, with Go's field names.

There is never a null where Go would dereference it: a null among the victims of a preempt answer makes kube-scheduler
1.36 panic and exit. Encoding 5,000 refused nodes costs about as much as encoding one: they share reasons, and each text
is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import NamedTuple

import msgspec

from algorithm.reasons import Code, FixedReasons, Reason, reason
from extender.scheduling.events import BindAnswer, Candidate, FilterAnswer, PreemptAnswer
from extender.scheduling.refused_nodes import refusal_texts
from extender.web.verbs.extender_args import FilterArgs, PreemptRequest

#: Stands for all nodes if a pod is refused although no node was offered: kube-scheduler shows a reason only with a
#: node, and accepts one that does not exist.
NOBODY = "waggle"

_NO_REASON = reason(Code.NO_NODE_FITS)


class _Nodes(msgspec.Struct, gc=False):
    items: list[msgspec.Raw]
    metadata: dict[str, str] = {}


class _FilterResult(msgspec.Struct, gc=False, rename="pascal"):
    nodes: _Nodes | None
    node_names: list[str] | None
    failed_nodes: Mapping[str, str] | msgspec.Raw = {}
    failed_and_unresolvable_nodes: Mapping[str, str] | msgspec.Raw = {}
    error: str = ""


class _BindingResult(msgspec.Struct, gc=False, rename="pascal"):
    error: str


class _HostPriority(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


class _MetaPod(msgspec.Struct, gc=False):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct, gc=False):
    pods: list[_MetaPod] = msgspec.field(name="Pods")
    violations: int = msgspec.field(name="NumPDBViolations")


class _PreemptionResult(msgspec.Struct, gc=False, rename="pascal"):
    node_name_to_meta_victims: dict[str, _MetaVictims]


_encode = msgspec.json.Encoder().encode


# -- filter ---------------------------------------------------------------------------------------------------


class _Refusal(NamedTuple):
    """An encoded refusal, and what it was made from: reasons by node, the dominant one, the offered nodes."""

    nodes: Mapping[str, Reason]
    reason: Reason
    offered: frozenset[str]
    has_items: bool
    encoded: bytes


class Refusals:
    """The refusals that were encoded last, up to `most` bytes of them.

    Pods that do not fit are asked about again and again. As long as no reason changes, an algorithm returns the same
    `FixedReasons` of all nodes, whose text, thousands of names long, is then the same, too. It may come in
    another order than the names of the request: it is an object, not a list.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._kept: dict[tuple[int, Reason, int], _Refusal] = {}
        self._lock = Lock()

    def find(self, answer: FilterAnswer, offer: FilterArgs) -> bytes | None:
        """The text of the same refusal for the same nodes, if it is kept."""
        offered = offer.nodes.known_set
        if offered is None or answer.reason is None:
            return None
        kept = self._kept.get((id(answer.nodes) if answer.nodes else 0, answer.reason, id(offered)))
        if kept is None or kept.has_items != (offer.items is not None):
            return None
        return kept.encoded  # it keeps both objects alive, so no other ones have these ids

    def keep(self, answer: FilterAnswer, offer: FilterArgs, encoded: bytes) -> None:
        """Keep the text if the algorithm has compared the names with what it remembers: then it may come again.

        Other reasons by node than fixed ones may have changed when the same object comes again.
        """
        offered = offer.nodes.known_set
        if answer.nodes and not isinstance(answer.nodes, FixedReasons):
            return
        if offered is None or answer.reason is None or len(encoded) > self._most:
            return
        key = id(answer.nodes) if answer.nodes else 0, answer.reason, id(offered)
        with self._lock:
            self._drop(key)
            self._kept[key] = _Refusal(answer.nodes, answer.reason, offered, offer.items is not None, encoded)
            self._bytes += len(encoded)
            while self._bytes > self._most:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[int, Reason, int]) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._bytes -= len(dropped.encoded)


_refusals = Refusals(most=8 << 20)


def encode_filter(answer: FilterAnswer, offer: FilterArgs) -> bytes:
    """Encode the answer of a filter request, with full nodes if the request had full nodes."""
    if answer.error:
        return encode_filter_error(_text(answer.reason or _NO_REASON))
    if answer.pass_through:
        return _encode(_passed(list(offer.nodes), offer.items))
    if answer.node is not None:
        return _encode(_only(answer.node, offer))
    encoded = _refusals.find(answer, offer)
    if encoded is None:
        encoded = _encode_refusal(answer, offer)
        _refusals.keep(answer, offer, encoded)
    return encoded


def encode_filter_error(text: str) -> bytes:
    """Encode the answer of a filter request that cannot be served: kube-scheduler shows the text and retries with
    back-off."""
    return _encode(_FilterResult(None, [], error=text))


def _passed(names: list[str], items: list[msgspec.Raw] | None) -> _FilterResult:
    """Fill the field of the nodes that pass. kube-scheduler reads only one of the two, depending on
    nodeCacheCapable."""
    if items is None:
        return _FilterResult(None, names)
    return _FilterResult(_Nodes(items), None)


def _only(node: str, offer: FilterArgs) -> _FilterResult:
    if offer.items is None:
        return _passed([node], None)
    return _passed([node], [offer.items[offer.nodes.index(node)]])


def _encode_refusal(answer: FilterAnswer, offer: FilterArgs) -> bytes:
    result = _passed([], None if offer.items is None else [])
    names, shared = list(offer.nodes) or [NOBODY], answer.reason or _NO_REASON
    if not answer.nodes:
        return _encode_alike(result, names, shared)
    result.failed_nodes, result.failed_and_unresolvable_nodes = refusal_texts(answer.nodes, names, shared)
    return _encode(result)


def _encode_alike(result: _FilterResult, names: list[str], why: Reason) -> bytes:
    """Encode an answer that refuses all nodes for one reason: its text is inserted between the encoded names in one
    pass.

    That is twice as fast as an object with 5,000 texts. A name that was offered twice appears twice, which Go reads as
    one.
    """
    listed, text = _encode(names), _encode(why.text)
    between = b'","'
    # Without a comma in a name, these bytes occur only between the end of one name and the beginning of the next.
    is_plain = listed.count(b",") < len(names) and between not in text
    by_node = msgspec.Raw(b"{%s:%s}" % (listed[1:-1], text)) if is_plain else dict.fromkeys(names, why.text)
    if why.preemptible:
        result.failed_nodes = by_node
    else:
        result.failed_and_unresolvable_nodes = by_node
    encoded = _encode(result)
    return encoded.replace(between, b'":%s,"' % text) if is_plain else encoded


# -- the other verbs ------------------------------------------------------------------------------------------


def encode_prioritize(scores: Mapping[str, int], names: Iterable[str]) -> bytes:
    """Encode a score for every offered node, each only once: kube-scheduler would add up the scores of a duplicate."""
    return _encode([_HostPriority(name, scores.get(name, 0)) for name in dict.fromkeys(names)])


def encode_preempt(answer: PreemptAnswer, request: PreemptRequest) -> bytes:
    """Encode victims by UID, in both modes: kube-scheduler reads nothing else."""
    chosen = request.candidates if answer.pass_through else answer.candidates
    return _encode(_PreemptionResult({each.node: _victims(each) for each in chosen}))


def _victims(candidate: Candidate) -> _MetaVictims:
    return _MetaVictims([_MetaPod(uid) for uid in candidate.victims], candidate.pdb_violations)


def encode_bind(answer: BindAnswer) -> bytes:
    """Encode a bind answer. An empty Error means bound, and kube-scheduler never checks that again."""
    return encode_bind_error("" if answer.error is None else _text(answer.error))


def encode_bind_error(text: str) -> bytes:
    return _encode(_BindingResult(text))


def _text(why: Reason) -> str:
    """The text of an error, never empty: an empty Error would mean to kube-scheduler that the pod is bound."""
    return why.text or why.code
