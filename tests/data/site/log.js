// What happened, for whoever looks: `log(text)` adds a line to the page's <ol role="log">.
function log(text) {
  const line = document.createElement("li");
  line.textContent = text;
  document.querySelector("[role=log]").append(line);
}

// Events of these types in `root`, one line each: `Surname: input "Lovelace" (trusted)`.
function logEvents(root, ...types) {
  for (const type of types) {
    root.addEventListener(type, (event) => log(`${nameOf(event.target)}: ${type} ${valueOf(event.target)}${by(event)}`));
  }
}

// A person, or DevTools in their place, makes trusted events; a script cannot.
const by = (event) => (event.isTrusted ? "(trusted)" : "(scripted)");

function nameOf(element) {
  return element.getAttribute("aria-label") ?? element.name ?? element.id;
}

function valueOf(element) {
  if (element.type === "checkbox" || element.type === "radio") return `${element.checked} `;
  if (element.multiple && element.options) return `${JSON.stringify([...element.selectedOptions].map((o) => o.value))} `;
  if (element.isContentEditable) return `${JSON.stringify(element.textContent)} `;
  return element.value === undefined || element.localName === "button" ? "" : `${JSON.stringify(element.value)} `;
}
