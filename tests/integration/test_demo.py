"""The demo's parts, in this process: its acts in a whole world, its report, its processes. `.ci/run` plays it all."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from extender.cli import app
from extender.demo import hived
from extender.demo.cast import Cast, CastError, Process
from extender.demo.claims.books import Books
from extender.demo.claims.play import ClaimsDemo, load_of_others
from extender.demo.claims.pools import CLUSTER_ARGUMENTS, cluster_objects, sections
from extender.demo.claims.table import Verdict as ClaimsVerdict
from extender.demo.claims.table import show_stay as show_claims_stay
from extender.demo.claims.table import show_verdict
from extender.demo.own_command import own_command
from extender.demo.report import Outlook, show_farewell, show_report, show_stay
from extender.demo.run import Calm, Demo
from extender.demo.vpods import fleet
from extender.demo.vpods.history import History, Written, moves, placements, unevenness, violations
from extender.demo.vpods.table import Verdict
from extender.demo.vpods.table import show_stay as show_vpods_stay
from extender.demo.vpods.table import show_verdict as show_vpods_verdict
from extender.demo.workloads import MANIFESTS, Act, Expect, acts, nodes
from extender.kube.client.kubeconfig import connect
from extender.recording.log import open_log
from extender.recording.replaying import Replay
from extender.settings import ClusterSettings
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world
from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.pages import blocks, page


def test_an_act_whose_pods_all_run_is_over_and_one_with_a_refused_pod_is_watched_for_longer() -> None:
    act = Act("two pods", Expect.SETTLES, pods=frozenset({"a", "b"}))
    runs = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    refused = {"spec": {}, "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    assert Calm().lasts(act, {"a": runs, "b": runs, "other": refused})
    assert not Calm().lasts(act, {"a": runs, "b": refused})
    assert not Calm().lasts(act, {"a": runs})


@contextmanager
def cast_in(w: LocalCluster) -> Iterator[Cast]:
    """A cast that finds its cluster and Waggle running already."""
    with closing(Cast(port=0, verbose=False)) as cast:
        cast.url = f"http://127.0.0.1:{w.waggle.client.port}"
        cast._face = connect(ClusterSettings(server=cast.url))
        cast.cluster_url = w.cluster.url
        cast._api = connect(ClusterSettings(server=w.cluster.url))
        yield cast


def stage(w: LocalCluster) -> None:
    for machine in nodes():
        w.cluster.create(machine)


def perform(cast: Cast, play: list[Act]) -> list[str]:
    """The titles of the acts that did not end as expected."""
    demo = Demo()
    demo._console = Console(file=io.StringIO())
    return [act.title for act in play if not demo._perform(cast, act)]


def shown(*shows: object) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    for show, *arguments in shows:
        show(console, *arguments)
    return console.file.getvalue()


def test_acts_end_as_they_should_and_are_reported():
    with world(prepare=stage, scheduler=True) as w, cast_in(w) as cast:
        play = acts(MANIFESTS)[:4]
        assert [bool(act.pods) for act in play] == [False, True, True, True], "priorities, single pods, two gangs"
        assert perform(cast, play) == []

        outlook = Outlook(cast, play)
        assert outlook.wrong == []
        said = shown((show_report, outlook), (show_farewell, True, outlook, 1.0), (show_stay, cast, outlook))
        for text in ("Who runs where", "GangDoesNotFit", "All ended as it should", f"{w.waggle.url}/ui"):
            assert text in said


def test_the_report_tells_what_is_wrong():
    with world(waggle=False, prepare=stage) as w:
        gpus = {"resources": {"requests": {"example.com/gpu": "8"}, "limits": {"example.com/gpu": "8"}}}
        container = {"name": "c", "image": "pause", **gpus}
        w.gang("split", 2)
        w.cluster.delete("pods", "split-1", grace_period_seconds=0)
        w.pod("a", nodeName="gpu-00", containers=[container])
        w.pod("b", nodeName="gpu-00", containers=[container])
        w.pod("split-1", nodeName="gpu-01", gang=("split", 2))
        w.start_waggle()
        w.books.faults.clear()
        with cast_in(w) as cast:
            outlook = Outlook(cast, [])

            assert outlook.wrong == [
                "node gpu-00 has 16 of 8 GPUs in use",
                "gang split is split: 1 of its pods run, it needs 2",
            ]
            assert "Not all ended" in shown((show_farewell, False, outlook, 1.0))


def test_a_process_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path):
    process = Process("waggle", [sys.executable, "-c", "exit('no such port')"], tmp_path, verbose=False)

    def ended() -> bool:
        try:
            process.check()
        except CastError as error:
            assert "waggle ended with status 1: no such port" in str(error)
            return True
        return False

    eventually(ended)
    process.stop()


def test_what_the_cluster_refuses_is_told():
    with world(nodes=1) as w, cast_in(w) as cast:
        with pytest.raises(CastError, match="409"):
            cast.create(nodes()[0] | {"metadata": {"name": "n0"}})
        with pytest.raises(CastError, match="Service"):
            cast.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}})
        with pytest.raises(CastError, match="404"):
            cast.waggle("/v1/explain/default/nobody")


@pytest.mark.slow
def test_hived_shows_tenants_who_borrows_and_why_somebody_waits():
    with world(prepare=stage, scheduler=True, algorithm=hived.ALGORITHM) as w, cast_in(w) as cast:
        play = hived.acts()[:4]
        assert perform(cast, play) == []

        outlook = Outlook(cast, play)
        assert outlook.wrong == []
        text = shown((show_report, outlook))
        assert "speech-more needs 32: 16 more have to become free." in " ".join(text.split()).replace("│ ", "")
        assert sum(outlook.gpus_by_node().values()) == 256


# -- claims ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_claims_under_load_and_faults_obey_the_laws():
    def prepare(w: ClaimWorld) -> None:
        for item in cluster_objects():
            if item["kind"] == "CustomResourceDefinition":
                continue
            group = "apis/apps/v1/namespaces/sandboxes/deployments" if item["kind"] == "Deployment" else "api/v1/nodes"
            assert w.api.post(f"/{group}", item).status_code == 201

    with claim_world(pods=0, serve=False, prepare=prepare) as w, closing(Cast(port=0, verbose=False)) as cast:
        cast.url = w.serve(pools=sections()["claims"]["pools"]).handle.url
        cast._face = connect(ClusterSettings(server=cast.url))
        cast._api = connect(ClusterSettings(server=w.cluster.url))
        demo = ClaimsDemo(pace=0.1, rate=20)
        demo._console, demo._cast = Console(file=io.StringIO()), cast
        with demo._callers(20) as callers:
            load, _rush, faults, crash = demo._acts(callers)
            assert "killed" in crash.title
            assert demo._perform(load)
            assert demo._perform(faults)
            assert demo._end(callers)

        verdict = demo._verdict()
        assert verdict.wrong == []
        assert verdict.books.numbers().claimed > 0
        assert verdict.faults > 0
        assert verdict.idle == 72
        assert "no pod given away twice" in " ".join(shown((show_verdict, verdict, 1.0)).split())


def test_broken_laws_of_claims_are_told():
    books = Books()
    for _ in range(3):
        books.asked("python")
    books.claimed("python", 0.01, "c-1", [("u1", "pod-1")], None)
    books.claimed("python", 0.01, "c-2", [("u1", "pod-1")], None)
    assert books.wrong == ["pod pod-1 was given to c-2 while c-1 had it"]
    assert books.numbers().pending == 1

    verdict = ClaimsVerdict(books=books, wrong=books.wrong, faults=0, looks=1, own_looks=1, claimed=1, idle=0)
    said = shown((show_verdict, verdict, 1.0))
    assert "pod-1 was given to c-2" in said
    assert "Not all ended as it should" in said


def test_a_pod_of_a_caller_that_is_not_its_claims_at_the_api_server_is_told():
    with claim_world(pods=1) as w, closing(Cast(port=0, verbose=False)) as cast:
        cast._api = connect(ClusterSettings(server=w.cluster.url))
        answer = w.claim().json()
        (pod,) = answer["pods"]
        demo = ClaimsDemo()
        demo._cast, books = cast, demo._scene.books
        books.claimed("warm", 0.01, answer["id"], [(pod["uid"], pod["name"])], None)
        demo._compare()
        assert books.wrong == []
        books.gives_back([pod["uid"]])
        books.claimed("warm", 0.01, "c-other", [(pod["uid"], pod["name"])], None)
        demo._compare()
        assert books.wrong == [f"pod {pod['name']} of claim c-other belongs to {answer['id']!r} at the API server"]


@pytest.mark.slow
def test_the_demo_of_claims_survives_a_crash_and_leaves_nothing_behind():
    done = demo({**os.environ}, "--claims")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Crash: Waggle is killed" in done.stdout
    assert "nothing left claimed" in " ".join(done.stdout.split())


@pytest.mark.slow  # two processes, and each line starts others
def test_the_lines_that_the_demo_of_claims_prints_work():
    """In the shell of somebody who has read only these lines: each is run as it is printed."""
    with closing(Cast(port=0, verbose=False, sections=sections())) as cast:
        cast.start_cluster(cluster_objects(), CLUSTER_ARGUMENTS)
        cast.start_waggle()
        cast.wait_ready()
        assert eventually(lambda: cast.waggle("/v1/pools/sandboxes/python")["idle"] == 48)
        said = shown((show_claims_stay, cast))
        lines = [line.strip() for line in said.splitlines() if line.startswith("  ") and not line.startswith("  #")]
        assert len(lines) >= 9
        claim = ""
        for line in lines:
            done = subprocess.run(
                line.replace("/ID", f"/{claim}"), shell=True, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            assert '"error"' not in done.stdout, f"{line}: {done.stdout}"
            claim = json.loads(done.stdout)["id"] if "lease_seconds" in line else claim


def test_the_demo_names_the_command_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    installed = tmp_path / "bin" / "waggle"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert own_command() == f"{tmp_path}/bin/python -m extender.cli"

    installed.parent.mkdir()
    installed.touch(0o755)
    assert own_command() == "waggle"

    monkeypatch.setenv("PATH", "/nowhere")
    assert own_command() == str(installed)
    monkeypatch.chdir(tmp_path)
    assert own_command() == "bin/waggle"


@pytest.mark.parametrize(
    ("load", "cpus", "told"), [(14.2, 2, "load 14 on 2 CPUs"), (1.9, 2, ""), (3.0, None, "load 3 on 1")]
)
def test_a_busy_machine_is_told_before_its_slow_answers(
    monkeypatch: pytest.MonkeyPatch, load: float, cpus: int | None, told: str
):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert told in load_of_others()
    assert bool(told) == bool(load_of_others())


def test_the_demo_of_claims_has_no_use_for_an_algorithm():
    done = CliRunner().invoke(app, ["demo", "--claims", "--algorithm", "hived"])
    assert done.exit_code == 2
    assert "--algorithm" in done.stderr


# -- any algorithm --------------------------------------------------------------------------------------------------

GUIDE = page("plugin-authors.md")


@pytest.fixture
def slots(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which the author's guide's algorithm is installed."""
    (module, *_) = blocks(GUIDE, "python")
    (tmp_path / "slots.py").write_text(module)
    info = tmp_path / "my_algorithm-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-algorithm\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[waggle.algorithms]\nslots = slots:PLUGIN\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}


