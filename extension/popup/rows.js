/**
 * Rows of a list that keep their places while the popup is open, so that no button moves under the pointer. A row whose
 * item is gone stays and says so; the next new item takes its place.
 */

/**
 * @typedef {{ key: string, name: string, facts: string, kind?: string, control?: HTMLElement | null,
 *   action?: { text: string, label: string, act: () => void } | null }} Item `kind`: class of the facts; `control`:
 *   instead of an action
 * @typedef {{ key: string | null, element: HTMLElement, name: HTMLElement, facts: HTMLElement,
 *   button: HTMLButtonElement, control: HTMLElement | null }} Row `key`: null if its item is gone
 */

export class Rows {
  /** @type {Row[]} */
  #rows = [];

  /**
   * @param {HTMLElement} list
   * @param {string} gone of an item that has gone, such as "disconnected"
   */
  constructor(list, gone) {
    this.list = list;
    this.gone = gone;
  }

  /** @param {Item[]} items all that there are, each key once */
  show(items) {
    const keys = new Set(items.map(({ key }) => key));
    for (const row of this.#rows) if (row.key !== null && !keys.has(row.key)) this.#leave(row);
    for (const item of items) fill(this.#rowOf(item.key), item);
  }

  /** The item's row, a free one, or a new one. @param {string} key @returns {Row} */
  #rowOf(key) {
    const known = this.#rows.find((row) => row.key === key) ?? this.#rows.find((row) => row.key === null);
    if (known) return known;
    const row = makeRow();
    this.#rows.push(row);
    this.list.append(row.element);
    return row;
  }

  /** @param {Row} row */
  #leave(row) {
    row.key = null;
    write(row.facts, this.gone);
    row.element.classList.add("gone");
  }
}

/** @returns {Row} */
function makeRow() {
  const element = document.createElement("li");
  const [name, facts] = [document.createElement("h3"), document.createElement("p")];
  const button = document.createElement("button");
  button.type = "button";
  element.append(name, facts, button);
  return { key: null, element, name, facts, button, control: null };
}

/**
 * Change only what is not so already: a button that is being pressed stays the same.
 *
 * @param {Row} row
 * @param {Item} item
 */
function fill(row, { key, name, facts, kind = "", control = null, action = null }) {
  row.key = key;
  row.element.className = "row";
  write(row.name, name);
  write(row.facts, facts);
  row.facts.className = `facts ${kind}`;
  row.button.hidden = action === null;
  if (action) {
    write(row.button, action.text);
    row.button.ariaLabel = action.label;
    row.button.onclick = action.act;
  }
  if (row.control === control) return;
  row.control?.remove();
  if (control) row.element.append(control);
  row.control = control;
}

/**
 * Set the text of an element, if that changes it.
 *
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
