"""The list of attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tests.attacks.aims import LEFT_MIB

if TYPE_CHECKING:
    from tests.attacks.arena import Arena

Scheme = Literal["http", "https"]
Run = Callable[["Arena"], str]


@dataclass(frozen=True)
class Attack:
    """One attack and the server that it needs."""

    name: str
    title: str
    run: Run
    #: The limit that stops it, as docs/security.md names it.
    limit: str
    #: https: mutual TLS, with HTTP/1.1 and HTTP/2.
    scheme: Scheme = "http"
    #: Part of `make test`.
    quick: bool = False
    #: Run only where it is named: others show the same, and all together have three minutes.
    only_by_name: bool = False
    #: Says something about a plain uvicorn, too (`--server uvicorn`).
    comparable: bool = False
    #: Seconds that the server may take to close what the attacker left open.
    settle_seconds: float = 5.0
    #: MiB that may stay: the allocator keeps arenas in which anything is still used, and uses them again.
    left_mib: float = LEFT_MIB
    #: The module that is run in the place of the embedded API server.
    api_server: str = ""
    #: Sections of waggle.yaml that differ. Attacks with the same ones share a server.
    settings: dict[str, Any] = field(default_factory=dict)
    #: Needs a server to which nothing has happened yet.
    alone: bool = False


ATTACKS: list[Attack] = []


def attack(title: str, *, limit: str, **more: Any) -> Callable[[Run], Run]:
    """Register a function as an attack. `more` are further fields of `Attack`."""

    def register(run: Run) -> Run:
        family = run.__module__.rpartition(".")[2]
        ATTACKS.append(Attack(f"{family}.{run.__name__}", title, run, limit, **more))
        return run

    return register
