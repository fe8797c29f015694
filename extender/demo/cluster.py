"""`waggle cluster`: the embedded API server alone in the foreground, with GPU nodes and a kubeconfig to reach it.

Promises: nothing but 127.0.0.1 is listened on; a kubeconfig of somebody else's is never overwritten; what was written
into a folder of our own goes when it ends.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console

from extender.demo.run import sigterm_interrupts
from extender.demo.workloads import GPUS_PER_NODE, nodes
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.server import Options, Runtime
from extender.embedded.apiserver.sidecar import BANNER
from extender.embedded.apiserver.table import NODES
from extender.logs.setup import configure
from extender.settings import LogSettings


class ClusterError(RuntimeError):
    """The cluster cannot be started; the message says why."""


def serve_cluster(*, port: int, node_count: int, kubeconfig: Path | None) -> None:
    """Serve until SIGTERM or Ctrl-C. `port` 0 takes a free one; without `kubeconfig` it goes to a temporary folder.

    Raises ClusterError.
    """
    configure(LogSettings())
    with ExitStack() as stack:
        stack.enter_context(sigterm_interrupts())
        try:
            runtime = Runtime(Options(port=port, history=20_000))
        except (OSError, OverflowError) as error:
            raise ClusterError(f"port {port} of 127.0.0.1 cannot be used: {error}") from error
        stack.callback(runtime.socket.close)
        try:
            folder = (
                kubeconfig or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waggle-"))) / "kubeconfig"
            )
            written = write_kubeconfig(folder, runtime.url)
        except OSError as error:
            raise ClusterError(f"the kubeconfig cannot be written: {error}") from error
        _create_nodes(runtime.cluster, node_count)
        runtime.on_ready = lambda: _announce(runtime.url, written, node_count)
        with suppress(KeyboardInterrupt):
            runtime.run()


def _create_nodes(cluster: Cluster, count: int) -> None:
    for node in nodes(count):
        status = node.pop("status")
        cluster.create(Target(NODES), node)
        cluster.update(Target(NODES, name=node["metadata"]["name"], subresource="status"), {**node, "status": status})


def _announce(url: str, kubeconfig: Path, node_count: int) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(BANNER, style="bold yellow", end="")
    console.print(f"\n{node_count} nodes with {GPUS_PER_NODE} GPUs each at {url}; the kubeconfig is {kubeconfig}\n")
    lines = (
        ("kubectl", f"kubectl --kubeconfig {kubeconfig} get nodes"),
        ("Waggle, in a file for `waggle serve --config`", f"cluster: {{server: '{url}'}}"),
        (
            "a real kube-scheduler, in its configuration (it must speak JSON)",
            f"clientConnection: {{kubeconfig: {kubeconfig}, contentType: application/json}}",
        ),
        ("or the stand-in for it", f"python -m extender.embedded.kubescheduler --server {url} --config FILE"),
    )
    for what, line in lines:
        console.print(f"  [dim]# {what}[/dim]")
        console.print(f"  {line}", markup=False)
    console.print("\nEverything is lost at Ctrl-C.")


__all__ = ["ClusterError", "serve_cluster"]
