"""`waggle certs`: what it makes opens TLS in both directions, is private, and is never overwritten by accident."""

from __future__ import annotations

import base64
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.operate.certs import Authority, CertsError, Pair, create, hosts_of, renew, secrets, service_hosts

HOSTS = service_hosts("waggle", "waggle-system")


def made(folder: Path, *, force: bool = False, days: int = 30) -> list[Path]:
    return create(folder, HOSTS, ["kube-scheduler", "prometheus"], days=days, ca_days=365, force=force)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def handshake(server: Path, client: Path, host: str) -> dict[str, object]:
    """Both sides of mutual TLS in memory; the client's certificate as the server sees it. Raises ssl.SSLError."""
    serving, calling = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context, folder in ((serving, server), (calling, client)):
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        context.load_verify_locations(folder / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = calling.wrap_bio(to_client, to_server, server_hostname=host)
    other = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other, one, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return dict(other.getpeercert() or {})


def test_both_sides_know_each_other(tmp_path: Path):
    made(tmp_path)

    seen = handshake(tmp_path / "server", tmp_path / "kube-scheduler", "waggle.waggle-system.svc")

    assert seen["subject"] == ((("commonName", "kube-scheduler"),),)


@pytest.mark.parametrize("host", ["waggle", "waggle.waggle-system.svc.cluster.local", "localhost", "127.0.0.1", "::1"])
def test_the_server_is_known_by_every_name_of_its_service(tmp_path: Path, host: str):
    made(tmp_path)
    assert handshake(tmp_path / "server", tmp_path / "prometheus", host)


@pytest.mark.parametrize(
    ("server", "client", "host"),
    [
        ("server", "kube-scheduler", "elsewhere"),
        ("kube-scheduler", "kube-scheduler", "waggle"),
        ("server", "server", "waggle"),
    ],
)
def test_a_certificate_is_good_for_its_own_side_and_name_only(tmp_path: Path, server: str, client: str, host: str):
    made(tmp_path)
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path / server, tmp_path / client, host)


