/**
 * Reassembly of messages that were too long for one native message. Memory is allocated only for bytes that have
 * arrived, never for a declared length: at most `CHUNKED_BYTES` for each of `TRANSFERS`.
 *
 * Has no clock: its caller calls `abandon` when a transfer has taken `CHUNK_SECONDS`.
 */

const CHUNKED_BYTES = 64 * 1024 * 1024;
const CHUNK_BYTES = 512 * 1024;
const TRANSFERS = 4;
export const CHUNK_SECONDS = 30;

/** A transfer cannot be completed; `transfer` is forgotten. */
export class ChunkError extends Error {
  /**
   * @param {number} transfer
   * @param {string} reason
   */
  constructor(transfer, reason) {
    super(reason);
    this.transfer = transfer;
  }
}

/** @typedef {{ transfer: number, seq: number, last: boolean, bytes?: number, data: string }} Chunk */

export class Joiner {
  /** @type {Map<number, { pieces: Uint8Array<ArrayBuffer>[], held: number, declared: number }>} */
  #transfers = new Map();

  /** Whether pieces of this transfer are held. @param {number} transfer */
  holds(transfer) {
    return this.#transfers.has(transfer);
  }

  /** Forget a transfer. @param {number} transfer */
  abandon(transfer) {
    this.#transfers.delete(transfer);
  }

  /**
   * Take a piece.
   *
   * @param {Chunk} chunk
   * @returns {unknown} the whole body, decoded, with its last piece; undefined before
   * @throws {ChunkError} a gap, too much, or a body that is no JSON
   */
  feed(chunk) {
    try {
      return this.#take(chunk);
    } catch (error) {
      this.abandon(chunk.transfer);
      throw new ChunkError(chunk.transfer, error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {Chunk} chunk */
  #take({ transfer, seq, last, bytes, data }) {
    if (seq === 0) this.#begin(transfer, bytes);
    const held = this.#transfers.get(transfer);
    if (!held || held.pieces.length !== seq) {
      throw new Error(`piece ${seq} came where piece ${held?.pieces.length ?? 0} was due`);
    }
    if (data.length > Math.ceil(CHUNK_BYTES / 3) * 4) throw new Error(`a piece is over ${CHUNK_BYTES} bytes`);
    const piece = fromBase64(data);
    held.pieces.push(piece);
    held.held += piece.length;
    if (held.held > held.declared) throw new Error(`more than the ${held.declared} bytes that were announced`);
    if (!last) return undefined;
    if (held.held < held.declared) throw new Error(`${held.held} of ${held.declared} bytes came`);
    this.abandon(transfer);
    return JSON.parse(joined(held.pieces, held.held));
  }

  /**
   * @param {number} transfer
   * @param {number | undefined} bytes
   */
  #begin(transfer, bytes) {
    if (this.#transfers.has(transfer)) throw new Error("this transfer has already begun");
    if (this.#transfers.size >= TRANSFERS) throw new Error(`more than ${TRANSFERS} transfers at once`);
    if (!Number.isInteger(bytes) || Number(bytes) > CHUNKED_BYTES) {
      throw new Error(`${bytes} bytes announced, at most ${CHUNKED_BYTES} are taken`);
    }
    this.#transfers.set(transfer, { pieces: [], held: 0, declared: Number(bytes) });
  }
}

/** @param {string} text */
function fromBase64(text) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const binary = atob(text); // before Chrome 140
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

/**
 * @param {Uint8Array<ArrayBuffer>[]} pieces
 * @param {number} bytes
 */
function joined(pieces, bytes) {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(whole);
}
