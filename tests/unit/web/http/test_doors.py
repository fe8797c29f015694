"""Who is refused: browsers where they do not belong, names that lead here, clients whose names are not on the lists."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import ipaddress
import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from starlette.types import Send
from structlog.testing import capture_logs

from extender.operate.certs import Authority
from extender.settings import ServerSettings, Settings, TlsSettings
from extender.web.app import create_app
from extender.web.http.doors import Doors, Hosts
from extender.web.http.peers import ClientNames, names_of
from extender.web.http.refusals import Refusals
from extender.web.http.server import ServerHandle, serve_in_thread
from extender.web.limits.turnstile import Turnstile
from tests.support.http.certificates import Files, https
from tests.support.http.fixed_runtime import Answer, Client, FixedRuntime, capture

FILTER = capture("filter-mtls")
FOREIGN = {"Origin": "https://attacker.example", "Content-Type": "text/plain"}


def ask(
    client: Client, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> Answer:
    with closing(client.connect()) as connection:
        return send(connection, method, path, body, headers)


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return Answer(response.status, dict(response.headers), response.read())


# -- browsers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/filter", "/v1/extender/filter", "//filter", "/filter/", "/bind"])
@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "5", ""])
def test_a_verb_is_refused_with_an_origin_and_nothing_is_decided(
    client: Client, runtime: FixedRuntime, path: str, origin: str
):
    answer = ask(client, "POST", path, FILTER, FOREIGN | {"Origin": origin})
    assert (answer.status, answer.json["field"]) == (403, "Origin")
    assert runtime.asked == []


def test_a_body_in_chunks_opens_no_other_way_in(client: Client, runtime: FixedRuntime):
    answer = ask(client, "POST", "/filter", iter([FILTER]), FOREIGN | {"Origin": "5"})  # type: ignore[arg-type]
    assert answer.status == 403
    assert runtime.asked == []


def test_kube_scheduler_may_call_under_any_name(client: Client):
    assert ask(client, "POST", "/filter", FILTER, {"Host": "waggle.corp.example:9096"}).status == 200


@pytest.mark.parametrize("path", ["/", "/v1/inspect/pods", "/ui", "/openapi.json", "/nonsense"])
def test_a_page_is_refused_under_a_name_that_is_not_ours_and_the_text_says_what_to_do(client: Client, path: str):
    answer = ask(client, "GET", path, headers={"Host": "attacker.example:9096"})
    assert (answer.status, answer.json["field"]) == (421, "Host")
    assert "server.allowed_hosts" in answer.json["error"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/readyz/informed", "/metrics"])
def test_probes_and_prometheus_may_ask_under_any_name(client: Client, path: str):
    assert ask(client, "GET", path, headers={"Host": "prometheus-sees-me-as.example"}).status == 200


def test_a_page_of_another_site_may_not_have_ours_made(client: Client):
    of_an_image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    of_a_link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(client, "GET", "/v1/inspect/pods", headers=of_an_image).status == 403
    assert ask(client, "GET", "/v1/inspect/pods", headers=of_a_link).status == 200


def test_what_was_refused_is_counted_and_said_once(client: Client):
    def count() -> float:
        lines = client.get("/metrics").text.splitlines()
        (line,) = [line for line in lines if line.startswith('waggle_requests_refused_total{reason="origin"}')]
        return float(line.split()[-1])

    before = count()
    with capture_logs() as logs:
        for _ in range(2):
            ask(client, "POST", "/filter", FILTER, FOREIGN | {"Origin": "https://once.example"})
    assert count() == before + 2
    assert [(line["reason"], line["who"], line["address"]) for line in logs if "who" in line] == [
        ("origin", "https://once.example", "127.0.0.1")
    ]


OURS = [
    "localhost", "localhost:9096", "LocalHost.", "a.localhost", "127.0.0.1", "10.0.0.7:9096", "[::1]", "[fe80::1]:80",
    "waggle", "waggle:9096", "waggle.waggle-system.svc", "waggle.waggle-system.svc.cluster.local:9096",
    "listed.example", "any.below.example", "configured.example", "certified.example", "one.wild.example", "",
]  # fmt: skip
NOT_OURS = [
    "attacker.example", "svc.attacker.example", "waggle.svc.attacker.example", "127.0.0.1.attacker.example",
    "listed.example.attacker.example", "below.example", "two.one.wild.example", "wild.example",
    "[attacker.example]", "[::1].attacker.example", "1.2.3", "attacker.example\x00.svc.x", "localhost.attacker.example",
]  # fmt: skip


@pytest.fixture
def hosts() -> Hosts:
    settings = ServerSettings(host="configured.example", allowed_hosts=("Listed.example", "*.below.example"))
    return Hosts(settings, lambda: ("certified.example", "*.wild.example"))


@pytest.mark.parametrize("name", OURS)
def test_a_name_of_ours(hosts: Hosts, name: str):
    assert hosts.has(name)


@pytest.mark.parametrize("name", NOT_OURS)
def test_a_name_that_is_not_ours(hosts: Hosts, name: str):
    assert not hosts.has(name)


def test_a_star_allows_every_name():
    assert Hosts(ServerSettings(allowed_hosts=("*",))).has("attacker.example")


# -- names of clients -------------------------------------------------------------------------------------------------


def _name(*common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common])


def issue(authority: Authority, folder: Path, subject: list[str], *names: x509.GeneralName) -> Files:
    """A client's certificate with these common names and alternative names."""
    issuer = x509.load_pem_x509_certificate(authority.pair.certificate)
    signer: Any = pem.load_pem_private_key(authority.pair.key, None)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().issuer_name(issuer.subject).public_key(key.public_key())
    made = made.subject_name(_name(*subject))
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=not subject)
    files = Files(folder)
    files.certificate.write_bytes(made.sign(signer, hashes.SHA256()).public_bytes(pem.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()),
    )
    return files


