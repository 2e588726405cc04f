/** Settings of the extension in the popup: profile name, way of asking, and the list of allowed origins. */

import { BADGE_ONLY_KEY } from "../worker/approval_prompts.js";
import { Origins, storePatterns } from "../worker/origin_policy.js";
import { LABEL_KEY } from "../worker/profile.js";
import { readPattern } from "../worker/site_patterns.js";
import { write } from "./rows.js";

/** Show the stored settings; store what the user changes. */
export async function showSettings() {
  const label = input("label");
  const badgeOnly = input("badge-only");
  const stored = await chrome.storage.local.get([LABEL_KEY, BADGE_ONLY_KEY]);
  label.value = String(stored[LABEL_KEY] ?? "");
  label.addEventListener("change", () => void chrome.storage.local.set({ [LABEL_KEY]: label.value.trim() }));
  badgeOnly.checked = stored[BADGE_ONLY_KEY] === true;
  badgeOnly.addEventListener("change", () => void chrome.storage.local.set({ [BADGE_ONLY_KEY]: badgeOnly.checked }));
  await showOrigins();
}

/** Show the list of allowed origins; that of an administrator cannot be changed here. */
async function showOrigins() {
  const origins = new Origins();
  await origins.load();
  const [allowed, save] = [input("allowed"), input("save")];
  allowed.value = (origins.patterns ?? []).join("\n");
  allowed.readOnly = origins.isManaged;
  showState(describe(origins));
  allowed.addEventListener("input", () => {
    save.disabled = false;
    showState("");
  });
  document.getElementById("origins")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const lines = allowed.value.split(/\s+/).filter(Boolean);
    const wrong = lines.find((line) => !read(line));
    if (wrong !== undefined) return showState(`Not a site: ${wrong}. Write it as shop.example.`);
    save.disabled = true;
    await storePatterns(lines.map(read));
    await origins.load();
    showState(`Saved. ${describe(origins)}`);
  });
}

/** @param {Origins} origins */
function describe({ isManaged, patterns }) {
  if (isManaged) return "Set by your administrator.";
  return patterns ? "Agents can use only these sites." : "Empty: agents can use all sites.";
}

/** The pattern in its canonical form; empty: the line is no pattern. @param {string} line */
function read(line) {
  return line === "*" ? line : readPattern(line);
}

/** @param {string} text */
function showState(text) {
  write(/** @type {HTMLElement} */ (document.getElementById("allowed-state")), text);
}

/** @param {string} id */
function input(id) {
  return /** @type {HTMLInputElement} */ (document.getElementById(id));
}
