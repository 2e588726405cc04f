"""Closed shadow roots: DevTools pass them to the script in the document."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from bridge.browser_tools.page.devtools import CommandError
from bridge.browser_tools.page.page import OBJECTS, Frame, Page

MAX_DEPTH = 3
"""Nested closed roots that are opened in one look."""
_HOSTS = "mcpb.hostsWithoutRoot().hosts.map((ref) => mcpb.element({ref}))"
_ADOPT = "function (root) { mcpb.adopt(this, root); }"


async def adopt_roots(page: Page, frame: Frame) -> None:
    """Let our code in a document see what is behind closed roots there; it says itself how many it looks for.

    Raises as `Page.call_script`.
    """
    for _ in range(MAX_DEPTH):
        hosts = await _find_hosts(page, frame)
        adopted = [host for host in hosts if await _adopt_root(page, frame, host)]
        if hosts:
            await page.run_command(
                "Runtime.releaseObjectGroup", {"objectGroup": OBJECTS}, session=frame.session
            )
        if not adopted:
            return


async def _find_hosts(page: Page, frame: Frame) -> list[str]:
    """Return the object ids of elements that may have a closed root."""
    found = await page.evaluate(_HOSTS, frame, by_value=False)
    if found.get("description") == "Array(0)":
        return []
    asked = {"objectId": found["objectId"], "ownProperties": True}
    answer = await page.run_command("Runtime.getProperties", asked, session=frame.session)
    values = [each.get("value", {}) for each in answer["result"] if each["name"].isdigit()]
    return [value["objectId"] for value in values if "objectId" in value]


async def _adopt_root(page: Page, frame: Frame, host: str) -> bool:
    """Pass the closed root of an element to the script; return whether it has one."""
    command = partial(page.run_command, session=frame.session)
    with suppress(CommandError):  # the element has gone meanwhile
        about = (await command("DOM.describeNode", {"objectId": host}))["node"]
        for root in about.get("shadowRoots", []):
            if root.get("shadowRootType") != "closed":
                continue
            world = {"executionContextId": page.world_of(frame), "objectGroup": OBJECTS}
            found = await command("DOM.resolveNode", {"backendNodeId": root["backendNodeId"], **world})
            given = [{"objectId": found["object"]["objectId"]}]
            call = {"objectId": host, "functionDeclaration": _ADOPT, "arguments": given}
            await command("Runtime.callFunctionOn", call)
            return True
    return False
