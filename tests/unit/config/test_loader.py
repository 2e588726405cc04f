"""Keys, limits and errors of config.toml, and restrictions from the environment."""

import logging
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.config import loader
from bridge.config.loader import ConfigError, read_config
from bridge.config.remote_settings import RemoteSettings
from bridge.config.restrictions import ALWAYS_RESTRICTED, RESTRICTIONS, UNRESTRICTED
from bridge.config.settings import BrowserSettings, ChannelSettings, Config, HttpSettings
from bridge.hub.consent.page_tool_settings import PageSettings, PageSite
from bridge.hub.policy import Policy, PolicyRules, ToolRule
from native_host.system.private_files import MAX_BYTES

TABLES = {"policy", "http", "browser", "pages", "existing_channel", "remote", "proxy"}
DOCUMENT = (Path(__file__).parents[3] / "docs/CONFIGURATION.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)


def write(home: Path, text: str | bytes) -> Path:
    path = home / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o644)
    return path


def complaint(home: Path, text: str | bytes, environ: dict[str, str] | None = None) -> str:
    """What is said about the file, after its path."""
    path = write(home, text)
    with pytest.raises(ConfigError) as refused:
        read_config(home, environ or {})
    said = str(refused.value)
    assert "\n" not in said
    return said.removeprefix(str(path)).removeprefix(":").strip()


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    assert read_config(tmp_path, {}) == Config()
    assert read_config(tmp_path / "there is no such directory", {}) == Config()


