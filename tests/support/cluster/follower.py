"""Follows one resource of an API server by a watch of its own, under a name of its own, so that no fault strikes it."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Any

import httpx


class Follower:
    """`take` is called with each object that is listed, by the constructor, or that changes, on a thread of its own."""

    def __init__(self, url: str, path: str) -> None:
        self._path = path
        self._client = httpx.Client(base_url=url, timeout=httpx.Timeout(5, read=0.2), headers={"user-agent": "witness"})
        listed = self._client.get(path).json()
        for each in listed["items"]:
            self.take(each, is_gone=False)
        self._version = listed["metadata"]["resourceVersion"]
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._thread.start()

    def take(self, obj: dict[str, Any], *, is_gone: bool) -> None:
        """Look at an object."""
        raise NotImplementedError

    def _watch(self) -> None:
        while not self._is_over:
            query = {"watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
            with suppress(httpx.HTTPError), self._client.stream("GET", self._path, params=query) as response:
                for line in response.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.take(event["object"], is_gone=event["type"] == "DELETED")

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()
        self._client.close()
