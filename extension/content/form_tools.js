/**
 * Declarative tools of WebMCP: forms (`<form toolname>`) that the browser fills in for a call.
 *
 * The browser submits a form that says so (`toolautosubmit`). Any other form waits for the user, and its call is
 * answered as soon as the form is filled in. The browser gets the calls of a form one after the other: after two at a
 * time, Chromium 150 answers no call of the document any more (seen).
 *
 * @typedef {{ answered: Promise<boolean>, isWaiting: boolean }} Execution a call of a form that the browser has not
 *   ended; `answered`: the client has its result; `isWaiting`: the user has not submitted the form yet
 */

/** A form that waits for the user and its submit button, as the browser marks them. */
const WAITING_FORM = ":tool-form-active";
const WAITING_BUTTON = ":tool-submit-active";
const MARKS_WAITING = CSS.supports(`selector(${WAITING_FORM})`);
const CUSTOM_ELEMENTS = "descendant-or-self::*[contains(local-name(), '-')]";
/** Of a button's label in a sentence. */
const LABEL_BYTES = 80;

const NOT_SUBMITTED = "Nothing was submitted.";
const IS_REPLACED = "Another call fills it in again; what it leaves out keeps its value.";
const WAS_SUBMITTED = "The page received the form: look at the page before you call again.";

class FormTools {
  /** By tool name; null: to be searched again. @type {Map<string, HTMLFormElement> | null} */
  #forms = null;
  /** @type {Map<HTMLFormElement, Execution>} */
  #executions = new Map();

  /**
   * @param {EventTarget[]} targets where the browser reports `toolactivated`
   * @param {(toolName: string) => void} onRedefined the browser is about to list the tool anew
   */
  constructor(targets, onRedefined) {
    this.targets = targets;
    this.onRedefined = onRedefined;
  }

  /** The page's tools have changed. */
  forget() {
    this.#forms = null;
  }

