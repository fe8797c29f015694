"""Parses one response of an HTTP/1.1 server as it arrives. No I/O, no clock.

    head --1xx--> head --final status--> body --its end--> complete
      |                                    |
      +-- too long, no HTTP                +-- too large, framing without end, cut off --> AnswerError

Everything that a server can send is bounded here, except the body of a stream: the head with all interim responses,
chunk extensions, trailers, and the body that `collect` keeps. Deadlines are up to the caller.

* Interim responses (100, 102, 103, ...) say nothing about the request. 101 is an error: no other protocol was asked
  for.
* Contradictions about the length are errors: two lengths, a negative one, one beside Transfer-Encoding.
* Only `chunked` is decoded. No other coding was asked for, and a small body could decompress to any size.
* Trailers are dropped: they cannot change a header that was acted upon.
"""

from __future__ import annotations

import httptools

from extender.kube.client import bounds
from extender.kube.client.bounds import Bound

_PARSER_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade, ValueError)
_LOWEST_STATUS = 100
_SWITCHING, _FINAL = 101, 200


class AnswerError(Exception):
    """The data is not a valid response, or exceeds a bound. `bound`: the bound that it broke; None if it just ended."""

    def __init__(self, message: str, bound: Bound | None = None) -> None:
        super().__init__(message)
        self.bound = bound


class Answer:
    """One response. The parser calls the methods named `on_`; all others raise AnswerError where they say so."""

    def __init__(self) -> None:
        #: Status of the final response; 0 until its head is complete.
        self.status = 0
        #: Headers by name in lower case; of equal names the last.
        self.headers: dict[str, str] = {}
        self.complete = False
        #: The response is complete, nothing came after it, and the server keeps the connection.
        self.reusable = False
        #: The body that `collect` has kept.
        self.body = bytearray()
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._refused = ""
        self._head = 0
        self._framing = 0
        self._idle_framing = 0
        self._body = 0

    @property
    def begun(self) -> bool:
        """Whether any part of the response has arrived."""
        return self._head > 0

    def collect(self, piece: bytes, most: int) -> None:
        """Parse a piece of the response, and keep the body, of at most `most` bytes. Raises AnswerError."""
        self.body += self.feed(piece)
        if len(self.body) > most or self._promised > most:
            raise AnswerError(f"the answer has more than {most} bytes", Bound.SIZE)

    @property
    def _promised(self) -> int:
        """Length of the body as the head announces it, 0 where that does not count."""
        return int(self.headers.get("content-length") or 0) if self.status and not self.complete else 0

    def feed(self, piece: bytes) -> bytes:
        """Parse a piece of the response as it came from the socket. Returns the part of the body in it.

        Raises AnswerError.
        """
        if self._parser is None:
            raise AnswerError("it has ended")
        if not self.status:
            self._head += len(piece)
        try:
            self._parser.feed_data(piece)
        except _PARSER_ERRORS as error:
            if not self.complete:
                raise AnswerError(self._refused or f"not an HTTP answer: {error}", Bound.FRAMING) from error
            self.reusable = False  # something comes after the response
        if self._refused:
            raise AnswerError(self._refused, Bound.FRAMING)
        if not self.status and self._head > bounds.HEAD:
            raise AnswerError(f"the head of the answer has more than {bounds.HEAD} bytes", Bound.HEAD)
        body = b"".join(self._pieces)
        self._pieces.clear()
        if not self.complete and self.status:
            self._count_framing(len(piece), len(body))
        return body

    def end(self) -> None:
        """The server closed the connection, which completes a response without a length.

        Raises AnswerError for any other.
        """
        if self.complete:
            return
        if not self.status:
            raise AnswerError("connection ended within the head of the answer" if self.begun else "connection closed")
        if "content-length" in self.headers or "transfer-encoding" in self.headers:
            raise AnswerError("connection ended within the answer")
        self.complete = True

    def close(self) -> None:
        """Release the parser. Until then parser and response hold each other, and with them the body."""
        self._parser = None
        self._pieces.clear()
        self.body = bytearray()

    def _count_framing(self, came: int, body: int) -> None:
        """Framing may have as many bytes as the body, and some more, but not many in a row."""
        self._body += body
        self._framing += came - body
        self._idle_framing = 0 if body else self._idle_framing + came
        if self._idle_framing > bounds.FRAMING or self._framing > self._body + bounds.HEAD + bounds.FRAMING:
            raise AnswerError("the answer consists of framing", Bound.FRAMING)

    # -- callbacks of the parser ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.complete or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status >= _FINAL:
            self.status = status
            self._refused = _refused_coding(self.headers)
        elif status == _SWITCHING or status < _LOWEST_STATUS:
            self._refused = f"the answer has the status {status}, which nobody asked for"

    def on_body(self, body: bytes) -> None:
        if not self.complete and not self._refused:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self.complete or self._parser is None:
            return
        if not self.status:  # interim: the final response is still to come
            self.headers.clear()
            return
        self.complete = True
        self.reusable = self._parser.should_keep_alive()


def _refused_coding(headers: dict[str, str]) -> str:
    """Why the body cannot be decoded, "" if it can."""
    transfer = headers.get("transfer-encoding", "chunked").strip().lower()
    content = headers.get("content-encoding", "identity").strip().lower()
    if transfer != "chunked":
        return f"the answer has the transfer coding {bounds.cut(transfer)}, expected chunked"
    if content not in ("", "identity"):
        return f"the answer has the content coding {bounds.cut(content)}, which nobody asked for"
    return ""
