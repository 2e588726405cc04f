"""Tables [proxy] and [[proxy.issuers]] of config.toml: defaults, values, and errors with their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from websocket_proxy.limits import Limits
from websocket_proxy.node.settings import ProxySettings, ProxySettingsError, read_settings

ISSUER = '[[proxy.issuers]]\nissuer = "https://login.example"\naudience = "proxy"\nkey_file = "key.pem"\n'


def read(home: Path, text: str) -> ProxySettings:
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(0o600)
    return read_settings(home)


def test_without_a_file_or_table_every_key_has_its_default(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == read(tmp_path, "[http]\nport = 1\n") == ProxySettings()
    assert ProxySettings().has_home_issuer


def test_sockets_have_time_to_close_however_long_running_requests_have() -> None:
    assert ProxySettings().shutdown_s == 9.5
    assert ProxySettings(drain_s=60).shutdown_s == 61.5


def test_every_limit_is_a_key(tmp_path: Path) -> None:
    values = dict.fromkeys(Limits.__struct_fields__, 7)
    settings = read(tmp_path, "[proxy]\n" + "\n".join(f"{name} = 7" for name in values))
    assert {name: getattr(settings, name) for name in values} == values


def test_with_issuers_the_home_issuer_is_off_unless_it_is_named(tmp_path: Path) -> None:
    assert not read(tmp_path, ISSUER).has_home_issuer
    assert read(tmp_path, f"[proxy]\nhome_issuer = true\n{ISSUER}").has_home_issuer


def test_the_admin_port_follows_the_port(tmp_path: Path) -> None:
    assert [ProxySettings().admin_port_for(port) for port in (0, 8765, 65535)] == [0, 8766, 0]
    assert read(tmp_path, "[proxy]\nadmin_port = 9100\n").admin_port_for(8765) == 9100


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("[proxy]\nport = 1\nsocket = 2\n", "proxy.socket", 3),
        ('[proxy]\n\nsockets = "x"\n', "proxy.sockets = 'x'", 3),
        ("[proxy]\nport = 70000\n", "proxy.port = 70000", 2),
        ("[proxy]\nslow_reader_s = 0\n", "proxy.slow_reader_s = 0", 2),
        ('[proxy]\nhost = "http://x"\n', "proxy.host", 2),
        ('[proxy]\npublic_url = "http://proxy.example"\n', "proxy.public_url", 2),
        ('[proxy]\npublic_url = "https://proxy.example/path"\n', "proxy.public_url", 2),
        ('[proxy]\nallowed_hosts = ["https://a.example"]\n', "proxy.allowed_hosts", 2),
        (f"{ISSUER}leeway = 1\n", "proxy.issuers[0].leeway", 5),
        ('[[proxy.issuers]]\nissuer = "x"\n', "audience is missing", 1),
        ("proxy = 3\n", "proxy = 3", 1),
    ],
)
def test_a_wrong_key_or_value_is_an_error_with_its_line(
    tmp_path: Path, text: str, key: str, line: int
) -> None:
    with pytest.raises(ProxySettingsError, match=re.escape(key)) as rejected:
        read(tmp_path, text)
    assert rejected.value.path == tmp_path / "config.toml"
    assert f"(at line {line})" in rejected.value.reason


def test_a_file_that_others_can_write_or_that_is_no_toml_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ProxySettingsError):
        read(tmp_path, "[proxy")
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "config.toml").chmod(0o666)
    with pytest.raises(ProxySettingsError):
        read_settings(tmp_path)