def test_what_is_set_is_taken_and_the_rest_has_its_default(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        call_timeout_s = 30
        cached_days = 0
        [policy]
        deny = ["https://bank.example"]
        [[policy.tools]]
        name = "pay*"
        allow = false
        [[policy.tools]]
        origin = "https://shop.example"
        description = "mine"
        [http]
        port = 4000
        cors_origins = ["http://localhost:*", "https://shop.example"]
        """,
    )
    tools = (ToolRule(name="pay*", allow=False), ToolRule(origin="https://shop.example", description="mine"))
    rules = PolicyRules(deny=("https://bank.example",), tools=tools)
    config = read_config(tmp_path, {})
    http = HttpSettings(port=4000, cors_origins=("http://localhost:*", "https://shop.example"))
    assert config == Config(call_timeout_s=30.0, cached_days=0, policy=rules, http=http)
    assert Policy(config.policy).origin_refusal("https://bank.example")


# ── Mistakes ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("call_timeot_s = 3", "there is no key call_timeot_s; did you mean call_timeout_s?"),
        ("[polcy]\nread_only = true", "there is no key polcy; did you mean policy?"),
        ("[policy]\nalow = []", "there is no key alow in [policy]; did you mean allow?"),
        (
            "[[policy.tools]]\ndescripton = ''",
            "no key descripton in policy.tools[0]; did you mean description?",
        ),
        ("[policy]\nmax_name = 30", "there is no key max_name in [policy]; write it above the first [table]"),
        ("read_only = true", "there is no key read_only; write it below [policy]"),
        ("[[policy.tools]]\nallow = true\nread_only = true", "no key read_only in policy.tools[0]; write it"),
        ("[http]\nprot = 1", "there is no key prot in [http]; did you mean port?"),
        ("[http]\nauthToken = 'x'", "there is no key authToken in [http]; did you mean auth_token?"),
        ("cors_origins = []", "there is no key cors_origins; write it below [http]"),
        ("upload_dirs = []", "there is no key upload_dirs; write it below [browser]"),
        ("attach = true", "there is no key attach; write it below [existing_channel]"),
        ("[browser]\nsite = 'ask'", "there is no key site in [browser]; did you mean sites?"),
        (
            "[http]\ncached_days = 1",
            "there is no key cached_days in [http]; write it above the first [table]",
        ),
        ("[[pages.sites]]\ntool = 'on'", "no key tool in pages.sites[0]; did you mean tools?"),
        ("zzz = 1", "there is no key zzz; there are call_timeout_s, max_name,"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(tmp_path: Path, text: str, says: str) -> None:
    assert says in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("call_timeout_s = 0", "call_timeout_s = 0: expected float > 0"),
        ("call_timeout_s = 900", "call_timeout_s = 900: expected float <= 600"),
        ("call_timeout_s = nan", "call_timeout_s = nan: expected float > 0"),
        ("call_timeout_s = inf", "call_timeout_s = inf: expected float <= 600"),
        ("call_timeout_s = '10'", "call_timeout_s = '10': expected float, got str"),
        ("[pages]\ntools = 'no'", """pages.tools = 'no': expected "on" or "ask" or "off\""""),
        (
            "[[pages.sites]]\norigin = 'https://shop.example'\ntools = 'no'",
            """pages.sites[0].tools = 'no': expected "on" or "ask" or "off\"""",
        ),
        (
            "[[pages.sites]]\norigin = 'Shop.example'\ntools = 'on'",
            '"Shop.example" is no site pattern: write it as the browser does: shop.example',
        ),
        ("max_name = 23", "max_name = 23: expected int >= 24"),
        ("max_name = 129", "max_name = 129: expected int <= 128"),
        ("max_listed_tools = -1", "max_listed_tools = -1: expected int >= 0"),
        ("calls_per_minute = true", "calls_per_minute = True: expected int, got bool"),
        ("cached_days = 2026-11-21", "cached_days ="),
        ("audit_arguments = 'no'", "audit_arguments = 'no': write true or false"),
        ("policy = []", "policy = []: write [policy], and below it its keys, such as allow"),
        ("existing_channel = true", "write [existing_channel], and below it its keys, such as attach"),
        ("[existing_channel]\nattach = 'yes'", "existing_channel.attach = 'yes': write true or false"),
        ("[policy]\ndeny = 'https://bank.example'", "policy.deny = 'https://bank.example': expected array"),
        ("[policy]\ndeny = ['*', 3]", "policy.deny[1] = 3: expected str, got int"),
        ("[policy]\ntools = 1", "policy.tools = 1: expected array"),
        (
            "[[policy.tools]]\nallow = true\n[[policy.tools]]\nallow = 1",
            "policy.tools[1].allow = 1: write true or false",
        ),
        ("[[policy.tools]]\nname = 'pay'", "policy.tools[0]: it says neither allow nor description"),
        (
            "[policy]\ndeny = ['bank.example:8443']",
            'policy: "bank.example:8443" is no site pattern: a port needs a scheme: write http://bank',
        ),
        ("[[policy.tools]]\norigin = 'https://'\nallow = false", 'policy.tools[0]: "https://" is no site'),
        ("http = 3456", "http = 3456: write [http], and below it its keys, such as enabled"),
        ("[browser]\ntabs = 'all'", 'browser.tabs = \'all\': expected "own" or "ask" or "any"'),
        ("[browser]\nsites = true", 'browser.sites = True: expected "any" or "ask"'),
        ("[browser]\nupload_dirs = '/x'", "browser.upload_dirs = '/x': expected array, got str"),
        ("[existing_channel]\ndirectory = 'x'", 'existing_channel.directory: "x" is not an absolute path'),
        ("[browser]\nupload_dirs = ['photos']", 'browser.upload_dirs: "photos" is not an absolute path'),
        ("[http]\nport = 65536", "http.port = 65536: expected int <= 65535"),
        ("[http]\nport = '3456'", "http.port = '3456': expected int, got str"),
        ("[http]\nidle_minutes = 0", "http.idle_minutes = 0: expected float > 0"),
        (
            "[http]\ncors_origins = 'http://localhost'",
            "http.cors_origins = 'http://localhost': expected array",
        ),
        ("[http]\nhost = 'localhost:3456'", 'http.host: "localhost:3456" is neither an address nor a name.'),
        ("[http]\nhost = 'http://localhost'", 'host: "http://localhost" is neither'),
        ("[http]\nhost = '[::1]'", 'host: "[::1]" is neither an address nor a name. Write it without scheme'),
        ("[http]\nhost = '127.0.1'", 'host: "127.0.1" is neither'),
        ("[http]\nhost = ''", 'host: "" is neither'),
        ("[http]\nallowed_hosts = ['box.local', 'box:80']", 'allowed_hosts: "box:80" is neither'),
        ("[http]\ncors_origins = ['*']", 'cors_origins: "*" would let every page of the web drive'),
        ("[http]\ncors_origins = ['null']", 'cors_origins: "null" is what any page can call itself'),
        ("[http]\ncors_origins = ['http://*:3000']", "an asterisk stands for the port alone"),
        ("[http]\ncors_origins = ['https://*.shop.example']", "an asterisk stands for the port alone"),
        ("[http]\ncors_origins = ['localhost:3000']", "web pages are at http:// and https:// only; write it"),
        ("[http]\ncors_origins = ['http://localhost:80:*']", "is written otherwise by browsers"),
        ("[http]\ncors_origins = ['http://localhost:81:*']", "has two ports"),
        (
            "[http]\ncors_origins = ['HTTPS://Shop.example:443/cart']",
            'cors_origins: "HTTPS://Shop.example:443/cart" is written otherwise by browsers: https://shop.example',
        ),
        (f"audit_arguments = '{'x' * 1000}'", "…"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_key_and_what_is_expected(
    tmp_path: Path, text: str, says: str
) -> None:
    said = complaint(tmp_path, text)
    assert says in said
    assert len(said) < 200


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "::1", "localhost", "my-box.local", "box_2"])
def test_a_host_is_an_address_or_a_name(tmp_path: Path, host: str) -> None:
    write(tmp_path, f"[http]\nhost = '{host}'\nallowed_hosts = ['{host}']")
    assert read_config(tmp_path, {}).http == HttpSettings(host=host, allowed_hosts=(host,))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_name = 30\ncall_timeout_s = = 3", "is not valid TOML: Invalid value (at line 2"),
        (b"max_name = 30\n# \xff", "is not valid TOML: line 2 is not UTF-8"),
        ("a = " + "[" * 5000, "is not valid TOML"),
        ("#" * (MAX_BYTES + 1), "is longer than"),
    ],
)
def test_what_is_not_toml_is_refused_with_the_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    assert says in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# port = 1\n\nmax_name = 1", 3),
        ("max_name = 30\r\n[http]\r\nport = 0.5\r\n", 3),
        ("[browser]\ntabs = 'own'\n[pages]\ntabs = 'own'", 4),
        ("[ http ] # mine\nhost = ''", 2),
        ("[policy]\nallow = ['*']\ndeny = [\n  '*',\n  3,\n]", 3),
        ("[[policy.tools]]\nallow = true\n[[policy.tools]]\n  allow = 1", 4),
        ("[[policy.tools]]\nallow = true\n\n[[policy.tools]]\nname = 'pay'", 4),
        ("[policy]\ntools = [{ allow = 1 }]", 2),
        ("audit_arguments = true\npolicy = { deny = 3 }", 2),
        ("http.host = '::1'\nhttp.port = 'x'", 2),
        ("max_name = 30\n[http]\nprot = 1", 3),
        ("[[pages.sites]]\ntool = 'on'", 2),
        ("max_name = 30\n[polcy]\nread_only = true", 2),
    ],
)
def test_a_key_or_a_value_that_cannot_be_is_refused_with_the_line(
    tmp_path: Path, text: str, line: int
) -> None:
    assert complaint(tmp_path, text).endswith(f" (at line {line})")


