"""Claims on a real control plane: a Deployment of idle pods, servers of claims as processes, and callers.

    with claim_cluster(plane) as c:
        c.deploy(60)
        c.serve("a"), c.serve("b")
        with c.callers(200) as calls:        # in threads; they try again, with their keys, like real clients
            c.scale(20)
        assert len(c.alive(calls.claimed())) == 200

A server has the account and the rights that manifests/claims ships; guard.py puts the policies in force that come with
them. At the end of a world everything is removed. Pods come from a Deployment and are made, adopted, released and
collected by the real controllers; KWOK runs them.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import yaml

from extender.claims.writes.names import CLAIM_ANNOTATION, CLAIM_LABEL, PHASE_LABEL
from tests.e2e.cluster import WAGGLES_NAMESPACE, ControlPlane, describe
from tests.e2e.guard import acting_as
from tests.e2e.hands import Hands, Object, eventually
from tests.e2e.processes import Process, free_port

_MANIFESTS = Path(__file__).parents[2] / "manifests"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
_ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"
_worlds = count(1)


class Calls:
    """Callers of one run: what each was told at last, and how long that took, seconds."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, httpx.Response | None]] = []
        self.seconds: list[float] = []
        self.retried = 0
        self._lock = threading.Lock()

    def add(self, key: str, answer: httpx.Response | None, seconds: float, tries: int) -> None:
        with self._lock:
            self.answers.append((key, answer))
            self.seconds.append(seconds)
            self.retried += tries - 1

    @property
    def ended(self) -> int:
        return len(self.answers)

    def claimed(self) -> dict[str, str]:
        """The claims that callers were told of: the claim by its pod's UID. Raises AssertionError if one has two."""
        given = [(pod["uid"], body["id"]) for body in self._bodies() for pod in body["pods"]]
        doubled = [uid for uid, times in Counter(uid for uid, _ in given).items() if times > 1]
        assert not doubled, f"pods of two claims: {doubled}"
        return dict(given)

    def _bodies(self) -> Iterator[Any]:
        return (answer.json() for _, answer in self.answers if answer is not None and answer.status_code == 201)

    def failed(self) -> Counter[str]:
        """The others, by status and code."""
        found: Counter[str] = Counter()
        for _, answer in self.answers:
            if answer is None:
                found["no answer"] += 1
            elif answer.status_code != 201:
                found[f"{answer.status_code} {answer.json().get('code')}"] += 1
        return found

    def p(self, percent: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class ClaimCluster(Hands):
    """One pool `warm` in a namespace of its own, on a ControlPlane that others use, too."""

    def __init__(self, plane: ControlPlane, mode: str = "detach") -> None:
        super().__init__(plane)
        self.plane, self.mode = plane, mode
        self.waggle = _client()
        self.servers: dict[str, Process] = {}
        self.urls: dict[str, str] = {}
        self.folder = plane.folder / f"claims-{next(_worlds)}"
        self.folder.mkdir()
        (binding,) = yaml.safe_load_all((_MANIFESTS / "claims" / "pool-namespace.yaml").read_text(encoding="utf-8"))
        self._post(_ROLE_BINDINGS.format(self.namespace), binding)

    def _post(self, path: str, body: Any) -> Object:
        made: Object = describe(self.http.post(path, json=body))
        return made

    def bind(self, role: str, account: str = "waggle-claims", namespace: str = WAGGLES_NAMESPACE) -> None:
        """Give a service account the rights of a ClusterRole, in the pool's namespace."""
        body = {
            "metadata": {"name": f"{role}-{account}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
        self._post(_ROLE_BINDINGS.format(self.namespace), body)

    # -- the workload -----------------------------------------------------------------------------------------------

    def deploy(self, replicas: int, name: str = "warm", *, seconds: float = 60) -> None:
        """A Deployment, and waits until its pods are ready. They name their node: nobody has to schedule them."""
        if not self.list("Node"):
            self.nodes(4, gpus=0, pods="1000")
        labels = {"pool": "warm", **({PHASE_LABEL: "idle"} if self.mode == "recycle" else {})}
        template = {
            "metadata": {"labels": labels},
            "spec": {"nodeName": "n0", **self.pod_spec(cpu="1m")},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"pool": "warm"}}, "template": template}
        self._post(_DEPLOYMENTS.format(self.namespace), {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: self.ready(name) == replicas, lambda: f"{self.ready(name)} of {replicas}", seconds=seconds)

    def ready(self, name: str = "warm") -> int:
        found: int = self._deployment(name)["status"].get("readyReplicas", 0)
        return found

    def wanted(self, name: str = "warm") -> int:
        """The replicas that it is to have."""
        found: int = self._deployment(name)["spec"]["replicas"]
        return found

    def _deployment(self, name: str) -> Object:
        found: Object = describe(self.http.get(f"{_DEPLOYMENTS.format(self.namespace)}/{name}"))
        return found

    def scale(self, replicas: int, name: str = "warm") -> None:
        self._change(name, {"spec": {"replicas": replicas}})

    def roll_out(self, name: str = "warm") -> None:
        """As `kubectl rollout restart` does."""
        note = {"kubectl.kubernetes.io/restartedAt": str(time.time())}
        self._change(name, {"spec": {"template": {"metadata": {"annotations": note}}}})

    def _change(self, name: str, body: Object) -> None:
        describe(
            self.http.patch(
                f"{_DEPLOYMENTS.format(self.namespace)}/{name}",
                json=body,
                headers={"content-type": "application/merge-patch+json"},
            )
        )

    def delete_deployment(self, name: str = "warm", *, propagation: str = "Background") -> None:
        """Its ReplicaSets and their pods are garbage then."""
        body = {"propagationPolicy": propagation}
        describe(self.http.request("DELETE", f"{_DEPLOYMENTS.format(self.namespace)}/{name}", json=body))

    def deletes(self, pod: str, account: str = "") -> int:
        """The status of a deletion by an account; "": by the administrator."""
        return self.http.request("DELETE", f"{self._path('Pod')}/{pod}", headers=acting_as(account)).status_code

    # -- servers ----------------------------------------------------------------------------------------------------

    def serve(
        self, name: str = "a", *, wait: bool = True, claims: Mapping[str, Any] | None = None, **pool: Any
    ) -> None:
        """Start a server of claims, where and as it was before if it was. `claims` changes that section of its
        configuration, `pool` the pool in it."""
        told, config = self.folder / f"{name}.url", self.folder / f"{name}.yaml"
        if not config.exists():
            warm = {
                "namespace": self.namespace,
                "name": "warm",
                "selector": {"pool": "warm"},
                "mode": self.mode,
                **pool,
            }
            settings = {
                "server": {"port": free_port()},
                "extender": {"enabled": False},
                # Of the Leases by which replicas share the pools: those of another cluster are not counted.
                "leader_election": {"namespace": WAGGLES_NAMESPACE, "name": f"claims-{self.namespace}"},
                "cluster": {"kubeconfig": str(self.plane.kubeconfig("waggle-claims"))},
                "claims": {"enabled": True, "pools": [warm], **(claims or {})},
            }
            config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        told.unlink(missing_ok=True)
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", config, "--url-file", told]
        self.servers[name] = server = Process(f"claims {name}", command, self.folder / f"{name}.log")
        eventually(lambda: server.check() or told.exists(), server.last_words)
        self.urls[name] = told.read_text(encoding="utf-8").strip()
        if wait:
            eventually(lambda: self._is_ready(name), server.last_words)

    def _is_ready(self, name: str) -> bool:
        self.servers[name].check()
        return self.ask(name, "/readyz/claims").status_code == 200

    def ask(self, name: str, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        return self.waggle.request(method, f"{self.urls[name]}{path}", **more)

    def pool(self, name: str = "a") -> Object:
        found: Object = self.ask(name, f"/v1/pools/{self.namespace}/warm").json()
        return found

    def idle(self, at_least: int, name: str = "a") -> None:
        eventually(lambda: self.pool(name)["idle"] >= at_least, lambda: str(self.pool(name)), seconds=40)

    def scales(self, name: str) -> bool:
        """Whether this server is the one that scales workloads."""
        return "waggle_autoscaler_reason{" in self.ask(name, "/metrics").text

    # -- callers ----------------------------------------------------------------------------------------------------

    @contextmanager
    def callers(
        self, number: int, *, at_once: int = 16, keys: bool = True, patience: float = 40, **body: Any
    ) -> Iterator[Calls]:
        """Claims by threads, over all servers in turn. With a key, a caller tries again until it has an answer.

        At the end of the block all of them have ended.
        """
        calls, numbers, urls = Calls(), iter(range(number)), list(self.urls.values())
        lock = threading.Lock()

        def call() -> None:
            with _client() as client:
                while True:
                    with lock:
                        mine = next(numbers, None)
                    if mine is None:
                        return
                    self._call(client, calls, urls, mine, patience if keys else 0, body)

        threads = [threading.Thread(target=call) for _ in range(min(at_once, number))]
        for thread in threads:
            thread.start()
        try:
            yield calls
        finally:
            for thread in threads:
                thread.join(120)
        assert calls.ended == number

    def _call(
        self, client: httpx.Client, calls: Calls, urls: list[str], mine: int, patience: float, body: Mapping[str, Any]
    ) -> None:
        begun = time.monotonic()
        answer, tries = self._claim(client, urls, mine, patience, body)
        calls.add(f"k{mine}", answer, time.monotonic() - begun, tries)

    def _claim(
        self, client: httpx.Client, urls: list[str], mine: int, patience: float, body: Mapping[str, Any]
    ) -> tuple[httpx.Response | None, int]:
        """The last answer, and how often it was tried. Without patience: once, and without a key."""
        sent = {"wait_seconds": 20, "lease_seconds": 600, **body, **({"key": f"k{mine}"} if patience else {})}
        begun, tries, answer = time.monotonic(), 0, None
        while not tries or time.monotonic() - begun < patience:
            url = urls[(mine + tries) % len(urls)]
            tries += 1
            try:
                answer = client.post(f"{url}/v1/pools/{self.namespace}/warm/claims", json=sent)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in (429, 502, 503, 504):
                break
            time.sleep(0.05)
        return answer, tries

    def middle(self, calls: Calls, number: int) -> None:
        """Wait until so many callers have their answer."""
        eventually(lambda: calls.ended >= number, lambda: f"{calls.ended} ended: {calls.failed()}", seconds=40)

    def churn(self, number: int, *, at_once: int = 8, faults: Sequence[Callable[[], object]] = ()) -> list[str]:
        """Claim and release by threads; the UIDs of the pods in order. The faults happen meanwhile, one after another.

        Raises AssertionError if a pod is given twice, or does not live as long as it is held. A claim whose release is
        lost ends with its lease, after twenty seconds.
        """
        held: set[str] = set()
        given: list[str] = []
        wrong: list[str] = []
        lock, numbers, urls = threading.Lock(), iter(range(number)), list(self.urls.values())

        def call() -> None:
            with _client() as client:
                while (mine := next(numbers, None)) is not None:
                    answer, _ = self._claim(client, urls, mine, 40, {"lease_seconds": 20})
                    assert answer is not None
                    body = describe(answer)
                    (pod,) = body["pods"]
                    with lock:
                        given.append(pod["uid"])
                        wrong.extend({f"{pod['name']} is given twice"} if pod["uid"] in held else ())
                        held.add(pod["uid"])
                    time.sleep(0.02)
                    found = self._what_is_wrong(pod, body["id"])
                    with lock:
                        wrong.extend(found)
                        held.discard(pod["uid"])
                    self._release(client, urls, mine, body["id"])

        with ThreadPoolExecutor(at_once) as callers:
            calls = [callers.submit(call) for _ in range(at_once)]
            for turn, fault in enumerate(faults, 1):
                due = number * turn // (len(faults) + 1)
                eventually(lambda due=due: len(given) >= due or all(each.done() for each in calls), seconds=60)  # type: ignore[misc]
                fault()
            for each in calls:
                each.result(120)
        assert not wrong, wrong
        assert len(given) == number
        return given

    def _what_is_wrong(self, pod: Object, claim: str) -> list[str]:
        """With a pod that is held: it is gone, or going, or another claim's."""

        def asked() -> httpx.Response | None:
            try:
                answer = self.http.get(f"{self._path('Pod')}/{pod['name']}")
            except httpx.TransportError:  # the API server is being restarted
                return None
            return answer if answer.status_code in (200, 404) else None

        answer: httpx.Response = eventually(asked, "the API server answers", seconds=60)
        metadata = answer.json()["metadata"]
        lives = answer.status_code == 200 and metadata["uid"] == pod["uid"] and "deletionTimestamp" not in metadata
        if lives and metadata["labels"].get(CLAIM_LABEL) == claim:
            return []
        return [f"{pod['name']} is held by {claim}: {answer.status_code} {metadata}"]

    def _release(self, client: httpx.Client, urls: list[str], mine: int, claim: str) -> None:
        """At the server that gave it; at another one if that is gone. 404: an earlier try was heard, or nobody knows
        the claim yet."""

        def released() -> bool:
            try:
                url = urls[(mine + next(tries)) % len(urls)]
                return client.delete(f"{url}/v1/claims/{claim}").status_code in (200, 404)
            except httpx.TransportError:
                return False

        tries = count()
        eventually(released, f"{claim} is released", seconds=60)

    @contextmanager
    def relabelled(self) -> Iterator[None]:
        """Meanwhile somebody changes the phase of idle pods, and back, as fast as it goes, and touches claimed ones."""
        over = threading.Event()

        def disturb() -> None:
            with self.plane.client() as http:
                for turn in count():
                    for pod in http.get(self._path("Pod")).json()["items"][turn % 3 :: 3]:
                        if over.is_set():
                            return
                        self._disturb(http, pod["metadata"])

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(30)

    def _disturb(self, http: httpx.Client, pod: Object) -> None:
        path = f"{self._path('Pod')}/{pod['name']}"
        kind = {"content-type": "application/json-patch+json"}
        phase = "/metadata/labels/" + PHASE_LABEL.replace("/", "~1")
        note = {"op": "add", "path": "/metadata/labels/touched", "value": str(time.monotonic_ns())}
        http.patch(path, json=[note], headers=kind)
        for before, after in (("idle", "running"), ("running", "idle")):
            no_claim = {"op": "test", "path": "/metadata/labels/" + CLAIM_LABEL.replace("/", "~1"), "value": None}
            change = {"op": "replace", "path": phase, "value": after}
            http.patch(path, json=[no_claim, {"op": "test", "path": phase, "value": before}, change], headers=kind)

    # -- what is to be seen -----------------------------------------------------------------------------------------

    def claimed(self) -> dict[str, str]:
        """The claims on pods of the API server that are not being deleted: the claim by the UID."""
        pods = [pod["metadata"] for pod in self.list("Pod")]
        return {
            pod["uid"]: pod["labels"][CLAIM_LABEL]
            for pod in pods
            if CLAIM_LABEL in pod.get("labels", {}) and "deletionTimestamp" not in pod
        }

    def alive(self, told: Mapping[str, str]) -> dict[str, str]:
        """Those of the claims that callers were told of that stand on their pods, which live."""
        real = self.claimed()
        return {uid: claim for uid, claim in told.items() if real.get(uid) == claim}

    def abandoned(self, told: Mapping[str, str]) -> list[str]:
        """Claims on pods that no caller was told of. Raises AssertionError if one has not the key of a caller."""
        left = []
        for pod in self.list("Pod"):
            metadata = pod["metadata"]
            if CLAIM_LABEL in metadata.get("labels", {}) and metadata["uid"] not in told:
                assert json.loads(metadata["annotations"][CLAIM_ANNOTATION])["key"].startswith("k"), metadata
                left.append(metadata["labels"][CLAIM_LABEL])
        return left

    def idle_pods(self) -> list[Object]:
        return [
            pod
            for pod in self.list("Pod")
            if CLAIM_LABEL not in pod["metadata"].get("labels", {}) and "deletionTimestamp" not in pod["metadata"]
        ]

    def rest(self) -> None:
        """Wait until every server knows the claims that the API server has, and no others."""

        def agree() -> bool:
            real = dict(Counter(self.claimed().values()))
            return all(self._known(name) == real for name in self.urls if self.servers[name].alive)

        eventually(agree, lambda: f"{len(self.claimed())} real, {[len(self._known(n)) for n in self.urls]} known")

    def _known(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        after = ""
        while True:
            path = f"/v1/pools/{self.namespace}/warm/claims"
            page = self.ask(name, path, params={"limit": "1000", "after": after}).json()
            found |= {item["id"]: len(item["pods"]) for item in page["items"] if item["state"] == "claimed"}
            after = page["next"]
            if not after:
                return found

    def release(self, claims: Iterable[str], name: str = "a") -> None:
        def release(some: list[str]) -> None:
            with _client() as client:
                answers.extend(client.delete(f"{self.urls[name]}/v1/claims/{claim}") for claim in some)

        ordered, answers = sorted(claims), list[httpx.Response]()
        threads = [threading.Thread(target=release, args=(ordered[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [answer.status_code for answer in answers] == [200] * len(ordered)

    def law(self, name: str = "a") -> None:
        """accepted = ended + pending."""
        text = self.ask(name, "/metrics").text
        accepted, ended, pending = (
            sum(
                float(value)
                for value in re.findall(rf"^waggle_claims_{metric}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
            )
            for metric in ("accepted_total", "ended_total", "pending")
        )
        assert accepted == ended + pending, f"{accepted} accepted, {ended} ended, {pending} pending"

    def close(self) -> None:
        for server in self.servers.values():
            server.stop()
        try:
            eventually(self._emptied, "everything is removed", seconds=60)
            self.remove_all()
        finally:
            self.http.close()
            self.waggle.close()

    def _emptied(self) -> bool:
        """Whether nothing is left. A controller that lags makes pods for a ReplicaSet that is deleted already."""
        bindings = _ROLE_BINDINGS.format(self.namespace)
        for path in (_DEPLOYMENTS.format(self.namespace), self._path("ReplicaSet"), self._path("Pod"), bindings):
            self.http.delete(path, params={"gracePeriodSeconds": "0"})
        time.sleep(0.2)
        return not (self.list("ReplicaSet") or self.list("Pod"))


def _client() -> httpx.Client:
    """For plain HTTP. Each would otherwise read all certificates of the machine, which takes longer than a claim."""
    return httpx.Client(verify=False, timeout=60)


@contextmanager
def claim_cluster(plane: ControlPlane, mode: str = "detach") -> Iterator[ClaimCluster]:
    """A ClaimCluster with nothing in it."""
    c = ClaimCluster(plane, mode)
    try:
        yield c
        for name, server in c.servers.items():
            if server.alive:
                c.law(name)
    finally:
        c.close()
