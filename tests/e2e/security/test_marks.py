"""A page without tools cannot see that the extension is there."""

from __future__ import annotations

from logged_hosts import LoggedHosts
from tool_browser import Browsing

WATCH = """<script>
  // Each line is something that a page saw and that no page of its own has done.
  const seen = [];
  const watch = (target, where) =>
    target.addEventListener("message", ({ data }) => {
      if (!data?.mine) seen.push(`${where}: ${JSON.stringify(data)}`);
    });
  watch(window, "window");
  for (const name of ["dev.mcpb.probe", "dev.mcpb.polyfill", "dev.mcpb.frame", "toolchange"])
    for (const target of [window, document])
      target.addEventListener(name, () => seen.push(`event ${name}`));
  const changed = (records) => records.forEach(({ attributeName: name }) => seen.push(`attribute ${name}`));
  new MutationObserver(changed)
    .observe(document, { attributes: true, subtree: true });
  // Whoever calls what a page can replace is in the stack.
  const trap = (holder, name) => {
    const original = holder[name];
    holder[name] = function (...args) {
      if (new Error().stack.includes("extension://")) seen.push(`call of ${name}`);
      return original.apply(this, args);
    };
  };
  trap(EventTarget.prototype, "addEventListener");
  trap(EventTarget.prototype, "dispatchEvent");
  trap(window, "setTimeout");
  trap(window, "postMessage");
  trap(Array.prototype, Symbol.iterator);
  for (const name of ["source", "data"]) {
    const { get } = Object.getOwnPropertyDescriptor(MessageEvent.prototype, name);
    Object.defineProperty(MessageEvent.prototype, name, {
      get() {
        if (new Error().stack.includes("extension://")) seen.push(`reading of ${name}`);
        return get.call(this);
      },
    });
  }
</script>"""

PROBE = """(async () => {
  const frame = document.createElement("iframe");
  document.body.append(frame);
  watch(frame.contentWindow, "iframe");
  const popup = window.open("about:blank");
  if (popup) watch(popup, "popup");
  for (const channel of ["mcp-default", "dev.mcpb.polyfill"])
    for (const payload of ["mcp-check-ready", { jsonrpc: "2.0", id: 1, method: "tools/list" }])
      window.postMessage({ mine: true, channel, type: "mcp", direction: "client-to-server", payload }, "*");
  window.postMessage({ mine: true, channel: "dev.mcpb.frame", ask: true }, "*");
  const root = document.documentElement;
  document.replaceChild(root.cloneNode(true), root);
  await new Promise((resolve) => setTimeout(resolve, 6000));  // after the extension's last look
  popup?.close();
  return seen;
})()"""

GLOBALS = """[...Object.getOwnPropertyNames(window), ...Object.getOwnPropertySymbols(window)]
  .map(String).filter((name) => /mcp/i.test(name))"""

NESTED = """<script>
  const heard = [];
  window.addEventListener("message", ({ data }) => {
    if (data === "done") parent.heard = heard;
    else heard.push(data.nonce);
  });
  const forged = { channel: "mcp-iframe", type: "mcp", direction: "client-to-server", nonce: "forged" };
  window.postMessage(forged, "*");
  window.postMessage("done", "*");
</script>"""


def test_a_page_hears_and_finds_nothing_of_the_extension(browsing: Browsing, hosts: LoggedHosts) -> None:
    page = browsing.browser.open(hosts.set_page("curious.localhost", "/", WATCH))
    assert page.evaluate(GLOBALS) == []
    assert page.evaluate("Symbol.for('dev.mcpb.polyfill') in window") is False
    assert page.evaluate(PROBE) == []


def test_no_file_of_the_extension_can_be_requested(browsing: Browsing, hosts: LoggedHosts) -> None:
    page = browsing.browser.open(hosts.set_page("curious.localhost", "/files", ""))
    (worker,) = browsing.browser.targets("service_worker")
    address = worker["url"].rpartition("/")[0] + "/manifest.json"
    assert page.evaluate(f"fetch({address!r}).then(() => 'read', () => 'rejected')") == "rejected"


def test_an_iframe_hears_its_own_messages_whatever_they_say(browsing: Browsing, hosts: LoggedHosts) -> None:
    inner = hosts.set_page("curious.localhost", "/inner", NESTED)
    page = browsing.browser.open(
        hosts.set_page("curious.localhost", "/outer", f"<iframe src={inner}></iframe>")
    )
    assert page.wait_until("window.heard") == ["forged"]