@pytest.mark.parametrize(
    "text",
    [
        "[http]\n\"port\" = 'x'",
        "[[policy.tools]]\ndescription = '''\n[http]\nport = 1\n'''\n[http]\nport = 'x'",
    ],
)
def test_a_line_that_cannot_be_told_for_certain_is_left_out(tmp_path: Path, text: str) -> None:
    said = complaint(tmp_path, text)
    assert said.startswith("http.port = 'x': expected int")
    assert "at line" not in said


# ── Whose file it is ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int
) -> None:
    path = write(tmp_path, "")
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"can be written by others.*chmod go-w"):
        read_config(tmp_path, {})
    path.chmod(mode & ~0o022)
    assert read_config(tmp_path, {}) == Config()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_with_a_token_that_others_may_read_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int
) -> None:
    path = write(tmp_path, "[http]\nauth_token = 'not-for-others'")
    path.chmod(mode)
    with pytest.raises(
        ConfigError, match=r"has http\.auth_token and others can read it.*chmod go-r"
    ) as refused:
        read_config(tmp_path, {})
    assert "not-for-others" not in str(refused.value)
    path.chmod(mode & ~0o044)
    assert read_config(tmp_path, {}).http.auth_token == "not-for-others"


def test_no_message_shows_a_token(tmp_path: Path) -> None:
    path = write(tmp_path, "[http]\nauth_token = 271828")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"http\.auth_token = …: expected str, got int"):
        read_config(tmp_path, {})
    path.write_text("[[http]]\nauth_token = 'secret'")
    with pytest.raises(ConfigError, match=r"http = …: write \[http\]"):
        read_config(tmp_path, {})
    path.write_text("[http]\nauth_token = 'päss word'")
    with pytest.raises(ConfigError, match=r"http\.auth_token: only letters, digits and") as in_file:
        read_config(tmp_path, {})
    path.unlink()
    with pytest.raises(
        ConfigError, match="CLAUDE_BROWSER_AUTH_TOKEN: auth_token: only letters"
    ) as in_environment:
        read_config(tmp_path, {"CLAUDE_BROWSER_AUTH_TOKEN": "päss word"})
    assert "word" not in f"{in_file.value} {in_environment.value}"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
