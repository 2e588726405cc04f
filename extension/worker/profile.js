/** Identity of this profile, for the first message to a host. */

import { firefoxInfo, isFirefox } from "./firefox.js";
import { WIRE_VERSION } from "./wire.js";

/** @import { LastError } from "./last_error.js" */

const ID_KEY = "profileId";
export const LABEL_KEY = "profileLabel";
/** For a profile without an id: one, also where several hellos are made at once. */
const NEW_ID = crypto.randomUUID();

/**
 * The parameters of `browser/hello`.
 *
 * @param {string[]} commands that are built
 * @param {boolean} sitesAllowed whether the browser lets us into all sites
 * @param {LastError} last before this connection
 */
export async function hello(commands, sitesAllowed, last) {
  const [profile, incognitoAllowed, browser] = await Promise.all([
    profileOf(),
    chrome.extension.isAllowedIncognitoAccess(),
    browserOf(),
  ]);
  return {
    wire: WIRE_VERSION,
    extension: { id: chrome.runtime.id, version: chrome.runtime.getManifest().version },
    browser,
    profile,
    incognitoAllowed,
    sitesAllowed,
    capabilities: { commands, tools: [] },
    ...(last.newest && { trouble: last.newest }),
    ...(last.exits && { exits: last.exits }),
  };
}

/** The profile's id, made at its first use, and its label. */
async function profileOf() {
  const stored = await chrome.storage.local.get([ID_KEY, LABEL_KEY]);
  const id = stored[ID_KEY] ?? NEW_ID;
  if (stored[ID_KEY] === undefined) await chrome.storage.local.set({ [ID_KEY]: id });
  return { id, label: String(stored[LABEL_KEY] ?? "") };
}

/** Brand, version and platform of the browser. */
async function browserOf() {
  if (isFirefox) return firefoxInfo();
  /** @type {any} Chromium's alone; missing from the standard's types */
  const agent = /** @type {any} */ (navigator).userAgentData;
  if (!agent) return { brand: "unknown", version: "", platform: navigator.platform };
  const { fullVersionList } = await agent.getHighEntropyValues(["fullVersionList"]);
  return { ...ownBrand(fullVersionList ?? agent.brands), platform: agent.platform };
}

/**
 * The most specific brand: vendors name their own beside Chromium's, and an invented one that must be ignored.
 *
 * @param {{ brand: string, version: string }[]} brands
 */
function ownBrand(brands) {
  const real = brands.filter(({ brand }) => !/not.?a.?brand/i.test(brand.replace(/[^a-z]/gi, " ").replace(/ +/g, " ")));
  return real.find(({ brand }) => brand !== "Chromium") ?? real[0] ?? { brand: "unknown", version: "" };
}
