/**
 * Upgrade of an unpacked extension: it reloads itself when its directory holds another version than the one that runs.
 *
 * `mcpb extension` writes the manifest last and as a whole, with a hash of all files in `version_name`. A reload clears
 * `chrome.storage.session`, so what is there (owners of tabs, handed-over tabs, pauses) is carried over. A version for
 * which a reload changed nothing is not tried again.
 */

import { isFirefox } from "./firefox.js";

/**
 * @typedef {{ key?: string, version: string, version_name?: string }} Manifest
 * @typedef {{ version: string, at: number, session?: Record<string, unknown> }} Reload `version`: the one that was in
 *   the directory; `at`: ms since the epoch; `session`: what was in `chrome.storage.session`
 */

export const UPGRADE_ALARM = "upgrade";
const KEY = "upgrade";
const ALARM_MINUTES = 1;
/** What was carried over is used within this time: later it is that of another run of the browser. */
const RESTORING_MS = 30_000;

export class Upgrade {
  /** Whether the browser reads the files of the directory when it loads the extension. */
  #isUnpacked = false;
  #isChecking = false;

  /** @param {() => boolean} isBusy whether a reload would end something that the user or a client waits for */
  constructor(isBusy) {
    this.isBusy = isBusy;
  }

  /** Look now and once a minute, if this is an unpacked extension of Chromium. */
  async start() {
    this.#isUnpacked = !isFirefox && (await chrome.management.getSelf()).installType === "development";
    if (!this.#isUnpacked) return;
    void chrome.alarms.create(UPGRADE_ALARM, { periodInMinutes: ALARM_MINUTES });
    await this.check();
  }

  /** Reload if the directory holds another version, and nothing is under way. */
  async check() {
    if (!this.#isUnpacked || this.#isChecking) return;
    this.#isChecking = true;
    try {
      await this.#reloadIfReplaced();
    } finally {
      this.#isChecking = false;
    }
  }

  /** Write down what for, then reload. */
  async #reloadIfReplaced() {
    const version = await versionInDirectory();
    if (version === "" || version === runningVersion() || this.isBusy()) return;
    if ((await lastReload())?.version === version) return;
    const session = await chrome.storage.session.get(null);
    /** @type {Reload} */
    const reload = { version, at: Date.now(), session };
    await Promise.all([chrome.storage.local.set({ [KEY]: reload }), chrome.storage.session.set({ [KEY]: true })]);
    if (this.isBusy()) return forget();
    chrome.runtime.reload();
  }
}

/** Put back what a reload has cleared, before anything else reads `chrome.storage.session`. */
export async function restoreSession() {
  const reload = await lastReload();
  if (!reload) return;
  const { version, at, session } = reload;
  // The worker was stopped before it could reload: nothing is cleared, and the version has not been tried.
  if (KEY in (await chrome.storage.session.get(KEY))) return forget();
  if (version === runningVersion()) await forget();
  else if (session) await chrome.storage.local.set({ [KEY]: { version, at } });
  if (session && Date.now() - at < RESTORING_MS) await chrome.storage.session.set(session);
}

/** Forget the reload: it has succeeded, or did not take place. */
async function forget() {
  await Promise.all([chrome.storage.local.remove(KEY), chrome.storage.session.remove(KEY)]);
}

/** @returns {Promise<Reload | undefined>} */
async function lastReload() {
  return /** @type {Reload | undefined} */ ((await chrome.storage.local.get(KEY))[KEY]);
}

/** Return the version in the directory; empty if there is no manifest of this extension, as during an upgrade. */
async function versionInDirectory() {
  try {
    const response = await fetch(chrome.runtime.getURL("manifest.json"), { cache: "no-store" });
    /** @type {Manifest} */
    const manifest = await response.json();
    return manifest.key === chrome.runtime.getManifest().key ? format(manifest) : "";
  } catch {
    return "";
  }
}

/** Return the version that runs. */
function runningVersion() {
  return format(chrome.runtime.getManifest());
}

/** @param {Manifest} manifest */
function format({ version, version_name: name = "" }) {
  return JSON.stringify([version, name]);
}
