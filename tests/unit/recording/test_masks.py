"""No secret gets into a recording, wherever an operator, a pod's author or a plug-in puts it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Self

import msgspec
import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.registry import Plugin, create
from extender.core.outcomes import Outcome, OutcomeKind
from extender.recording.checkpointer import Source
from extender.recording.files import CHECKPOINT, files_in
from extender.recording.log import open_log
from extender.recording.masks import MASK, Masks, is_secret
from extender.recording.recorder import Recorder
from extender.recording.replaying import Replay
from extender.scheduling.commands import PodRead
from extender.scheduling.events import (
    AlgorithmPrepared,
    FilterRequested,
    NodeSeen,
    PodSeen,
    PreemptRequested,
    PrepareAlgorithm,
    PrioritizeRequested,
    ReconfigureRequested,
    Synced,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.apiserver.api import eventually
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.installed import install

API_TOKEN = "hunter2-constant"
MANIFEST = "kubectl.kubernetes.io/last-applied-configuration"


def secret(where: str) -> str:
    return f"hunter2-{where}"


class Inner(BaseModel):
    anything: SecretBytes = SecretBytes(b"")


class Settings(BaseModel):
    url: SecretStr = SecretStr("")
    inner: list[Inner] = []
    quota_token: str = ""
    headers: dict[str, str] = {}
    strategy: str = ""


class ReadsAll(PlainAlgorithm):
    """Reads every annotation, and keeps texts of them in its own state, with its settings."""

    def __init__(self, given: Settings) -> None:
        super().__init__()
        self.given = given
        self.raw = [given.url.get_secret_value(), given.quota_token]
        self.texts: list[str] = []

    def add_unallocated_pod(self, pod: Pod) -> None:
        super().add_unallocated_pod(pod)
        self.texts += [text for _, text in pod.annotations]

    def fork(self) -> Self:
        twin = type(self)(self.given)
        for name in ("nodes", "unallocated", "allocated", "preempting"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.texts = list(self.texts)
        return twin


READS_ALL: Plugin[Settings] = Plugin(settings=Settings, create=ReadsAll)
SETTINGS = {
    "url": secret("url"),
    "inner": [{"anything": secret("bytes")}],
    "quota_token": secret("named"),
    "headers": {"Authorization": f"Bearer {secret('header')}", "Accept": "json"},
    "strategy": "kept",
}


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, monkeypatch, reads_all=f"{__name__}:READS_ALL")


def planted(name: str, **fields: Any) -> Pod:
    annotations = ((MANIFEST, f'{{"env": "{secret(name)}"}}'), ("example.com/password", secret(name)), ("note", "kept"))
    return pod(name, annotations=annotations, labels=(("api-token", secret(name)), ("app", "kept")), **fields)


def events() -> Iterator[Any]:
    annotations = (("node.example.com/bootstrap-token", secret("node")),)
    labels = (("credentials", secret("node")),)
    yield NodeSeen(msgspec.structs.replace(node("n0"), annotations=annotations, labels=labels))
    yield Synced()
    yield PodSeen(planted("seen"))
    offered = SuggestedNodes(["n0"])
    yield FilterRequested(planted("filtered"), offered)
    yield PrioritizeRequested(planted("scored"), offered)
    yield PreemptRequested(planted("preempting"), ())
    yield PodRead(1, Outcome(OutcomeKind.DONE), planted("read", on="n0"))
    yield ReconfigureRequested(1, "reads_all", {**SETTINGS, "quota_token": secret("changed")})
    yield AlgorithmPrepared(1)
    yield PodSeen(planted("last"))


def test_no_secret_is_in_any_file_and_the_recording_still_replays(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    machine = SchedulerStateMachine(create("reads_all", SETTINGS), Policy())
    recorder = Recorder(folder, "reads_all", SETTINGS, Policy())
    recorder.attach(Source(machine, lambda pieces: pieces, Lock()))
    for now, event in enumerate(events()):
        recorder.heard(event, float(now), machine.sequence + 1)
        out = machine.handle(event, float(now))
        recorder.said(out)
        for item in out:
            if isinstance(item, PrepareAlgorithm):
                machine.preparations.carry_out(item, create)
    eventually(lambda: recorder.status.queued == 0)
    recorder._want_checkpoint()
    eventually(lambda: recorder.status.checkpoints == 1)
    recorder.close()

    texts = {each.path: zlib.decompressobj(31).decompress(each.path.read_bytes()) for each in files_in(folder)}
    assert {path.name.split(".")[1] for path in texts} == {"waggle-log", CHECKPOINT}
    for text in texts.values():
        assert b"hunter2" not in text
        assert text.count(MASK.encode()) > 3
        assert b"kept" in text

    recording = open_log(folder).recordings[0]
    assert recording.header.settings["quota_token"] == MASK
    assert recording.header.settings["headers"] == {"Authorization": MASK, "Accept": "json"}
    assert {"url", "anything", "quota_token", "Authorization"} <= set(recording.header.masked)
    for start in recording.starts:
        assert not [played for played in Replay(recording, start=start) if played.divergence]


@pytest.mark.parametrize(
    "key",
    [
        *(MANIFEST, "password", "example.com/db-passwd", "SecretName", "x-api-key", "apiKey", "private_key"),
        *("access.key", "Authorization", "session-cookie", "bearerToken", "aws_credentials", "passphrase"),
    ],
)
def test_names_of_secrets(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize("key", ["app", "waggle.dev/gang", "hivedscheduler.microsoft.com/pod-scheduling-spec", "key"])
def test_other_names(key: str) -> None:
    assert not is_secret(key)


def test_a_record_without_secrets_is_the_same_object() -> None:
    masks = Masks()
    plain, bare = pod("p", labels=(("app", "x"),)), node("n")
    assert masks.pod(plain) is plain
    assert masks.node(bare) is bare
    empty = pod("p", annotations=(("password", ""),))
    assert masks.pod(empty) is empty
    assert masks.masked == set()


def test_what_is_remembered_has_a_bound() -> None:
    masks = Masks()
    for number in range(25_000):
        masks.pod(pod("p", annotations=((f"password-{number}", f"secret number {number}"),)))
    assert len(masks.texts) == 20_000
    assert len(masks.masked) == 100
    assert len(masks._keys) <= 20_000