def demo(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "extender.cli", "demo", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)


@pytest.mark.slow
def test_any_installed_algorithm_can_be_watched_with_settings_of_ones_own(
    slots: dict[str, str], tmp_path: Path
) -> None:
    """With one slot on each of 32 nodes 32 pods run; what is left waits, also for the algorithm's own reason."""
    (tmp_path / "slots.yaml").write_text("slots: 1\n")

    done = demo(slots, "--algorithm", "slots", "--settings", str(tmp_path / "slots.yaml"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(map(int, re.findall(r"\((\d+) of \d+ run", done.stdout))) == 32
    assert "every offered node has its" in done.stdout
    assert "no gang split" not in done.stdout, "that is not what this algorithm promises"


@pytest.mark.slow
def test_a_recorded_demo_replays_the_crash_included(tmp_path: Path) -> None:
    """Waggle is killed in the middle and started again: two runs in one folder, all decisions the same."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = demo(environment, "--record", str(tmp_path / "record"))
    assert done.returncode == 0, done.stdout + done.stderr

    recordings = open_log(tmp_path / "record").recordings
    assert len(recordings) == 2
    for recording in recordings:
        assert not [each for each in Replay(recording) if each.divergence]
    assert recordings[0].ended is None
    assert recordings[1].ended is not None


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (["--algorithm", "slotz"], "", "no algorithm named 'slotz' is installed"),
        (["--algorithm", "slots"], "slotz: 3", "slotz"),
        (["--algorithm", "slots"], "- 3", "expected fields"),
        (["--algorithm", "packing"], "strategy: heap", "strategy"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_started(
    slots: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    settings: str,
    said: str,
) -> None:
    (tmp_path / "settings.yaml").write_text(settings)
    monkeypatch.syspath_prepend(str(tmp_path))

    done = CliRunner().invoke(app, ["demo", *arguments, "--settings", str(tmp_path / "settings.yaml")])

    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit), done.exception
    assert said in done.stderr
    assert done.stdout == ""


# -- vpods ----------------------------------------------------------------------------------------------------------


def written(version: int, vpod: str, scheduled: int | None = None, **pods: int) -> Written:
    """A version of a vpod; pods are given by `p` and their ordinal."""
    found = Counter({f"ss-{name[1:]}": number for name, number in pods.items()})
    return Written(version, vpod, found, found.total() if scheduled is None else scheduled)


def scaled(version: int, replicas: int) -> Written:
    return Written(version, replicas=replicas)


def test_a_pod_that_holds_too_much_is_told():
    first, second = written(1, "a", p0=6), written(2, "b", p0=4, p1=1)
    assert violations([first, second], 10) == []
    assert violations([first, second, written(3, "b", p0=5)], 10) == ["b makes it 11 vreplicas on ss-0"]
    assert violations([first, second, written(3, "a", p1=6), written(4, "b", p0=10)], 10) == []


def test_a_pod_that_is_taken_away_with_vreplicas_is_told():
    before = [scaled(1, 3), written(2, "a", p0=1, p2=2)]
    assert violations([*before, scaled(3, 2)]) == ["ss-2 is taken away with 2 vreplicas"]
    assert violations([*before, written(3, "a", p0=3), scaled(4, 2)]) == []
    assert violations([*before, scaled(3, 4)]) == []


def test_moves_are_vreplicas_that_left_a_pod_for_another_one():
    first = written(1, "a", p0=3, p1=3)
    assert moves([first, written(2, "a", p0=3, p1=4)]) == 0
    assert moves([first, written(2, "a", p0=2, p1=2)]) == 0
    assert moves([first, written(2, "a", p0=3, p2=3)]) == 3
    assert moves([first, written(2, "a", p0=1, p2=3)]) == 3
    overlapping = [first, written(2, "a", 6, p0=3, p1=3, p2=3), written(3, "a", p0=3, p2=3)]
    assert moves(overlapping) == 3
    assert moves(overlapping, after=3) == 0


def test_a_vpod_is_even_if_its_numbers_differ_by_one_on_all_pods():
    assert unevenness(Counter(a=3, b=2), 2) == ""
    assert unevenness(Counter(a=3, b=1), 2) == "1 to 3"
    assert unevenness(Counter(a=1), 3) == ""
    assert unevenness(Counter(a=2), 3) == "0 to 2"


def test_watches_that_show_a_version_twice_or_late_make_one_history():
    books = History()
    for entry in (written(3, "a", p0=1), scaled(2, 1), written(3, "a", p0=1)):
        books.add(entry)
    assert [each.version for each in books.in_order()] == [2, 3]
    assert books.latest() == 3
    assert placements(books.in_order()) == {"a": Counter({"ss-0": 1})}


@pytest.mark.slow
def test_the_demo_of_vpods_survives_a_crash_and_leaves_nothing_behind():
    done = demo({**os.environ}, "--vpods")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Crash: Waggle is killed" in done.stdout
    assert "every vreplica has a pod" in " ".join(done.stdout.split())


@pytest.mark.slow  # two processes, and each line starts others
def test_the_lines_that_the_demo_of_vpods_prints_work():
    """In the shell of somebody who has read only these lines: each is run as it is printed."""
    with closing(Cast(port=0, verbose=False, sections=fleet.sections())) as cast:
        cast.start_cluster(fleet.cluster_objects(), fleet.CLUSTER_ARGUMENTS)
        for name, wanted in fleet.VPODS.items():
            cast.create(fleet.vpod(name, fleet.quiet(wanted)))
        cast.start_waggle()
        cast.wait_ready()
        name = f"/v1/vpods/{fleet.NAMESPACE}/{fleet.SET}"
        assert eventually(lambda: cast.waggle(name)["sums"]["placed"] == 36)
        said = shown((show_vpods_stay, cast))
        lines = [line.strip() for line in said.splitlines() if line.startswith("  ") and not line.startswith("  #")]
        assert len(lines) >= 6
        for line in lines:
            done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            assert '"error"' not in done.stdout, f"{line}: {done.stdout}"


def test_the_result_of_the_demo_of_vpods_names_what_is_wrong():
    good = Verdict(wrong=[], versions=10, moves=2, faults=1, largest=5, smallest=3)
    assert "All ended as it should" in shown((show_vpods_verdict, good, 1.0))
    said = shown((show_vpods_verdict, replace(good, wrong=["ss-2 is taken away with 2 vreplicas"]), 1.0))
    assert "ss-2 is taken away" in said
    assert "Not all ended as it should" in said


@pytest.mark.parametrize(
    ("arguments", "named"), [(("--vpods", "--algorithm", "hived"), "--algorithm"), (("--vpods", "--claims"), "one of")]
)
def test_the_demo_of_vpods_refuses_what_it_cannot_use(arguments: tuple[str, ...], named: str):
    done = CliRunner().invoke(app, ["demo", *arguments])
    assert done.exit_code == 2
    assert named in done.stderr


def test_a_folder_that_cannot_be_recorded_into_is_refused_before_anything_starts(tmp_path: Path):
    (tmp_path / "other").touch()
    done = CliRunner().invoke(app, ["demo", "--record", str(tmp_path)])
    assert done.exit_code == 2
    assert "has other files (other)" in done.stderr