@pytest.mark.parametrize("text", ["max_name = 30", None], ids=["with a file", "without"])
def test_a_directory_in_which_others_could_remove_the_file_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int, text: str | None
) -> None:
    """It may be that there was one: without a file nothing is denied."""
    if text is not None:
        write(tmp_path, text)
    tmp_path.chmod(mode)
    closing = f"{tmp_path} can be written by others, who could remove your config.toml. Run: chmod go-w"
    with pytest.raises(ConfigError, match=re.escape(closing)):
        read_config(tmp_path, {})
    tmp_path.chmod(0o755)
    assert read_config(tmp_path, {}).max_name == (30 if text else Config().max_name)


def test_another_users_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: -1)
    with pytest.raises(ConfigError, match=r"belongs to another user, who could remove your config\.toml"):
        read_config(tmp_path, {})


def test_another_users_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "")
    owner = os.getuid()
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result((0o100644, 0, 0, 1, owner + 1, 0, 0, 0, 0, 0)))
    with pytest.raises(ConfigError, match=f"{path} belongs to another user, who could allow"):
        read_config(tmp_path, {})


def test_the_error_of_a_value_has_the_path_and_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path, "max_name = 300")
    with pytest.raises(ConfigError) as rejected:
        read_config(tmp_path, {})
    assert (rejected.value.path, rejected.value.command) == (path, "")
    assert rejected.value.reason.startswith("max_name = 300: ")


def test_the_error_of_an_exposed_file_has_the_path_and_the_command(tmp_path: Path) -> None:
    path = write(tmp_path, "[http]\nauth_token = 'secret'")
    with pytest.raises(ConfigError) as rejected:
        read_config(tmp_path, {})
    assert (rejected.value.path, rejected.value.command) == (path, f"chmod go-r {path}")


def test_the_error_of_a_variable_has_no_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as rejected:
        read_config(tmp_path, {"MCPB_MAX_NAME": "x"})
    assert rejected.value.path is None


