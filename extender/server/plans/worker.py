"""The child process that makes one plan: `python -m extender.server.plans.worker`, with the server at its pipes.

It takes nothing from the server that decides: no lock, no time of its interpreter, and of the processor what others
leave (`nice`). Its memory and its CPU time are limited by the kernel; the server ends it if it takes too long. It opens
no connection and reads no file that a request names.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import time
import traceback

from extender.server.plans.frames import OUT_OF_MEMORY, Answer, Channel, Ended, Order

#: How much it gives way to other processes.
_NICE = 10
#: Seconds of CPU time beyond which the kernel ends it, in case that the server has died.
_GRACE = 10


def main() -> None:
    """Serve one order on standard input and output."""
    gc.disable()  # one plan leaves little garbage behind, and looking for it takes a fifth of the time
    channel = Channel(sys.stdin.buffer, sys.stdout.buffer)
    try:
        order = channel.receive()
        if isinstance(order, Order):
            _limit(order)
            channel.send(_measured(_answer(order, channel)))
    except Ended:
        return
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _answer(order: Order, channel: Channel) -> Answer:
    try:
        from extender.logs.lean import import_structlog  # noqa: PLC0415 - all of this within the limits

        import_structlog()
        from extender.server.plans.making import answer_to  # noqa: PLC0415

        return answer_to(order, channel)
    except (Ended, KeyboardInterrupt):
        raise
    except BaseException as error:  # a plug-in may call sys.exit(): a fault that is named, and no other end
        if isinstance(error, MemoryError) or _is_nearly_full(order):
            text = f"the plan needs more memory than plans.memory_mib ({order.memory >> 20} MiB)"
            return Answer(outcome="too_large", status=422, error=text, code="PlanTooLarge")
        text = "making the plan failed; the server's log says more"
        return Answer(outcome="failed", status=500, error=text, trace=traceback.format_exc()[-20_000:])


def _is_nearly_full(order: Order) -> bool:
    """Whether a lack of memory explains an exception. Libraries turn a MemoryError into others (SystemError,
    ImportError)."""
    try:
        lines = dict(line.split(":", 1) for line in open("/proc/self/status", encoding="ascii"))  # noqa: PTH123, SIM115
        return bool(order.memory) and (int(lines["VmData"].split()[0]) << 10) > order.memory * 0.9
    except (OSError, ValueError, KeyError, IndexError):
        return False


def _limit(order: Order) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("1000")
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_CPU, int(order.seconds) + _GRACE)
    if order.memory:
        _set(resource.RLIMIT_DATA, order.memory)


def _set(limit: int, value: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(limit, (value, value))


def _measured(answer: Answer) -> Answer:
    import msgspec  # noqa: PLC0415

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
    return msgspec.structs.replace(answer, cpu=time.process_time(), memory=peak)


if __name__ == "__main__":
    main()