def test_keys_are_for_their_owner_only(tmp_path: Path):
    for path in made(tmp_path / "new"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0 if path.suffix == ".key" else mode & 0o022 == 0
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_nothing_is_overwritten_unless_forced(tmp_path: Path):
    made(tmp_path)
    before = contents(tmp_path)

    with pytest.raises(CertsError, match="is there already"):
        made(tmp_path)
    assert contents(tmp_path) == before

    made(tmp_path, force=True)
    assert contents(tmp_path).keys() == before.keys()
    assert not set(contents(tmp_path).values()) & set(before.values())


def test_a_renewed_certificate_is_from_the_same_ca_and_for_the_same_names(tmp_path: Path):
    made(tmp_path)
    before = contents(tmp_path)

    renew(tmp_path, [], [], days=60)

    after = contents(tmp_path)
    kept = {name for name in after if after[name] == before[name]}
    assert kept == {name for name in after if name.endswith("ca.crt")} | {"ca.key"}
    assert hosts_of(after["server/tls.crt"]) == HOSTS
    assert handshake(tmp_path / "server", tmp_path / "prometheus", "waggle")


def test_a_renewal_may_be_for_other_names(tmp_path: Path):
    made(tmp_path)
    renew(tmp_path, ["waggle.example.com"], ["new"], days=30)

    assert hosts_of((tmp_path / "server" / "tls.crt").read_bytes()) == ["waggle.example.com"]
    assert handshake(tmp_path / "server", tmp_path / "new", "waggle.example.com")


def test_a_renewal_without_a_ca_changes_nothing(tmp_path: Path):
    made(tmp_path)
    (tmp_path / "ca.key").unlink()
    before = contents(tmp_path)

    with pytest.raises(CertsError, match=r"--renew: .*ca\.key"):
        renew(tmp_path, [], [], days=30)
    assert contents(tmp_path) == before


def test_a_key_of_another_ca_is_refused(tmp_path: Path):
    one, other = Authority.new().pair, Authority.new().pair

    with pytest.raises(CertsError, match=r"ca\.key: is not the key"):
        Authority.read(Pair(one.certificate, other.key))
    with pytest.raises(CertsError, match="cannot be read"):
        Authority.read(Pair(b"nothing", other.key))


def test_no_certificate_outlives_its_ca():
    authority = Authority.new(days=10)

    with pytest.raises(CertsError, match="--days: the CA ends on"):
        authority.client("kube-scheduler", days=11)
    assert authority.ends - datetime.now(UTC) < timedelta(days=11)


@pytest.mark.parametrize(
    "host", ["", "bücher.example", "a" * 10 + "\u2603", "two words", "https://waggle:9096", "waggle:9096", "a..b", "*"]
)
def test_a_host_that_is_none_is_refused(host: str):
    with pytest.raises(CertsError, match="--host"):
        Authority.new().server([host])


def test_a_server_without_a_name_is_refused():
    with pytest.raises(CertsError, match="--host"):
        Authority.new().server([])


def test_a_host_may_be_a_wildcard():
    assert hosts_of(Authority.new().server(["*.example.com"]).certificate) == ["*.example.com"]


def test_no_client_takes_the_place_of_the_servers_certificate(tmp_path: Path):
    with pytest.raises(CertsError, match="--client: 'server' is the folder of Waggle's own certificate"):
        create(tmp_path, HOSTS, ["server"], days=1, ca_days=2, force=False)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("client", ["..", "a/b", "", "x" * 65])
def test_a_client_that_cannot_be_a_folder_is_refused(tmp_path: Path, client: str):
    with pytest.raises(CertsError):
        create(tmp_path, HOSTS, [client], days=1, ca_days=2, force=False)
    assert contents(tmp_path) == {}


def test_secrets_hold_what_the_folders_hold(tmp_path: Path):
    made(tmp_path)

    server, scheduler = yaml.safe_load_all(secrets(tmp_path, ["kube-scheduler"], "waggle-system"))

    assert server["metadata"] == {"name": "waggle-server-tls", "namespace": "waggle-system"}
    assert scheduler["metadata"]["name"] == "waggle-kube-scheduler-tls"
    for secret, folder in ((server, "server"), (scheduler, "kube-scheduler")):
        assert secret["type"] == "kubernetes.io/tls"
        assert {key: base64.b64decode(value) for key, value in secret["data"].items()} == contents(tmp_path / folder)


# -- the command --------------------------------------------------------------------------------------------------


def run(*arguments: str):
    return CliRunner().invoke(app, ["certs", *arguments])


def test_the_command_makes_everything_and_says_how_to_go_on(tmp_path: Path):
    folder, file = tmp_path / "certs", tmp_path / "secrets.yaml"

    done = run("-o", str(folder), "--host", "10.96.0.7", "--secrets", str(file))

    assert done.exit_code == 0
    assert "10.96.0.7" in hosts_of((folder / "server" / "tls.crt").read_bytes())
    assert "client_ca_file" in done.stderr
    assert "--renew" in done.stderr
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(file.read_text())]
    assert names == ["waggle-server-tls", "waggle-kube-scheduler-tls", "waggle-viewer-tls"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_secrets_go_to_standard_output_alone(tmp_path: Path):
    done = run("-o", str(tmp_path / "certs"), "--secrets", "-", "--client", "prometheus.monitoring")

    names = [each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout)]
    assert names == ["waggle-server-tls", "waggle-prometheus.monitoring-tls"]


def test_secrets_are_named_after_the_service(tmp_path: Path):
    """As those that the chart asks cert-manager for: several Waggles may be in one namespace."""
    done = run("-o", str(tmp_path / "certs"), "--secrets", "-", "--service", "second")

    names = [each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout)]
    assert names == ["second-server-tls", "second-kube-scheduler-tls", "second-viewer-tls"]


def test_secrets_hold_nothing_that_another_authority_signed(tmp_path: Path):
    folder = str(tmp_path / "certs")
    assert run("-o", folder, "--client", "before").exit_code == 0

    done = run("-o", folder, "--client", "now", "--client", "now", "--force", "--secrets", "-")

    names = [each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout)]
    assert names == ["waggle-server-tls", "waggle-now-tls"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--namespace", "Two Words"], "--namespace: 'Two Words'"),
        (["--service", "a.b"], "--service: 'a.b'"),
        (["--secrets", "-", "--client", "alice@example.com"], "--secrets: the client 'alice@example.com'"),
    ],
)
def test_what_kubernetes_would_not_take_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: list[str], says: str
):
    done = run("-o", str(tmp_path / "certs"), *arguments)

    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stdout == ""
    assert contents(tmp_path) == {}


def test_without_secrets_a_client_may_have_any_name(tmp_path: Path):
    assert run("-o", str(tmp_path / "certs"), "--client", "alice@example.com").exit_code == 0


def test_a_second_run_is_refused_and_a_renewal_is_not(tmp_path: Path):
    folder = str(tmp_path / "certs")
    assert run("-o", folder).exit_code == 0

    refused = run("-o", folder)
    assert refused.exit_code == 2
    assert "is there already" in refused.stderr
    assert run("-o", folder, "--renew").exit_code == 0
    assert run("-o", folder, "--force").exit_code == 0
