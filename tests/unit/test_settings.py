"""The configuration file: defaults that work, and errors that name the file and the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from extender.scheduling.policy import Policy
from extender.server.service import policy_of
from extender.settings import Settings, SettingsError, load


@pytest.fixture
def config(tmp_path: Path) -> Any:
    path = tmp_path / "config.yaml"

    def write(content: str | dict[str, Any]) -> Path:
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("content", ["", "---\n", "# nothing\n", "{}", "null"])
def test_an_empty_file_is_a_working_configuration(config: Any, content: str) -> None:
    assert load(config(content)) == Settings()


def test_the_defaults_are_safe_and_usable() -> None:
    settings = Settings()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 9096)
    assert settings.algorithm.name == "packing"
    assert settings.preemption.mode == "auto"
    assert settings.force_bind.after_filters == 0
    assert settings.pods.scheduler_names == ()


def test_an_empty_section_means_its_defaults(config: Any) -> None:
    assert load(config("server:\npods:\n")) == Settings()


def test_a_section_is_read_and_the_others_keep_their_defaults(config: Any) -> None:
    settings = load(config({"server": {"port": 8080}, "algorithm": {"name": "mine", "settings": {"a": [1]}}}))
    assert settings.server.port == 8080
    assert settings.server.keep_alive_seconds == 120
    assert settings.algorithm.settings == {"a": [1]}


def test_files_are_paths(config: Any) -> None:
    tls = {"cert_file": "/etc/waggle/tls.crt", "key_file": "/etc/waggle/tls.key"}
    settings = load(config({"server": {"tls": tls}}))
    assert settings.server.tls is not None
    assert settings.server.tls.cert_file == Path("/etc/waggle/tls.crt")
    assert settings.server.tls.client_ca_file is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"sever": {}}, "sever: there is no such field"),
        ({"server": {"prot": 1}}, "server.prot: "),
        ({"server": {"port": 65536}}, "server.port: "),
        ({"server": {"port": "http"}}, "server.port: "),
        ({"server": {"health_port": 9096}}, "server.health_port: expected another port than server.port"),
        ({"server": {"keep_alive_seconds": 90}}, "server.keep_alive_seconds: "),
        ({"server": {"max_body_mib": 0}}, "server.max_body_mib: "),
        ({"server": {"tls": {"cert_file": "a"}}}, "server.tls.key_file: Field required"),
        ({"server": []}, "server: "),
        ({"cluster": {"request_timeout_seconds": 0}}, "cluster.request_timeout_seconds: "),
        ({"cluster": {"concurrent_writes": -1}}, "cluster.concurrent_writes: "),
        (
            {"cluster": {"concurrent_writes": 4, "least_concurrent_writes": 5}},
            "cluster.least_concurrent_writes: ",
        ),
        ({"pods": {"scheduler_names": "default-scheduler"}}, "pods.scheduler_names: "),
        ({"holds": {"lease_seconds": float("inf")}}, "holds.lease_seconds: "),
        ({"holds": {"verify_seconds": float("nan")}}, "holds.verify_seconds: "),
        ({"force_bind": {"after_filters": -1}}, "force_bind.after_filters: "),
        ({"preemption": {"mode": "always"}}, "preemption.mode: "),
        ({"log": {"level": "loud"}}, "log.level: "),
        ({"leader_election": {"lease_seconds": 0.5}}, "leader_election.lease_seconds: "),
        ({"leader_election": {"lease_seconds": 5}}, "leader_election.renew_deadline_seconds: "),
        ({"leader_election": {"renew_deadline_seconds": 9}}, "leader_election.renew_deadline_seconds: "),
        ({"leader_election": {"retry_seconds": 3}}, "leader_election.retry_seconds: "),
        ({"leader_election": {"name": "Waggle!"}}, "leader_election.name: "),
        ({"leader_election": {"namespace": "a.b"}}, "leader_election.namespace: "),
        ({"algorithm": {"settings": "spread"}}, "algorithm.settings: "),
        ("- server\n", "(top level): "),
        ("server", "(top level): "),
    ],
)
def test_a_wrong_value_is_refused_by_file_and_field(config: Any, content: Any, said: str) -> None:
    path = config(content)
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_all_wrong_fields_are_named_at_once(config: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        load(config({"server": {"port": -1}, "log": {"level": "loud"}}))
    assert "server.port" in str(caught.value)
    assert "log.level" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "server: [",
        "a: b: c",
        "\tserver:",
        "!!python/object:os.system {}",
        "? [a, b]\n: 1",
        "? {a: b}\n: 1",
        "a: !!int ''",
        "[" * 400,
        "\x00",
    ],
)
def test_what_is_no_plain_yaml_is_refused_by_file(config: Any, content: str) -> None:
    path = config(content)
    with pytest.raises(SettingsError, match=r"config\.yaml: "):
        load(path)


def test_aliases_that_would_be_billions_of_values_are_refused_at_once(config: Any) -> None:
    levels = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    with pytest.raises(SettingsError, match="more than 1000000 values"):
        load(config(f"algorithm:\n settings:\n  a0: &a0 [x]\n{levels}"))


def test_a_value_within_itself_is_refused(config: Any) -> None:
    with pytest.raises(SettingsError, match="more than 1000000 values"):
        load(config("algorithm: {settings: {a: &a [*a]}}"))


def test_an_alias_is_as_good_as_what_it_stands_for(config: Any) -> None:
    settings = load(config("algorithm: {settings: {a: &a [1, 2], b: *a}}")).algorithm.settings
    assert settings == {"a": [1, 2], "b": [1, 2]}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(SettingsError, match="larger than 64 MiB"):
        load(path)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="embedded null"):
        load(tmp_path / "a\0b")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"config\.yaml: "):
        load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^\S*nowhere\.yaml: No such file or directory$"):
        load(tmp_path / "nowhere.yaml")


def test_settings_cannot_be_changed_once_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().server.port = 1  # type: ignore[misc]


def test_the_policy_of_the_defaults_is_the_same_after_it_was_recorded() -> None:
    """A whole number where a float is meant would be encoded otherwise in the replay."""
    policy = policy_of(Settings())
    assert repr(msgspec.convert(msgspec.to_builtins(policy), type=Policy).write_validity) == repr(policy.write_validity)
