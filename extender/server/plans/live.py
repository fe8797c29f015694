"""Reads from the API server what the server's own records lack: specs of pods, budgets, priority classes, workloads.

Records keep what decisions need: no selectors, tolerations, host ports or owners. So waiting pods are read in full, and
other pods where a plan has to know them. Pages are passed on as they come; only the token of the next page is decoded
here. A plan reads at most MOST_BYTES.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.informers.envelopes import decode_page
from extender.server.plans.frames import Live, Needs, Objects

#: Bytes of all pages of one plan.
MOST_BYTES = 96 << 20
#: Objects of a page: small, since the search for its token keeps other threads waiting.
_PAGE = 100
_TRIES = 3


class LiveError(Exception):
    """Objects cannot be read."""


class RefusedError(LiveError):
    """The server has no right to list these objects."""


class Kind(NamedTuple):
    """A kind of objects that a plan reads if it may."""

    kind: str
    api_version: str
    plural: str


#: What is read besides pods, owners before what they own.
KINDS = (
    Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses"),
    Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
    Kind("PodGroup", "scheduling.k8s.io/v1alpha1", "podgroups"),
    Kind("PodGroup", "scheduling.x-k8s.io/v1alpha1", "podgroups"),
    Kind("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets"),
    Kind("Job", "batch.volcano.sh/v1alpha1", "jobs"),
    Kind("Deployment", "apps/v1", "deployments"),
    Kind("ReplicaSet", "apps/v1", "replicasets"),
    Kind("StatefulSet", "apps/v1", "statefulsets"),
    Kind("Job", "batch/v1", "jobs"),
)


class LiveReader:
    """Reads for one plan."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._left = MOST_BYTES
        #: Sentences about what could not be read.
        self.notes: list[str] = []

    def waiting(self) -> Iterator[Live]:
        """Yield the pages of pods that have no node. Raises LiveError: without them there is no plan."""
        yield from map(Live, self._pages("/api/v1/pods", {"fieldSelector": "spec.nodeName=,status.phase=Pending"}))

    def pods(self, needs: Needs) -> Iterator[Live]:
        """Yield the pages of pods that are needed in full. Those that cannot be read are noted: they are known by
        their records."""
        asked: list[tuple[str, dict[str, str]]] = []
        asked += [("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"}) for node in needs.nodes]
        asked += [(_path(namespace), {}) for namespace in needs.namespaces]
        asked += [(_path(namespace), {"labelSelector": labels}) for namespace, labels in needs.selected]
        for path, query in asked:
            try:
                yield from map(Live, self._pages(path, query))
            except LiveError as error:
                self.notes.append(f"the owners of some running pods are not known: {error}")

    def objects(self) -> Iterator[Objects]:
        """Yield the pages of other objects. A kind that cannot be read is noted, and is no fault."""
        refused: list[str] = []
        for kind in KINDS:
            try:
                for page in self._pages(f"/apis/{kind.api_version}/{kind.plural}", {}):
                    yield Objects(kind.kind, kind.api_version, page)
            except RefusedError:
                refused.append(kind.plural)
            except LiveError as error:
                self.notes.append(f"{kind.plural} are not considered: {error}")
        if refused:
            self.notes.append(f"not considered, since the server has no right to list them: {', '.join(refused)}")

    def _pages(self, path: str, query: dict[str, str]) -> list[bytes]:
        for _ in range(_TRIES):
            pages = self._try(path, query)
            if pages is not None:
                return pages
        raise LiveError(f"{path} changes faster than it can be read")

    def _try(self, path: str, query: dict[str, str]) -> list[bytes] | None:
        """All pages; None if they expired before the last one."""
        pages: list[bytes] = []
        token, size = "", 0
        while True:
            more = {"continue": token} if token else {}
            body = self._get(path, query | more | {"limit": str(_PAGE)}, may_expire=bool(token))
            if body is None:
                return None
            size += len(body)
            if size > self._left:
                raise LiveError(f"{path} has more than {MOST_BYTES >> 20} MiB")
            pages.append(body)
            before, token = token, _next(path, body)
            if not token or token == before:
                self._left -= size
                return pages

    def _get(self, path: str, query: dict[str, str], *, may_expire: bool) -> bytes | None:
        try:
            response = self._api.request("GET", path, query=query, most=bounds.PAGE)
        except ApiError as error:
            raise LiveError(f"the API server cannot be read: {error}") from error
        if response.status == 410 and may_expire:
            return None
        if response.status == 404 and path.startswith("/apis/"):  # it is not served; pods always are
            return b'{"items":[]}'
        if response.status == 403:
            raise RefusedError(f"the API server refuses {path}")
        if not response.ok:
            raise LiveError(f"the API server refuses {path} (HTTP {response.status}): {bounds.cut(response.message)}")
        return response.body


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def _next(path: str, body: bytes) -> str:
    try:
        return decode_page(body).next
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LiveError(f"{path} is no list: {error}") from error
