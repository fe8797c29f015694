"""Over TLS kube-scheduler offers HTTP/2, and with Waggle, which takes it, all its calls share one connection.

Over HTTP/1.1 it keeps two, and opens another for every further bind that is under way: with mutual TLS each begins with
a handshake.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.certificates import Authority
from tests.e2e.cluster import ControlPlane
from tests.e2e.processes import Process
from tests.e2e.world import world


@pytest.mark.parametrize("scheduler", ["kube-scheduler", "kube-scheduler-old"])
def test_all_calls_go_over_one_connection(plane: ControlPlane, programs: Any, folder: Path, scheduler: str) -> None:
    authority = Authority(folder / f"certificates-{scheduler}", "waggle-ca")
    serving, client = authority.server("waggle-server"), authority.client("scheduler", "kube-scheduler")
    ca = authority.certificate
    tls = {"cert_file": str(serving.certificate), "key_file": str(serving.key), "client_ca_file": str(ca)}
    identity = (ca, client)
    with world(plane, programs, start=False, scheduler=scheduler, folder=f"{scheduler}-tls", identity=identity) as w:
        w.start_waggle(server={"port": w.waggle_port, "tls": tls})
        flags = ["--ca-file", str(ca), "--cert", str(client.certificate), "--key", str(client.key)]
        w.start_scheduler(url=w.waggle_url, flags=flags)
        w.nodes(4, gpus=30)
        names = [f"p{i:02}" for i in range(60)]
        for name in names:
            w.pod(name, gpus=1)
        w.all_placed(names)
        assert len(connections_of(w.scheduler, w.waggle_url)) == 1


def connections_of(process: Process | None, url: str) -> set[str]:
    """The inodes of the connections that a process has open to `url` (Linux)."""
    assert process is not None
    port = f":{urlsplit(url).port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    there = {fields[9] for fields in lines if fields[2].endswith(port) and fields[3] == "01"}
    opened = {str(each.readlink()) for each in Path(f"/proc/{process.pid}/fd").iterdir()}
    return {inode for inode in there if f"socket:[{inode}]" in opened}