  /** @param {string} toolName @returns {HTMLFormElement | undefined} undefined: the tool is a function */
  find(toolName) {
    if (this.#forms?.get(toolName)?.isConnected === false) this.forget();
    this.#forms ??= new Map(findForms(document).map((form) => [String(form.getAttribute("toolname")), form]));
    return this.#forms.get(toolName);
  }

  /**
   * Call the tool of a form.
   *
   * @param {HTMLFormElement} form
   * @param {() => Promise<string | null>} execute lets the browser run the tool
   * @param {{ signal: AbortSignal, onSubmit: () => void }} asked `onSubmit`: the form is about to reach the page
   * @returns {Promise<unknown>} a CallToolResult
   * @throws {Error} the browser or the page did not accept the form; NavigatedError: another document may follow
   */
  async call(form, execute, { signal, onSubmit }) {
    for (let earlier; (earlier = this.#executions.get(form)); ) await this.#end(form, earlier);
    signal.throwIfAborted();
    if (isWaiting(form)) this.#withdraw(form); // for a content script before an update of the extension
    const listening = new AbortController();
    /** @type {PromiseWithResolvers<void>} */
    const { promise: filledIn, resolve: onFilledIn } = Promise.withResolvers();
    this.#listenFilledIn(form, onFilledIn, listening.signal);
    let isSubmitted = false;
    const submitted = () => {
      isSubmitted = true;
      onSubmit();
    };
    form.addEventListener("submit", submitted, { capture: true, signal: listening.signal });
    signal.addEventListener("abort", () => this.#withdraw(form), { signal: listening.signal });
    try {
      const executing = execute();
      if (await this.#waitAnswered(form, executing, filledIn)) return makeWaitingResult(form);
      const answer = await executing;
      if (answer === null) submitted();
      return answered(answer);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      throw new Error(isSubmitted ? `${formatSentence(error.message)} ${WAS_SUBMITTED}` : formatRejection(form, error));
    } finally {
      listening.abort();
    }
  }

  /**
   * Call a tool of the page's polyfill. If it is a form that waits for the user, the call is answered as soon as the
   * polyfill has filled it in. Then it sends `toolactivated`, without the tool's name for this world, and the form's
   * button has the focus (seen in @mcp-b/webmcp-polyfill 5.1.0).
   *
   * @param {string} toolName
   * @param {() => Promise<unknown>} execute lets the page run the tool
   * @returns {Promise<unknown>} a CallToolResult
   */
  async callPolyfilled(toolName, execute) {
    this.forget(); // no event reports the page's changes
    const form = this.find(toolName);
    if (!form || form.hasAttribute("toolautosubmit")) return execute();
    const listening = new AbortController();
    const { signal } = listening;
    /** @type {PromiseWithResolvers<object>} */
    const { promise: filledIn, resolve } = Promise.withResolvers();
    let isSubmitted = false;
    form.addEventListener("submit", () => void (isSubmitted = true), { capture: true, signal });
    const onActivated = () => {
      // Listeners of the page have run by now, and may have submitted the form.
      if (!isSubmitted && findFocused(form)) resolve(makeWaitingResult(form));
    };
    window.addEventListener("toolactivated", onActivated, { signal });
    try {
      return await Promise.race([execute(), filledIn]);
    } finally {
      listening.abort();
    }
  }

  /**
   * @param {HTMLFormElement} form
   * @param {() => void} onFilledIn the browser leaves the form to the user
   * @param {AbortSignal} signal
   */
  #listenFilledIn(form, onFilledIn, signal) {
    if (form.hasAttribute("toolautosubmit")) return;
    const toolName = form.getAttribute("toolname");
    const onActivated = (/** @type {any} */ event) => {
      // Listeners of the page have run by now, and may have submitted the form.
      if (event.toolName === toolName && isWaiting(form)) onFilledIn();
    };
    for (const target of this.targets) target.addEventListener("toolactivated", onActivated, { signal });
  }

  /**
   * @param {HTMLFormElement} form
   * @param {Promise<unknown>} executing
   * @param {Promise<unknown>} filledIn
   * @returns {Promise<boolean>} false: the browser has run the tool
   */
  #waitAnswered(form, executing, filledIn) {
    /** @type {Execution} */
    const execution = { answered: Promise.resolve(false), isWaiting: false };
    const forget = () => {
      if (this.#executions.get(form) === execution) this.#executions.delete(form);
      return false;
    };
    const left = filledIn.then(() => (execution.isWaiting = true));
    execution.answered = Promise.race([executing.then(forget, forget), left]);
    this.#executions.set(form, execution);
    return execution.answered;
  }

  /** @param {HTMLFormElement} form @param {Execution} execution */
  async #end(form, execution) {
    await execution.answered;
    if (execution.isWaiting && this.#executions.get(form) === execution) this.#withdraw(form);
  }

  /**
   * End the browser's call of a form, whose values stay: a changed definition ends it, an aborted signal does not in
   * Chromium 150 (seen).
   *
   * @param {HTMLFormElement} form
   */
  #withdraw(form) {
    this.#executions.delete(form);
    const toolName = form.getAttribute("toolname");
    if (toolName === null) return;
    form.removeAttribute("toolname");
    form.setAttribute("toolname", toolName);
    this.onRedefined(toolName);
  }
}

/** @param {HTMLFormElement} form */
function isWaiting(form) {
  return MARKS_WAITING && form.matches(WAITING_FORM);
}

/**
 * @param {Document | ShadowRoot} root
 * @returns {HTMLFormElement[]} forms with a tool, those in shadow roots of custom elements included
 */
function findForms(root) {
  const hosts = [...root.children].flatMap(findCustomElements);
  const shadowRoots = hosts.map((host) => chrome.dom.openOrClosedShadowRoot(host)).filter((inner) => inner !== null);
  const forms = /** @type {NodeListOf<HTMLFormElement>} */ (root.querySelectorAll("form[toolname]"));
  return [...forms, ...shadowRoots.flatMap(findForms)];
}

/**
 * By XPath, which takes 3 ms for 50 000 elements; reading each of them from JavaScript takes 40 ms.
 *
 * @param {Element} element
 * @returns {HTMLElement[]}
 */
function findCustomElements(element) {
  const found = document.evaluate(CUSTOM_ELEMENTS, element, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE);
  const nodes = Array.from({ length: found.snapshotLength }, (_, index) => found.snapshotItem(index));
  return /** @type {HTMLElement[]} */ (nodes);
}

/** @param {HTMLFormElement} form @returns {HTMLElement | null} what has the focus in it */
function findFocused(form) {
  const { activeElement } = /** @type {Document | ShadowRoot} */ (form.getRootNode());
  return activeElement instanceof HTMLElement && form.contains(activeElement) ? activeElement : null;
}

/**
 * Result of a call whose form is filled in and waits for the user.
 *
 * @param {HTMLFormElement} form
 */
function makeWaitingResult(form) {
  const problems = findInvalidControls(form).map((control) => `${control.name}: ${control.validationMessage}`);
  if (problems.length > 0) {
    const reasons = [...problems, ...formatPatterns(form), NOT_SUBMITTED, IS_REPLACED].join(" ");
    return { ...textResult(`The form is filled in, but the browser will not submit it: ${reasons}`), isError: true };
  }
  const marked = /** @type {HTMLElement | null} */ (MARKS_WAITING ? form.querySelector(WAITING_BUTTON) : null);
  const button = marked ?? findFocused(form);
  const label = PageBounds.cut(button?.innerText.trim() ?? "", LABEL_BYTES);
  return textResult(
    `The form is filled in and waits for the user, who may change it and submits it${label && ` with “${label}”`}. ` +
      `${NOT_SUBMITTED} What the user does is not reported to this call: look at the page for it. ${IS_REPLACED}`,
  );
}

/**
 * Why the browser did not submit a form.
 *
 * @param {HTMLFormElement} form
 * @param {DOMException} error names each invalid value, and the parameter that cannot be filled in
 */
function formatRejection(form, error) {
  return [formatSentence(error.message), ...formatPatterns(form), NOT_SUBMITTED].join(" ");
}

/** What the browser does not say: which form a value must have. @param {HTMLFormElement} form */
function formatPatterns(form) {
  return findInvalidControls(form)
    .filter((control) => control.validity.patternMismatch)
    .map(({ name, pattern, title }) => `${name} must match ${pattern}.${title && ` ${formatSentence(title)}`}`);
}

/** @param {HTMLFormElement} form */
function findInvalidControls(form) {
  if (form.hasAttribute("novalidate")) return [];
  const root = /** @type {Document | ShadowRoot} */ (form.getRootNode());
  const controls = /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll(":invalid"));
  return [...controls].filter((control) => control.form === form && control.validationMessage);
}

/** A text with one period at its end; browsers write two. @param {string} text */
function formatSentence(text) {
  return `${text.replaceAll(".. ", ". ").replace(/[. ]+$/, "")}.`;
}
