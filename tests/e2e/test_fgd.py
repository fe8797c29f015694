"""GPUs that are shared by parts, behind a real kube-scheduler."""

from __future__ import annotations

from tests.e2e.matrix import EMBEDDED, NEWEST, _on
from tests.e2e.world import GPU, RealCluster, eventually

pytestmark = _on(NEWEST, EMBEDDED)

WORLD = {"settings": {"algorithm": {"name": "fgd", "settings": {"resource": GPU}}}}


def part(milli: int) -> dict[str, str]:
    return {"waggle.dev/gpu-milli": str(milli)}


def index(w: RealCluster, name: str) -> str:
    return (w.get(name) or {"metadata": {}})["metadata"].get("annotations", {}).get("waggle.dev/gpu-index", "")


def test_parts_share_a_gpu_and_whole_ones_stay_whole(w: RealCluster) -> None:
    w.nodes(2, gpus=2)
    names = [f"part{number}" for number in range(4)]
    for name in names:
        w.pod(name, gpus=0, annotations=part(500))
        w.place(name)
    places = {(w.node_of(name), index(w, name)) for name in names}
    assert len(places) == 2, places
    for number in range(2):
        w.pod(f"whole{number}", gpus=1)
        assert (w.place(f"whole{number}"), index(w, f"whole{number}")) not in places
    w.pod("more", gpus=0, annotations=part(1))
    w.refused("more")
    w.delete(names[0])
    eventually(lambda: w.node_of("more"), "the part that came free is used")


def test_a_restart_knows_which_gpus_are_taken(w: RealCluster) -> None:
    w.nodes(1, gpus=1)
    w.pod("first", gpus=0, annotations=part(600))
    w.place("first")
    assert w.waggle is not None
    w.waggle.stop()
    w.start_waggle()
    w.pod("large", gpus=0, annotations=part(500))
    w.refused("large")
    w.pod("small", gpus=0, annotations=part(400))
    assert w.place("small") == "n0"
    assert index(w, "small") == "0"