def test_a_link_is_followed_and_its_target_checked(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target = write(tmp_path / "dotfiles", "max_name = 30")
    (tmp_path / "config.toml").symlink_to(target)
    assert read_config(tmp_path, {}).max_name == 30
    target.chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others"):
        read_config(tmp_path, {})
    target.chmod(0o644)
    target.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="dotfiles can be written by others"):
        read_config(tmp_path, {})


def test_a_link_that_leads_nowhere_is_not_taken_for_no_rules(tmp_path: Path) -> None:
    (tmp_path / "config.toml").symlink_to(tmp_path / "gone.toml")
    with pytest.raises(ConfigError, match="leads nowhere"):
        read_config(tmp_path, {})


def test_a_pipe_or_a_directory_in_its_place_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(ConfigError, match="is not a file"):
        read_config(tmp_path, {})
    (tmp_path / "config.toml").unlink()
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config(tmp_path, {})


# ── The environment ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    write(tmp_path, "max_name = 30\ncached_days = 3")
    environ = {"MCPB_MAX_NAME": "40", "MCPB_CALL_TIMEOUT_S": "2.5", "MCPB_AUDIT_ARGUMENTS": "true"}
    config = read_config(tmp_path, environ)
    assert config == Config(max_name=40, call_timeout_s=2.5, audit_arguments=True, cached_days=3)


def test_the_keys_of_http_have_variables_too_with_commas_between_several_values(tmp_path: Path) -> None:
    write(tmp_path, "[http]\nport = 4000\nclose_tabs = true")
    environ = {
        "MCPB_HTTP_PORT": "0",
        "MCPB_HTTP_AUTH_TOKEN": "abc",
        "MCPB_HTTP_CORS_ORIGINS": "http://localhost:*, https://shop.example,",
    }
    origins = ("http://localhost:*", "https://shop.example")
    http = HttpSettings(port=0, auth_token="abc", cors_origins=origins, close_tabs=True)
    assert read_config(tmp_path, environ) == Config(http=http)


def test_the_keys_of_browser_have_variables_too(tmp_path: Path) -> None:
    write(tmp_path, "[browser]\ntabs = 'any'\nsites = 'ask'\nupload_dirs = ['/srv']")
    environ = {"MCPB_BROWSER_TABS": "own", "MCPB_BROWSER_UPLOAD_DIRS": "/srv/photos, /srv/plans"}
    dirs = ("/srv/photos", "/srv/plans")
    assert read_config(tmp_path, environ).browser == BrowserSettings(
        tabs="own", sites="ask", upload_dirs=dirs
    )


@pytest.mark.parametrize("wider", ["/", "/home/ann", "/srv/photos/../keys", "/srv/photos-2"])
def test_a_variable_does_not_widen_upload_dirs(tmp_path: Path, wider: str) -> None:
    environ = {"MCPB_BROWSER_UPLOAD_DIRS": f"{wider}, /srv/photos/2026"}
    assert read_config(tmp_path, environ).browser.upload_dirs == ()
    write(tmp_path, "[browser]\nupload_dirs = ['/srv/photos']")
    assert read_config(tmp_path, environ).browser.upload_dirs == ("/srv/photos/2026",)


def test_the_keys_of_the_existing_channel_have_variables_too(tmp_path: Path) -> None:
    write(tmp_path, "[existing_channel]\ndirectory = '/run/theirs'")
    settings = ChannelSettings(attach=True, directory="/run/theirs")
    assert read_config(tmp_path, {"MCPB_EXISTING_CHANNEL_ATTACH": "true"}).existing_channel == settings


