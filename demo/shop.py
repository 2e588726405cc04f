"""Shop of the demo: the served page shop.html, and the same shop without a browser.

Products and tools are read from the page, their only source.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import msgspec

from demo.simulated.page_server import PageServer
from demo.simulated.tabs import SimulatedTab

TITLE = "Tea & Co."


def page() -> str:
    """Return the page's HTML."""
    return (resources.files("demo") / "shop.html").read_text()


def tool_names() -> list[str]:
    """Return the names of the page's tools."""
    return [tool["name"] for tool in _block("tools")]


def _block(name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page(), re.DOTALL)
    assert found is not None
    return msgspec.json.decode(found[1])


# ── Simulated ───────────────────────────────────────────────────────────────────────────────────────────────


class SimulatedShop:
    """The page's script in Python, for a browser that runs none."""

    def __init__(self) -> None:
        self.shown = "Nothing in it yet."
        self._prices: dict[str, int] = _block("prices")
        self._cart: dict[str, int] = {}
        self._orders = 0

    def open_in(self, tab: SimulatedTab) -> None:
        """Offer the tools as the page does."""
        handlers = {"getCart": self._get_cart, "addToCart": self._add_to_cart, "checkout": self._checkout}
        for tool in _block("tools"):
            tab.offer(handler=handlers[tool["name"]], input_schema=tool.pop("inputSchema"), **tool)
        tab.serve(PageServer(self._answer, resources=_block("resources"), prompts=_block("prompts")))

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "resources/read":
            text = msgspec.json.encode(self._cart).decode()
            return {"contents": [{"uri": params["uri"], "mimeType": "application/json", "text": text}]}
        question = f"Which tea of this shop goes with {params['arguments']['dish']}?"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": question}}]}

    async def _get_cart(self, _args: dict[str, Any]) -> str:
        return f"{self._listed()}: {_euros(self._total())}" if self._cart else "The cart is empty."

    async def _add_to_cart(self, args: dict[str, Any]) -> str | dict[str, Any]:
        item, quantity = args["item"], args.get("quantity", 1)
        if item not in self._prices:
            return _error(f"There is no {item} on the shelf.")
        self._cart[item] = self._cart.get(item, 0) + quantity
        self.shown = f"Total {_euros(self._total())}"
        return f"{quantity} × {item} added, {_euros(self._total())} in all."  # noqa: RUF001

    async def _checkout(self, _args: dict[str, Any]) -> str | dict[str, Any]:
        if not self._cart:
            return _error("The cart is empty.")
        self._orders += 1
        self.shown = f"Order {self._orders}: {self._listed()}, {_euros(self._total())}. Thank you!"
        self._cart.clear()
        return self.shown

    def _listed(self) -> str:
        return ", ".join(f"{quantity} × {item}" for item, quantity in self._cart.items())  # noqa: RUF001

    def _total(self) -> int:
        return sum(quantity * self._prices[item] for item, quantity in self._cart.items())


def _error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _euros(cents: int) -> str:
    return f"€{cents / 100:.2f}"
