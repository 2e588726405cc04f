"""Environment of the demo: a temporary directory, the shop, and a browser that shows it.

All files are below one directory: the browser's profile (with the host manifest), mcpb's home (endpoint,
wrapper), and the logs that are shown after a failure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import extension
from demo import shop
from demo.chromium import Page, open_chromium
from demo.served_page import served_page
from demo.simulated.browser import SimulatedBrowser
from install.browsers import user_data_dir_target
from install.installation import InstallationPaths, RegisteredHost
from install.interpreter import current_interpreter
from install.plan import apply
from install.plan import install_plan as planning
from native_host.system.home_layout import HomeLayout, user_home


@dataclass(frozen=True)
class Place:
    """The throw-away directory."""

    directory: Path

    @property
    def profile(self) -> Path:
        """The browser's user data directory."""
        return self.directory / "profile"

    @property
    def home(self) -> Path:
        """MCPB_HOME."""
        return self.directory / "mcpb"

    @property
    def browser_log(self) -> Path:
        """Stderr of browser and native host."""
        return self.directory / "browser.log"

    @property
    def bridge_log(self) -> Path:
        """Stderr of the bridge."""
        return self.directory / "bridge.state.log_file"

    @property
    def browser_environment(self) -> dict[str, str]:
        """For the browser: now and then it leaves files where temporary ones are."""
        return {"TMPDIR": str(self.directory)}

    def register_host(self) -> None:
        """As `mcpb install-native-host --user-data-dir` does, with the same code."""
        host = RegisteredHost(
            InstallationPaths(self.home, user_home()), current_interpreter(), bakes_home=True
        )
        apply.apply_plan(
            planning.plan_install(host, [user_data_dir_target(self.profile)], [], apply.read_place)
        )


class Shop(Protocol):
    """The shop, open in a browser."""

    @property
    def browser(self) -> str:
        """Display name of the browser."""

    @property
    def url(self) -> str:
        """Address of the page."""

    @property
    def is_real(self) -> bool:
        """True if the browser is real."""

    async def shown(self) -> str:
        """Return the text that the page shows now."""


@dataclass
class _RealShop:
    browser: str
    url: str
    page: Page
    is_real: ClassVar[bool] = True

    async def shown(self) -> str:
        text = "document.getElementById('thanks').innerText || document.getElementById('total').innerText"
        return str(await self.page.evaluate(text))


@asynccontextmanager
async def shop_in_chromium(place: Place, executable: Path) -> AsyncIterator[Shop]:
    """Open the shop in a real browser with the extension.

    Raises:
        ChromiumError, DevToolsError: the browser did not start, or rejected the extension.
    """
    with place.browser_log.open("wb") as log, served_page(shop.page()) as url:
        async with open_chromium(
            place.profile, executable=executable, env=place.browser_environment, stderr=log.fileno()
        ) as chromium:
            await chromium.load_extension(_extension())
            page = await chromium.open_page(url)
            yield _RealShop(f"{chromium.version} ({executable})", url, page)


def _extension() -> Path:
    """Return the unpacked extension: browsers reject directories with names such as `__init__.py`."""
    return Path(next(iter(extension.__path__)))


@dataclass
class _SimulatedShop:
    browser: str
    url: str
    script: shop.SimulatedShop
    is_real: ClassVar[bool] = False

    async def shown(self) -> str:
        return self.script.shown


@asynccontextmanager
async def simulated_shop(place: Place) -> AsyncIterator[Shop]:
    """No browser: its end of the wire, spoken to the real native host."""
    with place.browser_log.open("wb") as log:
        async with SimulatedBrowser([str(HomeLayout(place.home).wrapper)], stderr=log.fileno()) as browser:
            script = shop.SimulatedShop()
            url = "http://localhost:8123/"
            script.open_in(browser.add_tab(url, shop.TITLE))
            yield _SimulatedShop("simulated", url, script)