class Guarded:
    """A server that lets in by name, and the authority that both sides are of."""

    VERBS = ("kube-scheduler", "spiffe://cluster/scheduler", "a@b.example", "::1", "scheduler.example")
    PAGES = ("kube-scheduler", "viewer")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.new()
        files = Files(folder / "server").write(self.authority.server(["127.0.0.1"]), self.authority)
        self.ca = files.ca
        tls = files.tls().model_copy(update={"verb_clients": self.VERBS, "page_clients": self.PAGES})
        settings = Settings(server=ServerSettings(port=0, tls=tls))
        self.runtime = FixedRuntime()
        self.server: ServerHandle = serve_in_thread(create_app(self.runtime, settings), settings)
        self._issued = 0

    def client(self, subject: list[str], *names: x509.GeneralName) -> Files:
        self._issued += 1
        return issue(self.authority, self.folder / str(self._issued), subject, *names)

    def ask(self, client: Files, method: str, path: str) -> Answer:
        with closing(https(self.server.url, self.ca, client)) as connection:
            return send(connection, method, path, FILTER if method == "POST" else None)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    place = Guarded(tmp_path_factory.mktemp("guarded"))
    with place.server:
        yield place


ON_THE_LIST: dict[str, tuple[list[str], list[x509.GeneralName]]] = {
    "common name": (["kube-scheduler"], []),
    "DNS": (["x"], [x509.DNSName("scheduler.example")]),
    "URI": ([], [x509.UniformResourceIdentifier("spiffe://cluster/scheduler")]),
    "email": ([], [x509.RFC822Name("a@b.example")]),
    "IP address": ([], [x509.IPAddress(ipaddress.ip_address("::1"))]),
    "the last of many": ([], [x509.DNSName(f"n{i}.example") for i in range(500)] + [x509.DNSName("scheduler.example")]),
}  # fmt: skip
NOT_ON_THE_LIST: dict[str, tuple[list[str], list[x509.GeneralName]]] = {
    "a kubelet": (["system:node:n0"], []),
    "no name": ([], []),
    "other case": (["Kube-Scheduler"], []),
    "a space": (["kube-scheduler "], []),
    "NUL": (["kube-scheduler\x00.attacker.example"], []),
    "NUL in DNS": ([], [x509.DNSName("scheduler.example\x00.attacker.example")]),
    "wildcard": ([], [x509.DNSName("*.example"), x509.DNSName("*")]),
    "two common names": (["kube-scheduler", "attacker"], []),
    "a list in a name": (["a, DNS:scheduler.example"], []),
    "a page client": (["viewer"], []),
    "a directory name": ([], [x509.DirectoryName(_name("kube-scheduler"))]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ON_THE_LIST)
def test_a_client_on_the_list_may_call_verbs(guarded: Guarded, kind: str):
    subject, names = ON_THE_LIST[kind]
    assert guarded.ask(guarded.client(subject, *names), "POST", "/filter").status == 200


@pytest.mark.parametrize("kind", NOT_ON_THE_LIST)
def test_every_other_client_may_not_and_its_name_is_said(guarded: Guarded, kind: str):
    guarded.runtime.asked.clear()
    subject, names = NOT_ON_THE_LIST[kind]
    answer = guarded.ask(guarded.client(subject, *names), "POST", "/filter")
    assert answer.status == 403
    assert "server.tls.verb_clients" in answer.json["error"]
    assert guarded.runtime.asked == []


def test_pages_have_a_list_of_their_own(guarded: Guarded):
    viewer, scheduler = guarded.client(["viewer"]), guarded.client(["a"], x509.DNSName("scheduler.example"))
    assert guarded.ask(viewer, "GET", "/v1/inspect/pods").status == 200
    refused = guarded.ask(scheduler, "GET", "/v1/inspect/pods")
    assert (refused.status, "server.tls.page_clients" in refused.json["error"]) == (403, True)


def test_probes_and_metrics_ask_for_no_name(guarded: Guarded):
    prometheus = guarded.client(["prometheus"])
    assert {guarded.ask(prometheus, "GET", path).status for path in ("/livez", "/readyz", "/metrics")} == {200}


def test_the_log_names_a_refused_client_once(guarded: Guarded):
    node = guarded.client(["system:node:once"])
    with capture_logs() as logs:
        for _ in range(2):
            guarded.ask(node, "POST", "/bind")
    assert [(line["reason"], line["who"]) for line in logs] == [("verb_clients", "system:node:once")]


@pytest.mark.parametrize(
    ("subject", "headers", "status"),
    [("kube-scheduler", {}, 200), ("kube-scheduler", FOREIGN, 403), ("system:node:n1", {}, 403)],
)
def test_http2_is_refused_the_same(guarded: Guarded, subject: str, headers: dict[str, str], status: int):
    files = guarded.client([subject])
    context = ssl.create_default_context(cafile=str(guarded.ca))
    context.load_cert_chain(files.certificate, files.key)
    with httpx.Client(http1=False, http2=True, verify=context) as client:
        answer = client.post(f"{guarded.server.url}/filter", content=FILTER, headers=headers)
    assert (answer.status_code, answer.http_version) == (status, "HTTP/2")


def test_empty_lists_let_every_client_in():
    tls = TlsSettings(cert_file=Path("c"), key_file=Path("k"), client_ca_file=Path("a"))
    clients = ClientNames(tls)
    assert clients.may_call_verbs(())
    assert clients.may_see_pages(("x",))


def test_names_of_no_certificate():
    assert names_of({}) == ()


def test_remarks_say_that_a_list_is_empty():
    tls = TlsSettings(cert_file=Path("c"), key_file=Path("k"), client_ca_file=Path("a"), page_clients=("x",))
    (remark,) = ServerSettings(tls=tls).remarks()
    assert remark.startswith("server.tls.verb_clients is empty: every client of a may call the verbs")


@pytest.mark.parametrize("wrong", [("",), ("*.example",)])
def test_a_list_holds_whole_names(wrong: tuple[str, ...]):
    with pytest.raises(ValueError, match="expected whole names, without wildcards"):
        TlsSettings(cert_file=Path("c"), key_file=Path("k"), client_ca_file=Path("a"), verb_clients=wrong)


def test_a_list_needs_an_authority():
    with pytest.raises(ValueError, match="needs client_ca_file"):
        TlsSettings(cert_file=Path("c"), key_file=Path("k"), verb_clients=("x",))


def test_the_error_is_json_as_every_other(client: Client):
    answer = ask(client, "GET", "/", headers={"Host": "attacker.example"})
    assert json.loads(answer.body).keys() == {"error", "field", "code", "retry_after"}


# -- turns ------------------------------------------------------------------------------------------------------------


def test_so_many_pass_in_a_turn_of_the_loop_and_in_order():
    async def scenario() -> list[int]:
        turnstile, passed, turns = Turnstile(2), list[int](), [0]

        async def one(number: int) -> None:
            await turnstile.enter()
            passed.append(number)

        tasks = [asyncio.create_task(one(number)) for number in range(5)]
        while len(passed) < 5:
            await asyncio.sleep(0)
            if len(passed) > turns[-1]:
                turns.append(len(passed))
        await asyncio.gather(*tasks)
        assert passed == sorted(passed)
        return turns

    assert asyncio.run(scenario()) == [0, 2, 4, 5]


def test_turns_go_round_so_that_one_waits_for_one_of_many_and_not_for_all():
    async def scenario() -> list[str]:
        turnstile, passed = Turnstile(1), list[str]()

        async def one(who: str) -> None:
            await turnstile.enter(who)
            passed.append(who)

        await asyncio.gather(*(one(who) for who in ("many", "many", "many", "many", "few")))
        return passed

    assert asyncio.run(scenario()) == ["many", "many", "few", "many", "many"]


def test_who_gives_up_waiting_takes_no_turn():
    async def scenario() -> None:
        turnstile = Turnstile(1)
        await turnstile.enter()
        gone, stays = (asyncio.create_task(turnstile.enter()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(stays, 5)

    asyncio.run(scenario())


def test_of_answers_that_are_ready_at_the_same_moment_a_few_begin_in_a_turn_of_the_loop():
    began: list[int] = []

    async def scenario() -> int:
        ready, turn = asyncio.Event(), 0

        async def app(_scope: object, _receive: object, send: Send) -> None:
            await ready.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def note(_message: object) -> None:
            began.append(turn)

        doors = Doors(app, verbs=(), hosts=Hosts(ServerSettings()), refusals=Refusals())
        scope = {"type": "http", "path": "/metrics", "headers": [], "client": ("10.0.0.1", 1)}
        tasks = [asyncio.create_task(doors(scope, None, note)) for _ in range(30)]  # type: ignore[arg-type]
        for _ in range(100):
            await asyncio.sleep(0)
        ready.set()
        while not all(task.done() for task in tasks):
            turn += 1
            await asyncio.sleep(0)
        return turn

    asyncio.run(scenario())
    assert len(began) == 30
    assert max(began.count(turn) for turn in began) == 3
