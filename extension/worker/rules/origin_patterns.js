/**
 * Site patterns of rules: which origins and which addresses one fits, and what two lists have in common.
 *
 * `../site_patterns.js` and bridge/hub/rules/site_patterns.py say what a pattern is. Nothing here asks the browser.
 */

import { matches } from "../site_patterns.js";

const PATTERN = /^(https?):\/\/(\*\.)?(.+?)(?::(\d+))?$/;
const HOST = /^(\*\.)?([^/*]+)$/;
const DEFAULT_PORTS = /** @type {Record<string, string>} */ ({ http: "80", https: "443" });
const SOCKETS = /** @type {Record<string, string>} */ ({ http: "ws", https: "wss" });
const WEB_ADDRESS = "^(https?|wss?)://";

/**
 * Return the first pattern that fits an origin.
 *
 * @param {Iterable<string>} patterns
 * @param {string} origin as the browser reports it
 * @returns {string | undefined}
 */
export function patternFor(patterns, origin) {
  for (const pattern of patterns) if (matches(pattern, origin)) return pattern;
  return undefined;
}

/**
 * Return the regular expression (RE2) of the network addresses that a pattern fits; "" if there are none (`null`).
 *
 * WebSocket addresses belong to the site of their host and port. Credentials and a host's final dot change nothing. A
 * host alone stands for all of its ports.
 *
 * @param {string} pattern
 */
export function addressExpression(pattern) {
  if (pattern === "*") return WEB_ADDRESS;
  const [, wide, name] = HOST.exec(pattern) ?? [];
  if (name && name !== "null") {
    return `${WEB_ADDRESS}([^/?#]*@)?${wide ? "([^/?#@:]+\\.)?" : ""}${escape(name)}\\.?(:[0-9]+)?/`;
  }
  const [, scheme, wildcard, host, port] = PATTERN.exec(pattern) ?? [];
  if (!scheme || !host) return "";
  const subdomains = wildcard ? "([^/?#@:]+\\.)" : "";
  const ports = port ? `:${port}` : `(:${DEFAULT_PORTS[scheme]})?`;
  return `^(${scheme}|${SOCKETS[scheme]})://([^/?#]*@)?${subdomains}${escape(host)}\\.?${ports}/`;
}

/**
 * Return the patterns that fit what both lists fit.
 *
 * @param {string[]} left
 * @param {string[]} right
 * @returns {string[]}
 */
export function intersection(left, right) {
  const common = [
    ...left.filter((pattern) => right.some((by) => covers(by, pattern))),
    ...right.filter((pattern) => left.some((by) => covers(by, pattern))),
  ];
  return [...new Set(common)].sort();
}

/**
 * Return whether a pattern fits all that another one fits. The asterisk of the other one counts as a label.
 *
 * @param {string} pattern
 * @param {string} other
 */
function covers(pattern, other) {
  if (pattern === other || pattern === "*") return true;
  if (other.includes("://")) return matches(pattern, other);
  return !pattern.includes("://") && matches(pattern, `http://${other}`);
}

/** @param {string} text */
function escape(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
