"""What a server and the process that makes a plan say to each other, over a pair of pipes.

    server                                        child
      Order  ------------------------------------>  reads the manifests and the changes
      Needs  <------------------------------------  which pods it has to know in full
      Objects, Live, Nodes, Pods ... Sent -------->
      Needs, Live ... Sent                           again: those for which the waiting pods wait; then, if the
                                                    plan evicts pods that it does not know in full, those
      Answer <------------------------------------

A message is four bytes with its length, and MessagePack. Each is small, since encoding one keeps other threads of the
server waiting.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Final

import msgspec

from algorithm.model import Node, Pod

#: The exit status of a child that has no memory left, not even for an answer.
OUT_OF_MEMORY: Final = 71
#: How often the child may ask.
MOST_NEEDS: Final = 4
_LENGTH: Final = struct.Struct("!I")
#: Bytes of a message. A page of pods is the largest.
_LARGEST: Final = 256 << 20


class Order(msgspec.Struct, frozen=True, tag=True):
    """The request as it came. `settings` is the configuration in use, and `scheduler` that of kube-scheduler, as YAML
    texts; `memory` is in bytes, `seconds` of CPU time."""

    body: bytes
    is_yaml: bool = False
    format: str = ""
    settings: str = ""
    scheduler: str = ""
    algorithm: str = "packing"
    release: str = ""
    taken: str = ""
    seconds: float = 60.0
    memory: int = 0
    most_pods: int = 100_000
    most_nodes: int = 20_000


class Needs(msgspec.Struct, frozen=True, tag=True):
    """Of these the child has to know the pods in full: nodes, namespaces, and labels in namespaces.

    With the answer to the first one it gets the waiting pods, all other objects, and the server's copy.
    """

    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    #: Pairs of a namespace and a label selector.
    selected: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.nodes or self.namespaces or self.selected)


class Nodes(msgspec.Struct, frozen=True, tag=True):
    """Some nodes of the server's copy."""

    nodes: tuple[Node, ...]


class Pods(msgspec.Struct, frozen=True, tag=True):
    """Some pods of the server's copy that are bound or assumed, each with its node."""

    pods: tuple[Pod, ...]


class Live(msgspec.Struct, frozen=True, tag=True):
    """A page of pods, as the API server sent it."""

    page: bytes


class Objects(msgspec.Struct, frozen=True, tag=True):
    """A page of other objects, as the API server sent it."""

    kind: str
    api_version: str
    page: bytes


class Sent(msgspec.Struct, frozen=True, tag=True):
    """Everything was sent. `notes` are sentences about what could not be read."""

    notes: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The end. `error` is "" if there is a body. `trace` is for the log; `cpu` is in seconds, `memory` in bytes."""

    outcome: str
    status: int = 200
    media: str = ""
    body: bytes = b""
    error: str = ""
    code: str = ""
    field: str | None = None
    trace: str = ""
    cpu: float = 0.0
    memory: int = 0


Message = Order | Needs | Nodes | Pods | Live | Objects | Sent | Answer
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class Ended(Exception):  # noqa: N818 - what happened
    """The other side has ended, or what it says is no message."""


class Channel:
    """One side. `send` and `receive` raise Ended, and wait for as long as the other side takes."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink

    def send(self, message: Message) -> None:
        body = _encoder.encode(message)
        try:
            self._sink.write(_LENGTH.pack(len(body)) + body)
            self._sink.flush()
        except (OSError, ValueError) as error:
            raise Ended(f"it reads no more: {error}") from error

    def receive(self) -> Message:
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > _LARGEST:
            raise Ended(f"a message of {length} bytes")
        try:
            message: Message = _decoder.decode(self._read(length))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Ended(f"no message: {error}") from error
        return message

    def _read(self, length: int) -> bytes:
        try:
            found = self._source.read(length)
        except (OSError, ValueError) as error:
            raise Ended(str(error)) from error
        if len(found or b"") < length:
            raise Ended("it has ended")
        return found
