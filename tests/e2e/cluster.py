"""The clusters that the e2e tests run on: a real control plane, or Waggle's embedded API server.

ControlPlane   etcd, kube-apiserver with RBAC, kube-controller-manager, and KWOK in place of kubelets, each the real
               program on free ports of 127.0.0.1, certificates made on the fly
Embedded       the API server stand-in of `waggle cluster`, as a process of its own

Both are context managers, and both end with the test run, however that ends. `folder` keeps the logs of everything.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import httpx
import yaml

from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.embedded.apiserver.sidecar import spawn_sidecar
from tests.e2e.certificates import Authority, Pair, signing_pair
from tests.e2e.processes import Process, ProcessError, free_port

HERE = Path(__file__).parent
#: Seconds until a component counts as failed; on a busy machine they take a few.
PATIENCE = 90.0
#: What an operator applies: the tests run under exactly these rights.
WAGGLES_RIGHTS = HERE.parents[1] / "manifests" / "base" / "rbac.yaml"
#: The same for claims that are served by a Deployment of their own.
CLAIMS_RIGHTS = HERE.parents[1] / "manifests" / "claims" / "rbac.yaml"
#: And for vpods.
VPODS_RIGHTS = HERE.parents[1] / "manifests" / "vpods" / "rbac.yaml"
#: And for start-up ordering, beside the extender.
ORDERING_RIGHTS = HERE.parents[1] / "manifests" / "components" / "ordering" / "rbac.yaml"
WAGGLES_NAMESPACE = "waggle-system"
#: Who is who: common name and groups of each client certificate.
USERS = {
    "admin": ("admin", ("system:masters",)),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "waggle": (f"system:serviceaccount:{WAGGLES_NAMESPACE}:waggle", ("system:serviceaccounts",)),
    "waggle-claims": (f"system:serviceaccount:{WAGGLES_NAMESPACE}:waggle-claims", ("system:serviceaccounts",)),
    "waggle-vpods": (f"system:serviceaccount:{WAGGLES_NAMESPACE}:waggle-vpods", ("system:serviceaccounts",)),
}


class Cluster(Protocol):
    """What a test needs to know of a cluster."""

    name: str
    folder: Path
    url: str

    def kubeconfig(self, user: str, *, server: str = "") -> Path:
        """A kubeconfig of one of USERS; `server` is another way to the same API server."""

    def client(self, user: str = "admin") -> httpx.Client:
        """Plain HTTP as that user."""


class ControlPlane:
    """A real control plane. `start` returns when all of it is ready; `programs` are the executables by name.

    Without `rights`, nothing of Waggle's has been applied to it.
    `bare`: etcd and kube-apiserver only, where nothing is done to objects but what their clients do. Not `audited`: no
    audit log, which is of Waggle's requests only and takes time that is measured.
    """

    name = "real"

    def __init__(
        self,
        programs: Mapping[str, Path],
        folder: Path,
        *,
        rights: bool = True,
        bare: bool = False,
        audited: bool = True,
    ) -> None:
        self._programs, self.folder = programs, folder
        self._rights, self._bare, self._audited = rights, bare, audited and not bare
        self._etcd_url = f"http://127.0.0.1:{free_port()}"
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.authority = Authority(folder / "certificates")
        self._users = {user: self.authority.client(user, name, groups) for user, (name, groups) in USERS.items()}
        self.processes: list[Process] = []
        #: Every request under Waggle's name, as the API server decided it: a line of JSON each.
        self.audit_log = folder / "waggle-audit.log"
        #: When the API server was restarted: from when to when it was not ready, seconds since 1970.
        self.restarts: list[tuple[float, float]] = []

    def start(self) -> None:
        """Raises ProcessError, naming the log that says why."""
        self._start_etcd()
        api_server = self._start_api_server()
        with self.client() as admin:
            self._wait(api_server, admin, "/readyz")
            if self._rights:
                self._apply_rights(admin)
        if not self._bare:
            self._start_controller_manager()
            self._start_kwok()

    def stop(self) -> None:
        """In the reverse order: nobody should complain about what is gone. Idempotent."""
        for process in reversed(self.processes):
            process.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> None:
        """Raises ProcessError if a component has ended."""
        for process in self.processes:
            process.check()

    # -- who asks ---------------------------------------------------------------------------------------------------

    def kubeconfig(self, user: str, *, server: str = "") -> Path:
        certificate, key = self._users[user]
        path = self.folder / f"{user}{'-' + server.rpartition(':')[2] if server else ''}.kubeconfig"
        trusted = str(self.authority.certificate)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": server or self.url, "certificate-authority": trusted}}],
            "users": [{"name": user, "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user, "namespace": "default"}}],
            "current-context": "e2e",
        }
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    def portable_kubeconfig(self, user: str, path: Path) -> Path:
        """The same with keys and certificates in it, for who cannot read, or reach, the files of ours."""
        content = yaml.safe_load(self.kubeconfig(user).read_text(encoding="utf-8"))
        for part in (content["clusters"][0]["cluster"], content["users"][0]["user"]):
            for key in ("certificate-authority", "client-certificate", "client-key"):
                if key in part:
                    part[f"{key}-data"] = b64encode(Path(part.pop(key)).read_bytes()).decode()
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    def client(self, user: str = "admin") -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.trust(user), timeout=30)

    def trust(self, user: str) -> ssl.SSLContext:
        """For connections to the API server as that user."""
        return trusting(self.authority.certificate, self._users[user])

    # -- components -------------------------------------------------------------------------------------------------

    def _run(self, program: str, *flags: str) -> Process:
        process = Process(program, [self._programs[program], *flags], self.folder / f"{program}.log")
        self.processes.append(process)
        return process

    def restart_api_server(self) -> None:
        """End kube-apiserver in an orderly way and start it again; returns when it answers."""
        old = next(process for process in self.processes if process.name == "kube-apiserver")
        begun = time.time()
        old.stop()
        self.processes.remove(old)
        new = self._start_api_server()
        with self.client() as admin:
            self._wait(new, admin, "/readyz")
        self.restarts.append((begun, time.time()))

    @contextmanager
    def controllers_paused(self) -> Iterator[None]:
        """They see and do nothing meanwhile; after that they have everything to do at once."""
        process = next(process for process in self.processes if process.name == "kube-controller-manager")
        process.pause()
        try:
            yield
        finally:
            process.resume()

    def _start_etcd(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_api_server(self) -> Process:
        serving = self.authority.server("kube-apiserver")
        tokens: Pair = signing_pair(self.folder / "certificates", "service-accounts")
        return self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.certificate}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={tokens.certificate}",
            f"--service-account-signing-key-file={tokens.key}",
            "--authorization-mode=Node,RBAC",
            # No controller gives namespaces a service account here, and none takes the taint of a new node away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--allow-privileged=true",
            *self._audit_flags(),
            # For the tests of Kubernetes' own gangs; without PodGroups it changes nothing.
            "--feature-gates=GenericWorkload=true",
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        )

    def _audit_flags(self) -> list[str]:
        if not self._audited:
            return []
        return [f"--audit-policy-file={HERE / 'controlplane' / 'audit.yaml'}", f"--audit-log-path={self.audit_log}"]

    def _start_controller_manager(self) -> None:
        controllers = ("deployment", "disruption", "replicaset", "statefulset", "namespace", "garbage-collector")
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig('admin')}",
            "--controllers=" + ",".join(f"{name}-controller" for name in (*controllers, "pod-garbage-collector")),
            # As in every real cluster: admission policies tell controllers apart by their names.
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'certificates'}",
        )

    def _start_kwok(self) -> None:
        self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig('admin')}",
            "--manage-all-nodes=true",
            f"--config={HERE / 'controlplane' / 'stages.yaml'}",
            f"--server-address=127.0.0.1:{free_port()}",
        )

    def _wait(self, process: Process, client: httpx.Client, path: str) -> None:
        deadline = time.monotonic() + PATIENCE
        said = ""
        while time.monotonic() < deadline:
            self.check()
            try:
                answer = client.get(path, timeout=5)
            except httpx.TransportError as error:
                said = repr(error)
            else:
                if answer.status_code == 200:
                    return
                said = answer.text
            time.sleep(0.05)
        raise ProcessError(f"{process.name} not ready within {PATIENCE:g} s: {said}\n{process.last_words()}")

    def _apply_rights(self, admin: httpx.Client) -> None:
        self._apply(admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WAGGLES_NAMESPACE}})
        for path in (WAGGLES_RIGHTS, CLAIMS_RIGHTS, VPODS_RIGHTS, ORDERING_RIGHTS):
            for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                self._apply(admin, item)

    def _apply(self, admin: httpx.Client, item: dict[str, Any]) -> None:
        """Server-side apply; what has a namespace goes to Waggle's."""
        kind, version = item["kind"], item["apiVersion"]
        group = "/api/v1" if version == "v1" else f"/apis/{version}"
        place = "" if kind in ("Namespace", "ClusterRole", "ClusterRoleBinding") else f"/namespaces/{WAGGLES_NAMESPACE}"
        answer = admin.patch(
            f"{group}{place}/{kind.lower()}s/{item['metadata']['name']}",
            params={"fieldManager": "e2e", "force": "true"},
            content=json.dumps(item),
            headers={"content-type": "application/apply-patch+yaml"},
        )
        describe(answer)


class Embedded:
    """Waggle's embedded API server. Nobody is asked who they are, so all users are one."""

    name = "embedded"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sidecar = spawn_sidecar()
        self.url = self._sidecar.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sidecar.stop()

    def kubeconfig(self, user: str, *, server: str = "") -> Path:
        return write_kubeconfig(self.folder / f"{user}.kubeconfig", server or self.url)

    def client(self, user: str = "admin") -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30)


def trusting(authority: Path, own: Pair) -> ssl.SSLContext:
    """Trust that authority only, and show `own`."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(*map(str, own))
    return context


def describe(answer: httpx.Response) -> Any:
    """The decoded body. Raises AssertionError with the API server's words if it refused."""
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    return answer.json()
