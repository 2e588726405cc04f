/**
 * Site patterns of pauses and rules: an origin, `https://*.` and a host (its subdomains alone), a host (every origin
 * there), or `*.` and a host (its subdomains too). Rules also have `*`.
 * `bridge/hub/rules/site_patterns.py` evaluates them alike; `tests/data/site_patterns.json` is the table that both are tested with.
 */

const WIDE = "*.";
const SUBDOMAINS = "://*.";
/** Browsers take others too; no site has one. */
const HOST = /^([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\])$/;
const ADDRESS = /^(\[.*\]|[0-9.]+)$/;

/**
 * The form in which origins are compared. For browsers `https://bank.example.` differs from
 * `https://bank.example`; it is the same site to everybody else, and a page chooses which of them it is.
 *
 * @param {string} origin as the browser reports it
 */
export function canonical(origin) {
  return origin.replace(/\.+(?=(:\d+)?$)/, "");
}

/** Whether the origin identifies pages: opaque ones are all called `null`. @param {string} text */
export function isOrigin(text) {
  return text !== "null" && URL.parse(text)?.origin === text;
}

/**
 * @param {string} text
 * @returns {string} the pattern in its canonical form; empty: the text is no pattern
 */
export function readPattern(text) {
  if (text.includes("://")) {
    const one = text.replace(SUBDOMAINS, "://any."); // addresses have no subdomains
    return isOrigin(one) && !one.includes("*") ? canonical(text) : "";
  }
  const pattern = text.replace(/\.+$/, "");
  const isWide = pattern.startsWith(WIDE);
  const host = isWide ? pattern.slice(WIDE.length) : pattern;
  if (!HOST.test(host) || host === "null" || URL.parse(`http://${host}`)?.host !== host) return "";
  return isWide && ADDRESS.test(host) ? "" : pattern;
}

/**
 * @param {string} pattern canonical
 * @param {string} origin as the browser reports it
 */
export function matches(pattern, origin) {
  const site = canonical(origin);
  if (pattern === "*" || pattern === site) return true;
  const [scheme, domain] = pattern.split(SUBDOMAINS);
  if (domain !== undefined) return site.startsWith(`${scheme}://`) && site.endsWith(`.${domain}`);
  const [, authority] = /^https?:\/\/(.*)$/.exec(site) ?? [];
  if (authority === undefined) return false;
  const host = authority.replace(/:\d*$/, "");
  if (!pattern.startsWith(WIDE)) return host === pattern;
  const name = pattern.slice(WIDE.length);
  return host === name || host.endsWith(`.${name}`);
}
