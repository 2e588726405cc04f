/**
 * Injection of content scripts into pages that were open before the extension was installed, updated or given access.
 * Firefox injects them itself on installation; after a later grant of access its pages have to be reloaded.
 */

import { isFirefox } from "./firefox.js";

/** Put the content scripts into every open page that has none of this very installation. */
export async function injectIntoOpenTabs() {
  if (isFirefox) return;
  const tabs = await chrome.tabs.query({ discarded: false });
  await Promise.all(tabs.map(({ id }) => id !== undefined && inject(id).catch(ignoreForbidden)));
}

/** @param {number} tabId */
async function inject(tabId) {
  const found = await chrome.scripting.executeScript({
    target: { tabId, allFrames: true },
    func: () => {
      const isThere = "mcpbProxy" in globalThis;
      // For content/content_script.js, in a world that no page sees.
      if (!isThere) Object.assign(globalThis, { mcpbIsLate: true });
      return isThere;
    },
  });
  const documentIds = found.filter(({ result }) => result === false).map(({ documentId }) => documentId);
  if (documentIds.length === 0) return;
  /** @type {{ js?: string[], world?: chrome.scripting.ExecutionWorld }[]} */
  const scripts = chrome.runtime.getManifest().content_scripts ?? [];
  for (const { js = [], world = "ISOLATED" } of scripts) {
    await chrome.scripting.executeScript({ target: { tabId, documentIds }, files: js, world });
  }
}

/** The browser's own pages and its store take no content scripts. */
function ignoreForbidden() {}
