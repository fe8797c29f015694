"""A real server records into a folder with many segments and checkpoints, while pods come and go and people ask.

What the world checks at its end of every recording (that it replays to the same stories) holds of this one, too.
"""

from __future__ import annotations

import threading

import pytest

from extender.recording import checkpointer, recorder
from extender.recording.log import open_log
from extender.recording.replaying import Replay
from tests.support.cluster.local_cluster import world


@pytest.mark.slow
def test_a_replay_from_every_checkpoint_ends_as_the_server_did(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (recorder, "_LONGEST_SEGMENT", 8_000),
        (recorder, "_FLUSH", 0.05),
        (checkpointer, "_AGAIN", 0.05),
        (checkpointer, "_LOCK_SHARE", 0),
    ):
        monkeypatch.setattr(module, name, value)
    with world(nodes=4, scheduler=True) as w:
        stop = threading.Event()

        def ask() -> None:  # what-if copies the algorithm, too, and one copy is made at a time
            while not stop.wait(0.01):
                w.waggle.client.get("/v1/explain/default/waits")

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            w.pod("waits", cpu="100")
            recorder_of = w.waggle.service.recorder
            assert recorder_of is not None
            for number in range(300):
                w.pod(f"p{number}")
                w.until(lambda number=number: w.node_of(f"p{number}"))
                w.cluster.delete("pods", f"p{number}")
                if recorder_of.status.checkpoints >= 3:
                    break
        finally:
            stop.set()
            asking.join()
        assert recorder_of.status.checkpoints >= 3
        folder = w.waggle._record
        w.stop_waggle()
        recording = open_log(folder).recordings[-1]
        assert len(recording.starts) >= 4
        ends = set()
        for start in recording.starts:
            replay = Replay(recording, start=start)
            assert not [played for played in replay if played.divergence]
            ends.add(tuple((each.uid, each.state, each.node, *each.history) for each in replay.engine.pod_infos()))
        assert len(ends) == 1
        w.start_waggle()
