"""`waggle claim`, `waggle pools` and `waggle release`: warm pods from a terminal and from scripts.

Exit status: 0 success; 1 there is no such pool or claim, or no pod became idle; 2 Waggle cannot be reached, or refuses
the call. `waggle claim POOL -- COMMAND` exits with the status of COMMAND.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.operate.output import remark, say
from extender.operate.refusal import refuse
from extender.operate.waggle_options import Format, OutputOption, WaggleOptions, calls_waggle

if TYPE_CHECKING:
    from extender.client import SyncClaim, SyncWaggle

#: The default lease, seconds: of a claim that is renewed, and of one that is not.
_RENEWED, _DETACHED = 120.0, 3600.0
#: Seconds between two checks whether the claim is lost.
_LOOK = 0.5
#: Seconds that COMMAND gets to exit after SIGTERM.
_GRACE = 10.0


class OnEmpty(StrEnum):
    """What happens if too few pods are idle."""

    WAIT = "wait"
    FAIL = "fail"
    COLD = "cold"


def add_claim_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("claim")(claim)
    app.command("pools")(pools)
    app.command("release")(release)


@calls_waggle
def claim(
    pool: Annotated[str, typer.Argument(metavar="NAMESPACE/POOL", help="The pool.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Run this command, and release the claim when it exits."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for pods.")] = 30.0,
    count: Annotated[int, typer.Option(min=1, help="Number of pods, all or none.")] = 1,
    claim_key: Annotated[
        str, typer.Option("--claim-key", metavar="TEXT", help="Idempotency key: the same key gets the same claim.")
    ] = "",
    require: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Only pods with this label; repeatable.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Set this label on the pods; repeatable.")
    ] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="The tenant to claim for.")] = "",
    on_empty: Annotated[
        OnEmpty, typer.Option(help="If too few pods are idle: wait, fail, or have pods created (cold).")
    ] = OnEmpty.WAIT,
    lease: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long the claim lasts after the last renewal. 0: 120, or 3600 with --detach.",
        ),
    ] = 0,
    detach: Annotated[bool, typer.Option("--detach", help="Print the claim and exit; do not release it.")] = False,
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Claim warm pods: while COMMAND runs, until Ctrl-C, or with `--detach` until the lease expires.

    COMMAND has WAGGLE_CLAIM, WAGGLE_POD_NAME, _NAMESPACE, _UID, _NODE and _IP in its environment. For several pods,
    each lists its values separated by spaces. COMMAND gets SIGTERM if the claim is lost.

    Exit status: that of COMMAND; 1 there is no such pool, no pod became idle, or the claim was lost; 2 Waggle cannot be
    reached, or refuses the call.
    """
    namespace, name = _split(pool)
    if command and detach:
        raise _bad("--detach: not possible with a COMMAND, because the claim ends when COMMAND exits")
    required, labels = _pairs("--require", require), _pairs("--label", label)
    with _client(waggle) as client, _terminated_like_interrupted():
        wanted = client.pool(namespace, name).claim(
            timeout=timeout,
            count=count,
            key=claim_key,
            requires=required,
            labels=labels,
            tenant=tenant or None,
            lease=lease or (_DETACHED if detach else _RENEWED),
            on_empty=on_empty.value,
        )
        status = 0
        with wanted as held:
            if command:
                status = _run(command, held)
            elif detach:
                held.keep()
                _show(held, output)
            else:
                _hold(held, output)
    raise typer.Exit(status)


