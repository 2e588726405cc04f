"""Where each browser looks for host manifests: the table, the rules that read it, and people's own rows."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from install.browsers import (
    Browser,
    TableError,
    Target,
    browser_of_program,
    directory_target,
    find_browser,
    find_nearest,
    kind_of_directory,
    known_browsers,
    named_targets,
    present_targets,
    system_target,
    user_data_dir_target,
    user_targets,
)
from install.machine import Machine, System
from native_host.protocol.wire import HOST_NAME

LINUX = Machine("linux", Path("/home/ann"), {})
MACOS = Machine("macos", Path("/Users/ann"), {})
MACHINES: dict[System, Machine] = {"linux": LINUX, "macos": MACOS}
KNOWN = known_browsers()


def row(name: str, browsers: Iterable[Browser] = KNOWN) -> Browser:
    found = find_browser(name, tuple(browsers))
    assert found, name
    return found


def only(*folders: str) -> Callable[[Path], bool]:
    """A disk on which these folders are, with those that they are in, and nothing else."""
    paths = [Path(folder) for folder in folders]
    return lambda path: any(folder == path or path in folder.parents for folder in paths)


def directories(targets: Iterable[Target]) -> list[str]:
    return [str(target.directory) for target in targets]


# ── Places ──────────────────────────────────────────────────────────────────────────────────────────────────

CHROMIUM_FOLDER = "NativeMessagingHosts"
PLACES: dict[tuple[str, System], list[str]] = {
    # Below ~/.config, the folder CHROMIUM_FOLDER left out; or whole.
    ("chromium", "linux"): ["chromium"],
    ("ungoogled-chromium", "linux"): ["chromium"],
    ("chrome", "linux"): ["google-chrome"],
    ("chrome-beta", "linux"): ["google-chrome-beta"],
    ("chrome-dev", "linux"): ["google-chrome-unstable"],
    ("chrome-canary", "linux"): ["google-chrome-canary"],
    ("chrome-for-testing", "linux"): ["google-chrome-for-testing", "google-chrome"],
    ("edge", "linux"): ["microsoft-edge"],
    ("edge-beta", "linux"): ["microsoft-edge-beta"],
    ("edge-dev", "linux"): ["microsoft-edge-dev"],
    ("brave", "linux"): ["BraveSoftware/Brave-Browser"],
    ("brave-beta", "linux"): ["BraveSoftware/Brave-Browser-Beta"],
    ("brave-nightly", "linux"): ["BraveSoftware/Brave-Browser-Nightly"],
    ("vivaldi", "linux"): ["vivaldi"],
    ("vivaldi-snapshot", "linux"): ["vivaldi-snapshot"],
    ("opera", "linux"): ["opera", "google-chrome"],
    ("yandex", "linux"): ["yandex-browser"],
    ("comet", "linux"): ["Comet"],
    ("helium", "linux"): ["net.imput.helium"],
    ("thorium", "linux"): ["thorium"],
    ("iridium", "linux"): ["iridium"],
    ("slimjet", "linux"): ["slimjet"],
    ("firefox", "linux"): ["/home/ann/.mozilla/native-messaging-hosts"],
    ("librewolf", "linux"): [
        "/home/ann/.librewolf/native-messaging-hosts",
        "/home/ann/.mozilla/native-messaging-hosts",
    ],
    ("waterfox", "linux"): [
        "/home/ann/.waterfox/native-messaging-hosts",
        "/home/ann/.mozilla/native-messaging-hosts",
    ],
    ("zen", "linux"): ["/home/ann/.mozilla/native-messaging-hosts"],
    ("floorp", "linux"): ["/home/ann/.mozilla/native-messaging-hosts"],
    ("tor-browser", "linux"): [
        f"/home/ann/.local/share/torbrowser/tbb/x86_64/{bundle}/Browser/TorBrowser/Data/Browser/.mozilla/"
        "native-messaging-hosts"
        for bundle in ("tor-browser", "tor-browser_en-US")
    ],
    # Below ~/Library/Application Support, the folder CHROMIUM_FOLDER left out; or whole.
    ("chromium", "macos"): ["Chromium"],
    ("ungoogled-chromium", "macos"): ["Chromium"],
    ("chrome", "macos"): ["Google/Chrome"],
    ("chrome-beta", "macos"): ["Google/Chrome Beta"],
    ("chrome-dev", "macos"): ["Google/Chrome Dev"],
    ("chrome-canary", "macos"): ["Google/Chrome Canary"],
    ("chrome-for-testing", "macos"): [
        "Google/ChromeForTesting",
        "Google/Chrome for Testing",
        "Google/Chrome",
    ],
    ("edge", "macos"): ["Microsoft Edge"],
    ("edge-beta", "macos"): ["Microsoft Edge Beta"],
    ("edge-dev", "macos"): ["Microsoft Edge Dev"],
    ("edge-canary", "macos"): ["Microsoft Edge Canary"],
    ("brave", "macos"): ["Google/Chrome", "BraveSoftware/Brave-Browser"],
    ("brave-beta", "macos"): ["Google/Chrome", "BraveSoftware/Brave-Browser-Beta"],
    ("brave-nightly", "macos"): ["Google/Chrome", "BraveSoftware/Brave-Browser-Nightly"],
    ("vivaldi", "macos"): ["Vivaldi"],
    ("opera", "macos"): ["com.operasoftware.Opera", "Google/Chrome", "Opera"],
    ("opera-gx", "macos"): ["com.operasoftware.OperaGX", "Google/Chrome"],
    ("opera-developer", "macos"): ["com.operasoftware.OperaDeveloper", "Google/Chrome"],
    ("yandex", "macos"): ["Yandex/YandexBrowser", "Yandex"],
    ("arc", "macos"): ["Arc/User Data"],
    ("dia", "macos"): ["Dia/User Data"],
    ("comet", "macos"): ["Comet", "Perplexity/Comet", "ai.perplexity.comet"],
    ("helium", "macos"): ["net.imput.helium"],
    ("thorium", "macos"): ["Thorium"],
    ("firefox", "macos"): ["Mozilla"],
    ("librewolf", "macos"): ["LibreWolf"],
    ("waterfox", "macos"): ["Waterfox", "Mozilla"],
    ("zen", "macos"): ["Mozilla"],
    ("floorp", "macos"): ["Mozilla"],
    ("tor-browser", "macos"): ["TorBrowser-Data/Browser/Mozilla"],
    ("thunderbird", "macos"): ["/Users/ann/Library/Mozilla/NativeMessagingHosts"],
}
SETTINGS: dict[System, str] = {
    "linux": "/home/ann/.config",
    "macos": "/Users/ann/Library/Application Support",
}


@pytest.mark.parametrize(("name", "system"), PLACES)
def test_a_browser_looks_in_these_folders_of_the_user_in_this_order(name: str, system: System) -> None:
    expected = [
        place if place.startswith("/") else f"{SETTINGS[system]}/{place}/{CHROMIUM_FOLDER}"
        for place in PLACES[name, system]
    ]
    assert directories(user_targets(row(name), MACHINES[system], KNOWN)) == expected


def test_no_place_of_the_table_is_missing_above() -> None:
    ours = {
        (browser.name, system)
        for browser in KNOWN
        for system, machine in MACHINES.items()
        if user_targets(browser, machine, KNOWN)
    }
    assert ours == set(PLACES)


CHROMES = ["chrome", "chrome-beta", "chrome-dev", "chrome-canary"]
BRAVES = ["brave", "brave-beta", "brave-nightly"]
FOR_ALL_USERS: dict[System, dict[str, list[str]]] = {
    "linux": {
        "/etc/chromium/native-messaging-hosts": ["chromium", "ungoogled-chromium", "thorium"],
        "/etc/opt/chrome/native-messaging-hosts": [*CHROMES, *BRAVES],
        "/etc/opt/chrome_for_testing/native-messaging-hosts": ["chrome-for-testing"],
        "/etc/opt/edge/native-messaging-hosts": ["edge", "edge-beta", "edge-dev"],
        "/etc/opt/yandex-browser/native-messaging-hosts": ["yandex"],
        "/etc/iridium-browser/native-messaging-hosts": ["iridium"],
        "/etc/opt/slimjet/native-messaging-hosts": ["slimjet"],
        "/usr/lib/mozilla/native-messaging-hosts": ["firefox", "zen", "floorp"],
        "/usr/lib/librewolf/native-messaging-hosts": ["librewolf"],
        "/usr/lib/waterfox/native-messaging-hosts": ["waterfox"],
    },
    "macos": {
        "/Library/Application Support/Chromium/NativeMessagingHosts": ["chromium", "ungoogled-chromium"],
        "/Library/Google/Chrome/NativeMessagingHosts": [*CHROMES, *BRAVES],
        "/Library/Google/ChromeForTesting/NativeMessagingHosts": ["chrome-for-testing"],
        "/Library/Microsoft/Edge/NativeMessagingHosts": ["edge", "edge-beta", "edge-dev", "edge-canary"],
        "/Library/Application Support/Vivaldi/NativeMessagingHosts": ["vivaldi"],
        "/Library/Application Support/Arc/User Data/NativeMessagingHosts": ["arc"],
        "/Library/Application Support/Mozilla/NativeMessagingHosts": ["firefox", "zen", "floorp"],
        "/Library/Application Support/LibreWolf/NativeMessagingHosts": ["librewolf"],
        "/Library/Application Support/Waterfox/NativeMessagingHosts": ["waterfox"],
    },
}


@pytest.mark.parametrize("system", FOR_ALL_USERS)
def test_manifests_for_all_users_are_in_these_folders_and_where_nobody_is_sure_in_none(
    system: System,
) -> None:
    expected = {name: folder for folder, names in FOR_ALL_USERS[system].items() for name in names}
    targets = {browser.name: system_target(browser, MACHINES[system]) for browser in KNOWN}
    assert {name: str(target.directory) for name, target in targets.items() if target} == expected
    assert all(target.level == "system" for target in targets.values() if target)


def test_folders_for_all_users_begin_at_the_machine_s_root() -> None:
    target = system_target(row("edge"), Machine("linux", Path("/home/ann"), {}, root=Path("/tmp/root")))
    assert target
    assert str(target.directory) == "/tmp/root/etc/opt/edge/native-messaging-hosts"


CHROME_KEY = r"Software\Google\Chrome\NativeMessagingHosts"
CHROMIUM_KEY = r"Software\Chromium\NativeMessagingHosts"
EDGE_KEY = r"Software\Microsoft\Edge\NativeMessagingHosts"
KEYS = {
    "chromium": (CHROMIUM_KEY, CHROME_KEY),
    **dict.fromkeys([*CHROMES, "opera", "opera-gx", "arc", "helium", "thorium"], (CHROME_KEY,)),
    "chrome-for-testing": (r"Software\Google\Chrome for Testing\NativeMessagingHosts", CHROME_KEY),
    **dict.fromkeys(["edge", "edge-beta", "edge-dev", "edge-canary"], (EDGE_KEY, CHROMIUM_KEY, CHROME_KEY)),
    "brave": (CHROME_KEY, r"Software\BraveSoftware\Brave-Browser\NativeMessagingHosts"),
    "vivaldi": (CHROME_KEY, r"Software\Vivaldi\NativeMessagingHosts"),
    "yandex": (
        r"Software\Yandex\YandexBrowser\NativeMessagingHosts",
        r"Software\YandexBrowser\NativeMessagingHosts",
    ),
    **dict.fromkeys(
        ["firefox", "librewolf", "zen", "floorp", "waterfox", "tor-browser"],
        (r"Software\Mozilla\NativeMessagingHosts",),
    ),
}


@pytest.mark.parametrize("name", KEYS)
def test_on_windows_a_browser_reads_these_keys(name: str) -> None:
    assert row(name).windows == KEYS[name]


@pytest.mark.parametrize(
    ("environ", "chromiums", "firefoxs"),
    [
        ({}, "/home/ann/.config/chromium", "/home/ann/.config/mozilla"),
        ({"XDG_CONFIG_HOME": "/x"}, "/x/chromium", "/x/mozilla"),
        ({"XDG_CONFIG_HOME": ""}, "/home/ann/.config/chromium", "/home/ann/.config/mozilla"),
        ({"CHROME_CONFIG_HOME": "/c"}, "/c/chromium", "/home/ann/.config/mozilla"),
        ({"CHROME_CONFIG_HOME": "/c", "XDG_CONFIG_HOME": "/x"}, "/c/chromium", "/x/mozilla"),
    ],
)
def test_variables_move_chromiums_folder_but_never_firefox_s_manifests(
    environ: dict[str, str], chromiums: str, firefoxs: str
) -> None:
    machine = Machine("linux", Path("/home/ann"), environ)
    chromium, firefox = (
        present_targets([row(name)], machine, only(chromiums, firefoxs)) for name in ("chromium", "firefox")
    )
    assert directories(chromium) == [f"{chromiums}/NativeMessagingHosts"]
    assert directories(firefox) == ["/home/ann/.mozilla/native-messaging-hosts"]
    assert firefox[0].data == Path(firefoxs)


def test_on_macos_no_variable_moves_anything() -> None:
    environ = {"CHROME_CONFIG_HOME": "/c", "XDG_CONFIG_HOME": "/x"}
    moved = Machine("macos", Path("/Users/ann"), environ)
    for browser in KNOWN:
        assert user_targets(browser, moved, KNOWN) == user_targets(browser, MACOS, KNOWN)


def test_the_manifest_is_a_file_with_the_host_s_name() -> None:
    (target,) = user_targets(row("chromium"), LINUX, KNOWN)
    file = f"{HOST_NAME}.json"
    assert str(target.manifest) == f"/home/ann/.config/chromium/NativeMessagingHosts/{file}"
    assert user_data_dir_target(Path("/p")).manifest == Path("/p/NativeMessagingHosts", file)
    assert directory_target(Path("/hosts"), "firefox").manifest == Path("/hosts", file)


# ── The table agrees with itself ────────────────────────────────────────────────────────────────────────────


def test_names_and_titles_are_unique() -> None:
    assert len({browser.name for browser in KNOWN}) == len(KNOWN)
    assert len({browser.title for browser in KNOWN}) == len(KNOWN)


@pytest.mark.parametrize("browser", KNOWN, ids=lambda browser: browser.name)
def test_every_row_can_be_used_somewhere_and_says_why_we_believe_it(browser: Browser) -> None:
    assert browser.linux or browser.macos
    assert len(browser.evidence.split()) >= 5
    assert browser.evidence not in {other.evidence for other in KNOWN if other.kind != browser.kind}


@pytest.mark.parametrize("browser", KNOWN, ids=lambda browser: browser.name)
def test_what_shows_that_a_browser_is_there_is_also_where_its_manifests_are_or_its_lender_s(
    browser: Browser,
) -> None:
    for machine, places in ((LINUX, browser.linux), (MACOS, browser.macos)):
        for place in places:
            data_only = Browser(name="x", title="X", kind=browser.kind, linux=(place,), macos=(place,))
            (target,) = user_targets(data_only, machine, KNOWN)
            if place.borrows:
                lender = row(place.borrows)
                assert lender.kind == browser.kind
                assert target.directory == user_targets(lender, machine, KNOWN)[0].directory
            else:
                assert target.data == target.directory.parent


def test_the_shipped_table_would_pass_as_somebody_s_own(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[3] / "manifests/browsers.toml"
    (tmp_path / "browsers.toml").write_bytes(shipped.read_bytes())
    assert known_browsers(tmp_path) == KNOWN


HEDGES: dict[System, set[tuple[str, str]]] = {
    # Browser, and a folder that only some of its versions read, or nobody is sure of.
    "linux": {
        ("chrome-for-testing", "google-chrome"),
        ("librewolf", "/home/ann/.mozilla/native-messaging-hosts"),
        ("waterfox", "/home/ann/.mozilla/native-messaging-hosts"),
    },
    "macos": {
        ("chrome-for-testing", "Google/Chrome"),
        ("waterfox", "Mozilla"),
        ("opera", "Opera"),
        ("yandex", "Yandex"),
        ("comet", "Perplexity/Comet"),
        ("comet", "ai.perplexity.comet"),
    },
}


@pytest.mark.parametrize(
    ("system", "name", "folder"),
    [(system, name, folder) for system, hedges in HEDGES.items() for name, folder in sorted(hedges)],
)
def test_a_hedged_folder_is_used_where_it_is_there_and_never_made(
    system: System, name: str, folder: str
) -> None:
    directory = folder if folder.startswith("/") else f"{SETTINGS[system]}/{folder}/{CHROMIUM_FOLDER}"
    machine, browser, lenders = MACHINES[system], row(name), [row("chrome"), row("firefox")]
    first = str(user_targets(browser, machine, KNOWN)[0].data)
    there = only(first, str(Path(directory).parent))
    assert directory in directories(present_targets([browser, *lenders], machine, there))
    assert directory in directories(named_targets(browser, machine, KNOWN, there))
    assert directory not in directories(named_targets(browser, machine, KNOWN, only()))

    def all_but_that(path: Path) -> bool:
        return there(path) and path != Path(directory).parent

    assert directory not in directories(present_targets([browser, *lenders], machine, all_but_that))


def test_programs_of_the_same_name_are_told_apart_by_where_they_are_installed() -> None:
    programs = {program for browser in KNOWN for program in browser.programs}
    for program in programs:
        sharing = [browser for browser in KNOWN if program in browser.programs]
        assert all(browser.installed for browser in sharing[1:]), program


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/usr/lib/chromium/chromium", "chromium"),
        ("/opt/google/chrome/chrome", "chrome"),
        ("/nix/store/1-google-chrome/share/google/chrome/chrome", "chrome"),
        ("/opt/google/chrome-beta/chrome", "chrome-beta"),
        ("/opt/google/chrome-unstable/chrome", "chrome-dev"),
        ("/home/ann/.cache/puppeteer/chrome/linux-153/chrome-linux64/chrome", "chrome-for-testing"),
        ("/opt/brave.com/brave/brave", "brave"),
        ("/opt/brave.com/brave-nightly/brave", "brave-nightly"),
        ("/opt/microsoft/msedge-dev/msedge", "edge-dev"),
        ("/opt/vivaldi/vivaldi-bin", "vivaldi"),
        ("/usr/lib/firefox-esr/firefox-esr", "firefox"),
        ("/Applications/Google Chrome Canary.app/Contents/MacOS/Google Chrome Canary", "chrome-canary"),
        ("/Applications/Firefox.app/Contents/MacOS/firefox", "firefox"),
        ("/Applications/Tor Browser.app/Contents/MacOS/firefox", "tor-browser"),
        ("/opt/google/chrome/chrome_crashpad_handler", None),
        ("/usr/bin/python3", None),
    ],
)
def test_a_running_program_is_named(program: str, name: str | None) -> None:
    browser = browser_of_program(program, KNOWN)
    assert (browser.name if browser else None) == name


# ── Browsers that are there ─────────────────────────────────────────────────────────────────────────────────


def present(machine: Machine, *folders: str) -> list[tuple[str, str]]:
    """Title and folder of each target."""
    targets = present_targets(KNOWN, machine, only(*folders))
    home = f"{machine.user_home}/"
    return [(target.title, str(target.directory).removeprefix(home)) for target in targets]


def test_where_no_browser_has_been_used_there_is_no_target() -> None:
    assert present(LINUX) == present(MACOS, "/Users/ann/Library/Application Support") == []


def test_only_browsers_that_have_been_used_are_targets() -> None:
    assert present(LINUX, "/home/ann/.config/chromium", "/home/ann/.config/vivaldi") == [
        ("Chromium", ".config/chromium/NativeMessagingHosts"),
        ("Vivaldi", ".config/vivaldi/NativeMessagingHosts"),
    ]


def test_a_folder_that_several_browsers_share_is_one_target_with_all_their_titles() -> None:
    assert present(LINUX, "/home/ann/.mozilla", "/home/ann/.zen") == [
        ("Firefox, Zen", ".mozilla/native-messaging-hosts")
    ]
    (target,) = present_targets(KNOWN, LINUX, only("/home/ann/.mozilla", "/home/ann/.zen"))
    assert (target.browser, target.data) == ("firefox", Path("/home/ann/.mozilla"))


@pytest.mark.parametrize("profiles", [".config/mozilla", "snap/firefox/common/.mozilla"])
def test_wherever_firefox_keeps_its_profiles_its_manifests_are_in_the_old_folder(profiles: str) -> None:
    assert present(LINUX, f"/home/ann/{profiles}") == [("Firefox", ".mozilla/native-messaging-hosts")]


def test_brave_on_macos_is_registered_where_it_really_looks_and_in_its_own_folder() -> None:
    support = "Library/Application Support"
    assert present(MACOS, f"/Users/ann/{support}/BraveSoftware/Brave-Browser") == [
        ("Brave", f"{support}/Google/Chrome/NativeMessagingHosts"),
        ("Brave", f"{support}/BraveSoftware/Brave-Browser/NativeMessagingHosts"),
    ]


def test_chrome_for_testing_on_macos_is_known_by_its_folder_with_spaces_and_registered_in_the_other_too() -> (
    None
):
    google = "Library/Application Support/Google"
    assert present(MACOS, f"/Users/ann/{google}/Chrome for Testing") == [
        ("Chrome for Testing", f"{google}/ChromeForTesting/NativeMessagingHosts"),
        ("Chrome for Testing", f"{google}/Chrome for Testing/NativeMessagingHosts"),
    ]


def test_where_sources_disagree_each_folder_that_is_there_is_used() -> None:
    support = "Library/Application Support"
    assert present(MACOS, f"/Users/ann/{support}/Yandex/YandexBrowser") == [
        ("Yandex Browser", f"{support}/Yandex/YandexBrowser/NativeMessagingHosts"),
        ("Yandex Browser", f"{support}/Yandex/NativeMessagingHosts"),
    ]
    assert present(MACOS, f"/Users/ann/{support}/Perplexity/Comet") == [
        ("Comet", f"{support}/Perplexity/Comet/NativeMessagingHosts")
    ]


def test_what_must_be_named_is_no_target_by_itself() -> None:
    tor = row("tor-browser")
    (data,) = {str(target.data) for target in user_targets(tor, MACOS, KNOWN)}
    assert present(MACOS, data, "/Users/ann/Library/Mozilla") == []
    assert directories(named_targets(tor, MACOS, KNOWN, only(data))) == [f"{data}/NativeMessagingHosts"]


def test_a_browser_that_is_named_is_registered_even_if_it_has_never_been_used() -> None:
    edge = row("edge")
    assert directories(named_targets(edge, LINUX, KNOWN, only())) == [
        "/home/ann/.config/microsoft-edge/NativeMessagingHosts"
    ]


def test_a_browser_that_is_not_made_for_this_system_has_no_target_even_if_it_is_named() -> None:
    assert named_targets(row("arc"), LINUX, KNOWN, only()) == []


# ── Kinds of folders, and names that are none ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("directory", "machine", "kind"),
    [
        ("/home/ann/.mozilla/native-messaging-hosts", LINUX, "firefox"),
        ("/home/ann/.config/chromium/NativeMessagingHosts", LINUX, "chromium"),
        ("/etc/opt/chrome/native-messaging-hosts", LINUX, "chromium"),
        ("/usr/lib/mozilla/native-messaging-hosts", LINUX, "firefox"),
        ("/Users/ann/Library/Application Support/Mozilla/NativeMessagingHosts", MACOS, "firefox"),
        ("/home/ann/tor/Browser/.mozilla/native-messaging-hosts", LINUX, "firefox"),
        ("/usr/lib64/mozilla/native-messaging-hosts", LINUX, "firefox"),
        ("/etc/opt/fork/native-messaging-hosts", LINUX, "chromium"),
        ("/home/ann/.config/fork/NativeMessagingHosts", LINUX, "chromium"),
        ("/home/ann/hosts", LINUX, "chromium"),
    ],
)
def test_the_kind_of_a_folder_is_the_table_s_or_follows_from_its_name(
    directory: str, machine: Machine, kind: str
) -> None:
    assert kind_of_directory(Path(directory), machine, KNOWN) == kind


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("chrome-bta", "chrome-beta"),
        ("chrmium", "chromium"),
        ("Google Chrome", "chrome"),
        ("google-chrome", "chrome"),
        ("msedge", "edge"),
        ("firefox-esr", "firefox"),
        ("lynx-in-a-terminal", ""),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest_one(given: str, meant: str) -> None:
    assert find_nearest(given, KNOWN) == meant


# ── Somebody's own rows ─────────────────────────────────────────────────────────────────────────────────────

FORK = """
[[browser]]
name = "fork"
title = "My Fork"
kind = "chromium"
"""


def write(home: Path, text: str | bytes) -> Path:
    path = home / "browsers.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def complaint(home: Path) -> str:
    """Return the reason for which the file is rejected."""
    with pytest.raises(TableError) as refused:
        known_browsers(home)
    assert refused.value.path == home / "browsers.toml"
    assert "\n" not in refused.value.reason
    return refused.value.reason


def test_without_a_file_the_table_is_ours(tmp_path: Path) -> None:
    assert known_browsers(tmp_path) == KNOWN
    write(tmp_path, "")
    assert known_browsers(tmp_path) == KNOWN


def test_a_new_row_is_added_behind_ours(tmp_path: Path) -> None:
    write(
        tmp_path,
        f'{FORK}linux = [{{ data = "fork" }}, {{ data = "/opt/fork/data" }}, {{ data = "~/.fork" }}]',
    )
    browsers = known_browsers(tmp_path)
    assert browsers[:-1] == KNOWN
    assert directories(user_targets(browsers[-1], LINUX, browsers)) == [
        "/home/ann/.config/fork/NativeMessagingHosts",
        "/opt/fork/data/NativeMessagingHosts",
        "/home/ann/.fork/NativeMessagingHosts",
    ]


def test_a_row_of_a_name_that_we_have_takes_the_place_of_ours_and_lends_its_own(tmp_path: Path) -> None:
    write(tmp_path, FORK.replace("fork", "chrome") + 'linux = [{ data = "c" }]\nmacos = [{ data = "C" }]')
    browsers = known_browsers(tmp_path)
    assert [browser.name for browser in browsers] == [browser.name for browser in KNOWN]
    assert row("chrome", browsers).title == "My Fork"
    opera = user_targets(row("opera", browsers), LINUX, browsers)
    assert directories(opera)[1] == "/home/ann/.config/c/NativeMessagingHosts"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[browser]]\nname = \n", "it is not valid TOML: Invalid value (at line 2"),
        (b"[[browser]]\n# caf\xe9", "it is not valid TOML: line 2 is not UTF-8"),
        ("[browser]\nname = 'fork'", "begin each row with [[browser]], not [browser]"),
        ("[[brwser]]\nname = 'fork'", "there is no brwser outside of a row; begin each row with [[browser]]"),
        ("browser = [3]", "row 1: expected table, got int"),
        ("[[browser]]\ntitle = 'Fork'\nkind = 'firefox'", "row 1: name: it is missing"),
        ("[[browser]]\nname = 'fork'\nkind = 'firefox'", 'row 1 ("fork"): title: it is missing'),
        (f"{FORK}lnux = []", 'row 1 ("fork"): lnux: there is no such field; did you mean linux?'),
        (f"{FORK}zzz = []", "zzz: there is no such field; there are name, title,"),
        (
            f"{FORK}linux = [{{ data = 'a' }}, {{ dta = 'b' }}]",
            "linux[1].dta: there is no such field; did you mean data?",
        ),
        (f"{FORK}linux = [{{ hedge = true }}]", "linux[0].data: it is missing"),
        (f"{FORK}linux = 'fork'", "linux: expected array, got str"),
        (f"{FORK}linux = ['fork']", "linux[0]: expected table, got str"),
        (FORK.replace("chromium", "firefx"), "kind: there is no firefx; did you mean firefox?"),
        (f"{FORK}system = {{ windows = '/x' }}", "system: there is no windows; there are linux, macos"),
        (FORK.replace("fork", "My Fork"), "name: use lower-case letters and digits, with hyphens"),
        (FORK, "it says nowhere where the browser looks: give linux, macos or windows"),
        (f"{FORK}linux = [{{ data = '../fork' }}]", "linux[0].data: ../fork climbs; write where it leads"),
        (f"{FORK}linux = [{{ data = '~/a/../b' }}]", "linux[0].data: ~/a/../b climbs"),
        (f"{FORK}macos = [{{ data = '~fork' }}]", "macos[0].data: ~fork would be a folder of that name"),
        (f'{FORK}linux = [{{ data = "a\\u0000b" }}]', "linux[0].data: it has a control character"),
        *(
            (
                f"{FORK}linux = [{{ data = '{data}' }}]",
                f'linux[0].data: "{data}" is not the folder of a browser',
            )
            for data in ("", ".", "/", "~/")
        ),
        (
            f"{FORK}linux = [{{ data = 'f' }}]\nsystem = {{ linux = 'etc/fork' }}",
            "system.linux: etc/fork is not absolute; begin with /",
        ),
        (
            f"{FORK}linux = [{{ data = 'f', borrows = 'chrme' }}]",
            'row "fork": linux[0].borrows: there is no row chrme; did you mean chrome?',
        ),
        (
            f"{FORK}linux = [{{ data = 'f', borrows = 'firefox' }}]",
            "linux[0].borrows: firefox is of the kind firefox, whose manifests fork cannot read",
        ),
        (
            f"{FORK}linux = [{{ data = 'f', borrows = 'arc' }}]",
            "linux[0].borrows: arc has no place on linux; give it one",
        ),
        (
            f"{FORK.replace('chromium', 'firefox')}linux = [{{ data = 'f', borrows = 'zen' }}]",
            "linux[0].borrows: zen itself borrows from firefox; name that",
        ),
        (
            f"{FORK.replace('fork', 'chrome')}linux = [{{ data = 'c' }}]",
            'row "chrome-for-testing": macos[3].borrows: chrome has no place on macos; give it one',
        ),
        (
            f"{FORK}linux = [{{ data = 'a' }}]\n{FORK}linux = [{{ data = 'b' }}]",
            'row 2 ("fork"): name: another row has it; write one of them',
        ),
    ],
)
def test_a_mistake_is_named_with_row_field_and_remedy(tmp_path: Path, text: str | bytes, says: str) -> None:
    write(tmp_path, text)
    assert says in complaint(tmp_path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "browsers.toml").mkdir()
    assert "it is not a file" in complaint(tmp_path)


def test_a_link_that_leads_nowhere_is_not_taken_for_an_absent_file(tmp_path: Path) -> None:
    (tmp_path / "browsers.toml").symlink_to(tmp_path / "gone")
    assert "it is not a file" in complaint(tmp_path)


def test_a_file_that_cannot_be_read_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = write(tmp_path, FORK)
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == theirs:
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(TableError, match="it cannot be read: Permission denied"):
        known_browsers(tmp_path)


DOCUMENT = (Path(__file__).parents[3] / "docs/CONFIGURATION.md").read_text()


def test_the_document_s_example_can_be_used_and_it_names_every_field(tmp_path: Path) -> None:
    section = DOCUMENT.split("\n## Browsers that mcpb does not know\n")[1].split("\n## ")[0]
    (example,) = re.findall(r"```toml browsers\.toml\n(.*?)```", section, re.DOTALL)
    write(tmp_path, example)
    assert len(known_browsers(tmp_path)) == len(KNOWN) + 1
    for field in ("name", "title", "kind", "data", "borrows", "hedge", "system", "programs"):
        assert re.search(rf"`{field}[` ]", section), field
