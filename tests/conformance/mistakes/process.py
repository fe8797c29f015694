"""Mistakes of an algorithm that does more than decide: it prints, opens, starts, waits, ends, or takes very long."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

from algorithm.interface import Phase, ScheduleResult, SuggestedNodes
from algorithm.model import Node, Pod
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import of_everything


@of_everything("prints-nothing", "prints what it decides")
class Prints(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        print(pod.key, found)
        return found


@of_everything("prints-nothing", "writes warnings to standard error")
class WarnsOnStandardError(Everything):
    def add_node(self, node: Node) -> None:
        if not node.ready:
            sys.stderr.write(f"{node.name} is not ready\n")
        super().add_node(node)


@of_everything("opens-no-files", "appends each decision to a file")
class WritesALog(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        with Path(os.devnull).open("a") as file:
            file.write(f"{pod.key} {pod.node_name}\n")
        super().add_allocated_pod(pod)


@of_everything("opens-no-sockets", "asks an inventory over the network")
class AsksAnInventory(Everything):
    def add_node(self, node: Node) -> None:
        super().add_node(node)
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=0.01).close()
        except OSError:
            return


@of_everything("starts-no-threads", "starts a thread that tidies up")
class StartsAThread(Everything):
    def add_unallocated_pod(self, pod: Pod) -> None:
        super().add_unallocated_pod(pod)
        threading.Thread(target=int, daemon=True).start()


@of_everything("starts-no-threads", "runs a command to look at the node")
class RunsACommand(Everything):
    def update_node(self, old: Node, new: Node) -> None:
        super().update_node(old, new)
        os.system("true")


@of_everything("memory-limited", "makes a table of every pair of moments at which a pod may begin and end")
class TakesAllMemory(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        super().add_allocated_pod(pod)
        self.table = [False] * (86_400 * 86_400 if len(self.pods) > 1 else 1)


@of_everything("calls-return", "waits for ever for a lock that it holds")
class NeverReturns(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if len(self.pods) > 1:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        return super().schedule(pod, suggested_nodes, phase)


@of_everything("calls-return", "looks for a free slot in a loop that does not end if there is none")
class LoopsForEver(Everything):
    def refuse(self, pod: Pod):  # type: ignore[no-untyped-def]
        while self.nodes:
            pass
        return super().refuse(pod)


@of_everything("process-survives", "ends the process if its state is not what it should be")
class EndsTheProcess(Everything):
    def delete_allocated_pod(self, pod: Pod) -> None:
        if pod.uid in self.pods and len(self.pods) > 1:
            os._exit(3)
        super().delete_allocated_pod(pod)


@of_everything("decides-in-time", "compares every slot with every other one for each pair of nodes")
class TakesVeryLong(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        names = list(suggested_nodes)
        sum(len(one) + len(other) for one in names for other in names for _ in range(200))
        return super().schedule(pod, suggested_nodes, phase)
