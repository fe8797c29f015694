"""Store, list and watch against an oracle that remembers every state there ever was."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.lists import list_page, selector_of
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.table import CONFIG_MAPS, NODES
from extender.embedded.apiserver.watch import Watcher, WatchOptions

State = dict[str, Any]
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
SELECTORS = st.sampled_from(["", "color=red", "color!=red"])
HISTORY = 8


class ListAndWatch(RuleBasedStateMachine):
    """Writes to config maps (and nodes, which move the revision without moving the config maps' history)."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.cluster = Cluster(history=HISTORY, seed=1)
        self.store = self.cluster.store
        self.collection = self.store.collection(CONFIG_MAPS)
        self.states: dict[int, State] = {self.store.revision: {}}
        self.pages: tuple[int, str, list[str]] | None = None
        self.listed: list[str] = []

    def teardown(self) -> None:
        self.loop.close()

    def remember(self) -> None:
        now = {stored.key[1]: stored.fresh() for stored in self.collection}
        for revision in range(max(self.states) + 1, self.store.revision):
            self.states[revision] = self.states[revision - 1]
        self.states[self.store.revision] = now

    @rule(name=NAMES, color=st.sampled_from(["red", "blue"]))
    def write(self, name: str, color: str) -> None:
        target = Target(CONFIG_MAPS, "ns", name)
        body = {"metadata": {"name": name, "labels": {"color": color}}}
        if self.collection.get(("ns", name)) is None:
            self.cluster.create(Target(CONFIG_MAPS, "ns"), body)
        else:
            self.cluster.update(target, body)
        self.remember()

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.collection.get(("ns", name)) is not None:
            self.cluster.delete(Target(CONFIG_MAPS, "ns", name))
        self.remember()

    @rule()
    def write_elsewhere(self) -> None:
        self.cluster.create(Target(NODES), {"metadata": {"generateName": "n-"}})
        self.remember()

    @rule(back=st.integers(0, 12), selector=SELECTORS)
    def watch_from_any_revision(self, back: int, selector: str) -> None:
        since = max(min(self.states), self.store.revision - back)
        query = {"labelSelector": selector}
        chosen = selector_of(Target(CONFIG_MAPS), query)
        watcher = Watcher(WatchOptions(CONFIG_MAPS, chosen, since))
        if since < self.collection.floor:
            with pytest.raises(ApiError, match="too old resource version"):
                watcher.start(self.collection, self.store.revision)
            return
        watcher.start(self.collection, self.store.revision)
        watcher.close()
        state = self.select(self.states[since], selector)
        for line in self.loop.run_until_complete(watcher.take(0)):
            event = json.loads(line)
            name = event["object"]["metadata"]["name"]
            assert (event["type"] == "ADDED") == (name not in state), "ADDED is for what was not there"
            if event["type"] == "DELETED":
                del state[name]
            else:
                state[name] = {k: v for k, v in event["object"].items() if k not in ("kind", "apiVersion")}
        assert state == self.select(self.states[self.store.revision], selector)

    @rule(back=st.integers(0, 12))
    def list_exactly_at_a_revision(self, back: int) -> None:
        revision = max(min(self.states), self.store.revision - back)
        query = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
        if revision < self.collection.floor:
            with pytest.raises(ApiError, match="too old"):
                list_page(self.store, Target(CONFIG_MAPS), query)
            return
        page = json.loads(list_page(self.store, Target(CONFIG_MAPS), query))
        assert {item["metadata"]["name"]: item for item in page["items"]} == self.states[revision]

    @precondition(lambda self: self.pages is None)
    @rule()
    def first_page(self) -> None:
        page = json.loads(list_page(self.store, Target(CONFIG_MAPS), {"limit": "2"}))
        self.take(self.store.revision, page, [])

    @precondition(lambda self: self.pages is not None)
    @rule()
    def next_page(self) -> None:
        assert self.pages is not None
        revision, token, names = self.pages
        query = {"limit": "2", "continue": token}
        if revision < self.collection.floor:
            with pytest.raises(ApiError) as refused:
                list_page(self.store, Target(CONFIG_MAPS), query)
            assert (refused.value.code, refused.value.reason) == (410, "Expired")
            self.pages = None
            return
        page = json.loads(list_page(self.store, Target(CONFIG_MAPS), query))
        assert page["metadata"]["resourceVersion"] == str(revision)
        self.take(revision, page, names)

    def take(self, revision: int, page: dict[str, Any], names: list[str]) -> None:
        names = names + [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
        self.pages = (revision, token, names) if token else None
        if token is None:
            assert names == sorted(self.states[revision]), "all pages together are one moment's list"

    @invariant()
    def history_is_bounded(self) -> None:
        assert len(self.collection.history) <= HISTORY

    @staticmethod
    def select(state: State, selector: str) -> State:
        def matches(obj: dict[str, Any]) -> bool:
            red = obj["metadata"]["labels"]["color"] == "red"
            return {"": True, "color=red": red, "color!=red": not red}[selector]

        return {name: obj for name, obj in state.items() if matches(obj)}


TestListAndWatch = ListAndWatch.TestCase
TestListAndWatch.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
