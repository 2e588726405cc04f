/** Files for the page, in pieces: given to a file input, dropped on an element, or saved by the browser. */

/** @typedef {{transfer: string, name: string, mimeType?: string}} Sent */

/** Bytes that have arrived, by transfer.
 * @type {Map<string, {parts: Uint8Array<ArrayBuffer>[], size: number, isWhole: boolean}>} */
const transfers = new Map();

/** `chunk` is base64, whole groups of four in each. @param {{transfer: string, chunk: string, last?: boolean}} given */
function receivePiece({ transfer, chunk, last = false }) {
  const received = transfers.get(transfer) ?? { parts: [], size: 0, isWhole: false };
  const bytes = Uint8Array.from(atob(chunk), (char) => char.charCodeAt(0));
  received.parts.push(bytes);
  received.size += bytes.length;
  received.isWhole = last;
  transfers.set(transfer, received);
  return { size: received.size };
}

/** @param {string} transfer */
function bytesOf(transfer) {
  const received = transfers.get(transfer);
  if (!received?.isWhole) throw new Error(`the transfer ${transfer} has not arrived`);
  return received.parts;
}

/** @param {{ref?: number, x?: number, y?: number, files: Sent[]}} given */
async function giveFiles({ ref, x = 0, y = 0, files }) {
  const target = ref ? elementOf(ref) : elementAt(x, y);
  if (!target) throw failure("unfit", `Nothing is at ${x}, ${y}.`);
  const made = files.map(({ transfer, name, mimeType }) => new File(bytesOf(transfer), name, { type: mimeType ?? "" }));
  const carried = new DataTransfer();
  for (const file of made) carried.items.add(file);
  const input = fileInputOf(target);
  if (input) putInto(input, carried, made);
  else dropOn(target, carried, ref ? middleOf(outerRectOf(target)) : { x, y });
  for (const { transfer } of files) transfers.delete(transfer);
  await nextFrame();
  const taker = input ?? target;
  const accepted = input
    ? Array.from(input.files ?? [], (file) => cleaned(file.name, 200))
    : made.map((file) => file.name);
  const role = kindOf(taker);
  return {
    how: input ? "input" : "drop",
    accepted,
    role,
    name: nameOf(taker, role).text,
    shows: isConnected(taker) ? contentOf(taker, 200) : "",
  };
}

/** The input itself, that of a label, or the only one inside.
 * @param {Element} target @returns {HTMLInputElement | null} */
function fileInputOf(target) {
  const label = closest(target, "label");
  const inner = queryAll(target, "input[type=file]");
  const input = label instanceof HTMLLabelElement ? label.control : inner.length === 1 ? inner[0] : target;
  return input instanceof HTMLInputElement && input.type === "file" ? input : null;
}

/** @param {HTMLInputElement} input @param {DataTransfer} carried @param {File[]} files */
function putInto(input, carried, files) {
  if (isDisabled(input)) throw failure("disabled", `The ${inWords(input)} is disabled.`);
  if (files.length > 1 && !input.multiple)
    throw failure("unfit", `The ${inWords(input)} takes one file, not ${files.length}.`);
  const refused = files.find((file) => !isAccepted(file, input.accept));
  if (refused) {
    const what = `${quoted(refused.name, 200)} (${refused.type || "no type"})`;
    throw failure("unfit", `The ${inWords(input)} takes ${quoted(input.accept, 200)}, not ${what}.`);
  }
  input.files = carried.files;
  dispatch(input, new Event("input", { bubbles: true, composed: true }));
  dispatch(input, new Event("change", { bubbles: true }));
}

/** @param {File} file @param {string} accept as the attribute has it: `.png, image/*` */
function isAccepted(file, accept) {
  const wanted = accept
    .toLowerCase()
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
  const type = file.type.toLowerCase();
  return (
    !wanted.length ||
    wanted.some((one) => {
      if (one.startsWith(".")) return file.name.toLowerCase().endsWith(one);
      return one.endsWith("/*") ? type.startsWith(one.slice(0, -1)) : type === one;
    })
  );
}

/** Ends the drag like a user's: only an element that accepts the data receives the drop.
 * @param {Element} target @param {DataTransfer} carried @param {{x: number, y: number}} point */
function dropOn(target, carried, { x, y }) {
  const drag = (/** @type {string} */ type) =>
    new DragEvent(type, {
      bubbles: true,
      cancelable: true,
      composed: true,
      clientX: x,
      clientY: y,
      dataTransfer: carried,
    });
  dispatch(target, drag("dragenter"));
  if (dispatch(target, drag("dragover"))) {
    dispatch(target, drag("dragleave"));
    throw failure(
      "unfit",
      `The ${inWords(target)} takes no files: neither is it a file input nor does it let anything be dropped.`,
    );
  }
  dispatch(target, drag("drop"));
}

/** How long the browser may need to begin to save. */
const SAVE_MS = 60_000;

/** Saves through the browser, as a link with `download` does. @param {Sent} given */
function saveDownload({ transfer, name, mimeType = "application/octet-stream" }) {
  const file = new Blob(bytesOf(transfer), { type: mimeType });
  const url = URL.createObjectURL(file);
  const link = createIn(document, "a");
  if (!(link instanceof HTMLAnchorElement)) throw failure("unfit", "A document of this kind cannot save files.");
  link.href = url;
  link.download = name;
  clickOn(link);
  transfers.delete(transfer);
  setTimeout(() => URL.revokeObjectURL(url), SAVE_MS);
  return { size: file.size };
}