def test_port_and_token_have_other_names_which_our_own_go_before(tmp_path: Path) -> None:
    write(tmp_path, "[http]\nport = 4000")
    environ = {"CLAUDE_BROWSER_MCP_PORT": "4001", "CLAUDE_BROWSER_AUTH_TOKEN": "abc"}
    assert read_config(tmp_path, environ).http == HttpSettings(port=4001, auth_token="abc")
    ours = {"MCPB_HTTP_PORT": "4002", "MCPB_HTTP_AUTH_TOKEN": "def"}
    assert read_config(tmp_path, {**ours, **environ}).http == HttpSettings(port=4002, auth_token="def")


def test_other_variables_of_ours_and_empty_ones_are_none_of_its_business(tmp_path: Path) -> None:
    environ = {
        "MCPB_HOME": "/x",
        "MCPB_LOG": "wire",
        "MCPB_POLICY": "{}",
        "MCPB_HTTP": "{}",
        "MCPB_REMOTE": "[]",
        "MCPB_REMOTE_URL": "https://attacker.example",
        "MCPB_HTTP_AUTH": "same-user",
        "MCPB_MAX_NAME": "",
    }
    assert read_config(tmp_path, environ) == Config()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("MCPB_CALL_TIMEOUT_S", "soon", "expected float, got str"),
        ("MCPB_CALL_TIMEOUT_S", "601", "expected float <= 600"),
        ("MCPB_MAX_NAME", "7", "expected int >= 24"),
        ("MCPB_MAX_NAME", "long", "long is not one of its values"),
        ("MCPB_AUDIT_ARGUMENTS", "perhaps", "write true or false"),
        ("MCPB_HTTP_PORT", "70000", "expected int <= 65535"),
        ("CLAUDE_BROWSER_MCP_PORT", "http", "expected int, got str"),
    ],
)
def test_a_bad_value_in_the_environment_names_the_variable(
    tmp_path: Path, variable: str, value: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{variable}='{value}': {expected}")):
        read_config(tmp_path, {variable: value})


def test_what_no_single_value_shows_names_the_variable_too(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r'^MCPB_HTTP_CORS_ORIGINS: cors_origins: "\*" would let every page'
    ):
        read_config(tmp_path, {"MCPB_HTTP_CORS_ORIGINS": "*"})


# ── The document ────────────────────────────────────────────────────────────────────────────────────────────


def documented() -> dict[str, str]:
    """The table of keys: each with its default as the document has it."""
    return dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^`|]+?)`? \|", DOCUMENT, re.MULTILINE))


def keys_of(shape: type[msgspec.Struct], prefix: str = "") -> set[str]:
    return {f"{prefix}{key}" for key in shape.__struct_fields__}


def test_the_document_names_every_key_and_no_other() -> None:
    ours = keys_of(Config) - TABLES | keys_of(HttpSettings, "http.")
    ours |= keys_of(BrowserSettings, "browser.") | keys_of(ChannelSettings, "existing_channel.")
    ours |= keys_of(PageSettings, "pages.") | keys_of(PageSite, "pages.sites.")
    ours |= keys_of(PolicyRules, "policy.") | keys_of(ToolRule, "policy.tools.")
    ours |= keys_of(RemoteSettings, "remote.") | {"remote"}
    assert set(documented()) == ours


def test_the_document_has_the_right_defaults() -> None:
    found = {
        key: value
        for key, value in documented().items()
        if not key.startswith(("policy.", "pages.sites", "remote"))
    }
    whole = "\n".join(f"{key} = {value}" for key, value in found.items())
    assert msgspec.convert(tomllib.loads(whole), Config) == Config()
    keys = keys_of(HttpSettings) | keys_of(BrowserSettings, "b.") | keys_of(ChannelSettings, "c.")
    keys |= keys_of(PageSettings, "p.") - {"p.sites"}
    assert len(found) == len(keys_of(Config) - TABLES) + len(keys)


def test_the_document_has_the_right_defaults_of_a_remote_server() -> None:
    found = {key: value for key, value in documented().items() if key.startswith("remote.")}
    assert found.pop("remote.name") == "required"
    entry = tomllib.loads("\n".join(f"{key} = {value}" for key, value in found.items()))["remote"]
    whole = {"name": "orders", **entry, "url": "https://orders.example/mcp"}
    assert msgspec.convert(whole, RemoteSettings) == RemoteSettings(name="orders", url=whole["url"])


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_document_can_be_used(tmp_path: Path, example: str) -> None:
    write(tmp_path, example)
    assert read_config(tmp_path, {}) != Config()


@pytest.mark.parametrize(
    ("written", "closing"),
    [
        ("'never'", "never"),
        ("'unused'", "unused"),
        ("'ask'", "ask"),
        ("'always'", "always"),
        ("true", "always"),
        ("false", "never"),
    ],
)
def test_the_tabs_that_are_closed_are_a_word_or_in_older_files_true_or_false(
    tmp_path: Path, written: str, closing: str
) -> None:
    write(tmp_path, f"[browser]\nclose_tabs = {written}")
    assert read_config(tmp_path, {}).browser.closing == closing


@pytest.mark.parametrize(
    ("text", "environ", "closes_all"),
    [
        ("[http]\nclose_tabs = true", {}, True),
        ("[http]\nclose_tabs = true\n[browser]\nclose_tabs = 'never'", {}, False),
        ("[http]\nclose_tabs = true", {"MCPB_BROWSER_CLOSE_TABS": "never"}, False),
    ],
)
def test_the_older_key_for_the_tabs_that_are_closed_counts_without_the_newer_one(
    tmp_path: Path, text: str, environ: dict[str, str], closes_all: bool
) -> None:
    write(tmp_path, text)
    assert read_config(tmp_path, environ).http.close_tabs is closes_all


def test_a_wrong_value_of_the_older_key_names_the_newer_one(tmp_path: Path) -> None:
    assert "http.close_tabs = 'always': write browser.close_tabs" in complaint(
        tmp_path, "[http]\nclose_tabs = 'always'"
    )


@pytest.mark.parametrize("value", ["'all'", "1"])
def test_another_value_for_the_tabs_that_are_closed_is_rejected_with_the_words(
    tmp_path: Path, value: str
) -> None:
    write(tmp_path, f"[browser]\nclose_tabs = {value}")
    with pytest.raises(ConfigError) as rejected:
        read_config(tmp_path, {})
    assert 'expected "never" or "unused" or "ask" or "always"' in str(rejected.value)


# ── The environment tightens restrictions of config.toml and never loosens ──────────────────────────────────


TABLES_CONFIG = {"http", "browser", "existing_channel"}


@pytest.fixture(autouse=True)
def nothing_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_warned", set())


def settable_keys() -> set[str]:
    """The keys that have a variable."""
    keys = {
        key
        for key in Config.__struct_fields__
        if key not in {*TABLES_CONFIG, "policy", "pages", "remote", "proxy"}
    }
    for table in TABLES_CONFIG:
        shape = type(getattr(Config(), table))
        keys |= {f"{table}.{key}" for key in shape.__struct_fields__}
    return keys - {"http.auth"}


def test_each_key_with_a_variable_is_a_restriction_or_is_named_as_none() -> None:
    """Who adds a key decides what a tighter value of it is."""
    assert RESTRICTIONS.keys() | UNRESTRICTED == settable_keys()
    assert not RESTRICTIONS.keys() & UNRESTRICTED
    assert RESTRICTIONS.keys() >= ALWAYS_RESTRICTED


TIGHTER = [
    ("calls_per_minute", "30", "20", 20),
    ("calls_per_minute", "0", "20", 20),
    ("audit_arguments", "true", "false", False),
    ("http.enabled", "true", "false", False),
    ("http.host", '"0.0.0.0"', "127.0.0.1", "127.0.0.1"),
    (
        "http.cors_origins",
        '["http://a.example", "http://b.example"]',
        "http://a.example",
        ("http://a.example",),
    ),
    ("http.allowed_hosts", '["a.example", "b.example"]', "a.example", ("a.example",)),
    ("http.calls_per_minute", "30", "20", 20),
    ("browser.enabled", "true", "false", False),
    ("browser.tabs", '"any"', "ask", "ask"),
    ("browser.sites", '"any"', "ask", "ask"),
    ("browser.ask_in", '"client"', "extension", "extension"),
    ("browser.roots", '"files"', "strict", "strict"),
    ("browser.roots", '"guide"', "files", "files"),
    ("browser.find_with_model", "true", "false", False),
    ("http.close_tabs", "true", "false", False),
    ("browser.close_tabs", '"always"', "unused", "unused"),
    ("browser.close_tabs", "true", "ask", "ask"),
    ("browser.close_tabs", "false", "never", "never"),
    ("browser.resume", '"any"', "terminal", "terminal"),
    ("existing_channel.attach", "true", "false", False),
    ("existing_channel.publish", "true", "false", False),
]
LOOSER = [
    ("calls_per_minute", "30", "31", 30),
    ("calls_per_minute", "30", "0", 30),
    ("audit_arguments", "false", "true", False),
    ("http.enabled", "false", "true", False),
    ("http.host", '"127.0.0.1"', "0.0.0.0", "127.0.0.1"),
    ("http.cors_origins", '["http://a.example"]', "http://a.example,http://b.example", ("http://a.example",)),
    ("http.allowed_hosts", '["a.example"]', "b.example", ("a.example",)),
    ("http.calls_per_minute", "30", "0", 30),
    ("browser.enabled", "false", "true", False),
    ("browser.tabs", '"own"', "any", "own"),
    ("browser.sites", '"ask"', "any", "ask"),
    ("browser.ask_in", '"extension"', "client", "extension"),
    ("browser.roots", '"strict"', "guide", "strict"),
    ("browser.find_with_model", "false", "true", False),
    ("http.close_tabs", "false", "true", False),
    ("browser.close_tabs", '"never"', "ask", "never"),
    ("browser.close_tabs", '"unused"', "true", "unused"),
    ("browser.close_tabs", "false", "unused", False),
    ("browser.resume", '"terminal"', "any", "terminal"),
    ("existing_channel.attach", "false", "true", False),
    ("existing_channel.publish", "false", "true", False),
]


def read_with(home: Path, key: str, of_file: str, variable: str) -> Any:
    table, _, name = key.rpartition(".")
    (home / "config.toml").write_text(f"[{table}]\n{name} = {of_file}\n" if table else f"{key} = {of_file}\n")
    found = msgspec.to_builtins(read_config(home, {f"MCPB_{key.replace('.', '_').upper()}": variable}))
    return found[table][name] if table else found[key]


@pytest.mark.parametrize(("key", "of_file", "variable", "value"), TIGHTER)
def test_a_tighter_value_replaces_the_file_s(
    tmp_path: Path, key: str, of_file: str, variable: str, value: Any
) -> None:
    found = read_with(tmp_path, key, of_file, variable)
    assert (tuple(found) if isinstance(found, list) else found) == value


@pytest.mark.parametrize(("key", "of_file", "variable", "value"), LOOSER)
def test_a_looser_value_is_ignored_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str, of_file: str, variable: str, value: Any
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        found = read_with(tmp_path, key, of_file, variable)
        assert (tuple(found) if isinstance(found, list) else found) == value
    (warning,) = caplog.messages
    assert warning.endswith(f"is ignored: it would loosen {key} of config.toml")


def test_both_lists_have_each_restriction() -> None:
    assert {row[0] for row in TIGHTER} == {row[0] for row in LOOSER} == RESTRICTIONS.keys()


def test_what_the_file_leaves_out_may_be_set_but_for_where_to_resume(tmp_path: Path) -> None:
    environ = {"MCPB_BROWSER_TABS": "any", "MCPB_BROWSER_RESUME": "any"}
    settings = read_config(tmp_path, environ).browser
    assert (settings.tabs, settings.resume) == ("any", "terminal")