@calls_waggle
def pools(
    pool: Annotated[
        str, typer.Argument(metavar="[NAMESPACE/POOL]", help="Show only this pool, with its tenants.")
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Show only pools in this namespace.")
    ] = "",
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Show pools: how many pods are idle and claimed, how many requests wait, and why.

    Exit status: 0 success; 1 there is no such pool; 2 Waggle cannot be reached, or refuses the call.
    """
    from extender.operate.claim_text import pool_text, pools_text

    with _client(waggle) as client:
        if pool:
            one = client.pool(*_split(pool)).status()
            say(_json(one) if output is Format.JSON else pool_text(one))
        else:
            all_of_them = client.pools(namespace)
            say(_json({"items": all_of_them}) if output is Format.JSON else pools_text(all_of_them))


@calls_waggle
def release(
    claim: Annotated[str, typer.Argument(metavar="ID", help="The claim's id, as `waggle claim` prints it.")],
    *,
    waggle: WaggleOptions,
) -> None:
    """Release a claim: its pods are deleted, or return to their pool.

    Exit status: 0 success; 1 there is no such claim; 2 Waggle cannot be reached, or refuses the call.
    """
    with _client(waggle) as client:
        found = client.get(claim)
        client.release(claim)
        say(f"{claim} is released: {', '.join(pod.name for pod in found.pods) or 'it had no pods'}")


# -- while it is held -----------------------------------------------------------------------------------------------


def _show(held: SyncClaim, output: Format) -> None:
    from extender.operate.claim_text import claim_text

    say(_json(held.record) if output is Format.JSON else claim_text(held.record))


def _hold(held: SyncClaim, output: Format) -> None:
    """Print the claim, and wait for Ctrl-C, or until it is lost."""
    from extender.client import ClaimLostError

    try:
        _show(held, output)
        remark("The claim is renewed until Ctrl-C, which releases it.")
        while not held.wait_lost(_LOOK):
            pass
    except KeyboardInterrupt:
        return
    raise held.lost or ClaimLostError("the claim is lost")


def _run(command: Sequence[str], held: SyncClaim) -> int:
    """Run the command, and return its exit status. Ctrl-C goes to the command, as in a shell."""
    names, addresses = [pod.name for pod in held.pods], [pod.address for pod in held.pods]
    first = held.pods[0]
    environment = {
        **os.environ,
        "WAGGLE_CLAIM": held.id,
        "WAGGLE_POD_NAME": " ".join(names),
        "WAGGLE_POD_NAMESPACE": held.record.namespace,
        "WAGGLE_POD_UID": " ".join(pod.uid for pod in held.pods),
        "WAGGLE_POD_NODE": " ".join(pod.node for pod in held.pods) if len(names) > 1 else first.node,
        "WAGGLE_POD_IP": " ".join(addresses),
    }
    try:
        child = subprocess.Popen(command, env=environment)  # noqa: S603 - what the user asks for
    except OSError as error:
        remark(f"{command[0]}: {error.strerror}", title="waggle", style="red")
        return 127 if isinstance(error, FileNotFoundError) else 126
    is_told = False
    while True:
        try:
            status = child.wait(_LOOK)
        except subprocess.TimeoutExpired:
            if held.lost is not None and not is_told:
                is_told = True
                _end(child)
        except KeyboardInterrupt as interrupt:
            if interrupt.args:  # SIGTERM, unlike Ctrl-C, was sent to this process only
                _end(child)
        else:
            return status if status >= 0 else 128 - status


def _end(child: subprocess.Popen[Any]) -> None:
    child.terminate()
    try:
        child.wait(_GRACE)
    except subprocess.TimeoutExpired:
        child.kill()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM release the claim, as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt("SIGTERM")

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# -- the way to it --------------------------------------------------------------------------------------------------


@contextmanager
def _client(waggle: WaggleOptions) -> Iterator[SyncWaggle]:
    """Yield the client. Errors end the command with their exit status."""
    from extender.client import ClaimLostError, ClaimTimeoutError, NotFoundError, WaggleError
    from extender.operate.claim_reach import waggle_of
    from extender.operate.reach import ReachError

    try:
        with waggle.reached(), waggle_of(waggle.direct(), waggle.target, waggle.token_file) as client:
            yield client
    except (NotFoundError, ClaimTimeoutError, ClaimLostError) as error:
        remark(_error_text(error), title="waggle", style="red")
        raise typer.Exit(1) from error
    except WaggleError as error:
        raise refuse(ReachError(_error_text(error))) from error
    except KeyboardInterrupt:
        remark("interrupted: nothing stays claimed")
        raise typer.Exit(130) from None


def _error_text(error: Any) -> str:
    return f"{error} ({error.code})" if error.code else str(error)


def _split(pool: str) -> tuple[str, str]:
    namespace, _, name = pool.partition("/")
    if not namespace or not name or "/" in name:
        raise _bad(f"expected NAMESPACE/POOL, got {pool!r}")
    return namespace, name


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    pairs = [each.partition("=") for each in given or ()]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise _bad(f"{option}: expected LABEL=VALUE, got {name!r}")
    return {name: value for name, _, value in pairs}


def _bad(text: str) -> typer.Exit:
    return refuse(ValueError(text))


def _json(found: object) -> str:
    import msgspec

    return json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False)
