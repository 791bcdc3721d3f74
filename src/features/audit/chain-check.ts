import { createPublicKey, type KeyObject } from 'node:crypto';
import {
  chainOf,
  checksumOf,
  type SealedEntry,
  type EntrySegment,
  type Checkpoint,
  checkpointHash,
  isSignedBy,
  type PublicKey,
} from './chain.ts';

/** Verifies one chain entry by entry, without a database and in constant memory. */

export interface Fault {
  chainId: string;
  /** The position in the chain; null if the fault concerns the whole chain. */
  seq: number | null;
  /** The id of the entry at that position, if there is one. */
  id: string | null;
  reason: string;
}

export type TrustedKeys = ReadonlyMap<string, KeyObject>;

export const trustedKeys = (keys: readonly PublicKey[]): TrustedKeys =>
  new Map(keys.map(({ keyId, publicKey }) => [keyId, createPublicKey(publicKey)]));

/** A known checksum of one entry, from a signature or an earlier copy. */
interface Pin {
  seq: number;
  checksum: string;
  name: string;
  /** Why the pin itself is invalid. */
  fault: string | undefined;
}

export interface ChainClaims {
  chainId: string;
  /** The signed end of the chain; there must be one. */
  head: Checkpoint | undefined;
  /** By number. */
  checkpoints: readonly Checkpoint[];
  /** The list of checkpoints is partial: each must be signed, but gaps between them are allowed. */
  someCheckpoints?: boolean;
  /** Pins from an earlier copy, which must still hold. */
  known?: readonly { seq: number; checksum: string }[];
}

export class ChainCheck {
  readonly #chainId: string;
  readonly #head: Checkpoint | undefined;
  readonly #pins: Pin[];
  #nextPin = 0;
  /** Position and checksum of the last entry; initially those of the latest cut. */
  #seq: number;
  #checksum: string | null;
  #lastPinned: number;
  /** No entry was added yet: only the first one may lack the link to its predecessor. */
  #first = true;
  #count = 0;
  #fault: Fault | undefined;

  constructor(claims: ChainClaims, keys: TrustedKeys) {
    const { chainId, head, checkpoints, known = [] } = claims;
    this.#chainId = chainId;
    this.#head = head;
    const cut = checkpoints.findLast(({ kind }) => kind === 'cut');
    this.#seq = cut?.seq ?? 0;
    this.#checksum = cut?.checksum ?? null;
    this.#lastPinned = this.#seq;
    this.#pins = [
      ...signedPins(claims, keys),
      ...known.map((pin) => ({ ...pin, name: 'the earlier copy', fault: undefined })),
    ].sort((a, b) => a.seq - b.seq);
    this.#passPins(this.#seq);
  }

  /** The first fault found. Later entries are not checked. */
  get fault(): Fault | undefined {
    return this.#fault;
  }

  get count(): number {
    return this.#count;
  }

  /** The next entry, in the order of `seq`. */
  add(entry: SealedEntry): void {
    if (this.#fault !== undefined) return;
    this.#count++;
    const reason = this.#faultIn(entry);
    if (reason !== undefined) {
      this.#fault = { chainId: this.#chainId, seq: entry.seq, id: entry.id, reason };
      return;
    }
    this.#seq = entry.seq;
    this.#checksum = entry.checksum;
    this.#first = false;
    const pin = this.#pins[this.#nextPin];
    if (pin !== undefined && pin.seq === entry.seq) this.#passPins(entry.seq, entry.id);
  }

  /**
   * Adds the next entries all at once if none of them has a fault. Otherwise it returns false and adds none; the caller
   * must then add each of them with `add`, which finds the fault.
   */
  addSegment({ first, count, checksums }: EntrySegment): boolean {
    if (this.#fault !== undefined) return true;
    const last = first.seq + count - 1;
    const follows =
      first.seq === this.#seq + 1 &&
      first.prevChecksum === this.#checksum &&
      chainOf(first) === this.#chainId;
    if (!follows || (this.#head !== undefined && last > this.#head.seq)) return false;

    const checksumAt = (seq: number) => checksums.slice((seq - first.seq) * 64, (seq - first.seq + 1) * 64);
    const pins = this.#pins.slice(this.#nextPin).filter(({ seq }) => seq <= last);
    if (pins.some((pin) => pin.fault !== undefined || pin.checksum !== checksumAt(pin.seq))) return false;

    this.#count += count;
    this.#seq = last;
    this.#checksum = checksumAt(last);
    this.#first = false;
    this.#nextPin += pins.length;
    this.#lastPinned = pins.at(-1)?.seq ?? this.#lastPinned;
    return true;
  }

  /** Call it after the last entry. Returns the first fault of the chain. */
  end(): Fault | undefined {
    if (this.#fault !== undefined) return this.#fault;
    const last = this.#pins.at(-1);
    if (this.#head === undefined) this.#report(null, 'the signed head of the chain is missing');
    else if (last !== undefined && last.seq > this.#seq) {
      this.#report(
        last.seq,
        `${span(this.#seq + 1, last.seq)} missing at the end: ${last.name} names the last one`,
      );
    }
    return this.#fault;
  }

  #faultIn(entry: SealedEntry): string | undefined {
    const expected = this.#seq + 1;
    if (!Number.isSafeInteger(entry.seq) || entry.seq < 1) return 'its sequence number is not valid';
    if (entry.seq > expected) return `${span(expected, entry.seq - 1)} missing before it`;
    if (entry.seq < expected) {
      return this.#first
        ? 'it was already pruned, or was inserted before the first entry'
        : 'another entry has the same sequence number';
    }
    if (chainOf(entry) !== this.#chainId) return 'it belongs to another chain';
    // Pruning clears the link of the first remaining entry; the signed cut holds its previous value.
    const linked =
      entry.prevChecksum === null && this.#first ? { ...entry, prevChecksum: this.#checksum } : entry;
    if (checksumOf(linked) !== entry.checksum) return 'its content does not match its checksum';
    if (linked.prevChecksum !== this.#checksum) return 'it does not link to the previous entry';
    if (this.#head !== undefined && entry.seq > this.#head.seq) return 'it comes after the signed head';
    return undefined;
  }

  #passPins(seq: number, id: string | null = null): void {
    for (let pin = this.#pins[this.#nextPin]; pin !== undefined && pin.seq <= seq; ) {
      if (pin.fault !== undefined) this.#report(pin.seq, `${pin.name}: ${pin.fault}`, id);
      else if (pin.seq === seq && pin.checksum !== this.#checksum) {
        const rewritten = `${span(this.#lastPinned + 1, seq)} rewritten`;
        this.#report(seq, `${rewritten}: ${pin.name} has another checksum for the last one`, id);
      }
      this.#lastPinned = pin.seq;
      pin = this.#pins[++this.#nextPin];
    }
  }

  #report(seq: number | null, reason: string, id: string | null = null): void {
    this.#fault ??= { chainId: this.#chainId, seq, id, reason };
  }
}

const span = (from: number, to: number) =>
  from === to ? `entry ${from} is` : `entries ${from} to ${to} are`;

/** Pins from the checkpoints and the head, each with its own fault: a bad signature or a gap before it. */
function signedPins(
  { chainId, head, checkpoints, someCheckpoints = false }: ChainClaims,
  keys: TrustedKeys,
): Pin[] {
  let before: Checkpoint | undefined;
  const pinOf = (checkpoint: Checkpoint, name: string): Pin => {
    const fault =
      faultOf(checkpoint, chainId, keys) ?? (someCheckpoints ? undefined : gapBefore(checkpoint, before));
    return { seq: checkpoint.seq, checksum: checkpoint.checksum, name, fault };
  };
  const pins = checkpoints.map((checkpoint) => {
    const pin = pinOf(checkpoint, `checkpoint ${checkpoint.number}`);
    before = checkpoint;
    return pin;
  });
  if (head === undefined) return pins;
  // If the head was kept as a checkpoint, it is the last one in the list.
  const kept = checkpoints.at(-1)?.number === head.number;
  before = kept ? checkpoints.at(-2) : checkpoints.at(-1);
  return [...pins, pinOf(head, 'the signed head')];
}

function faultOf(checkpoint: Checkpoint, chainId: string, keys: TrustedKeys): string | undefined {
  if (checkpoint.chainId !== chainId) return 'it belongs to another chain';
  const key = keys.get(checkpoint.keyId);
  if (key === undefined) return `it is signed with the key ${checkpoint.keyId}, which is not trusted`;
  if (!isSignedBy(checkpoint, key)) return 'its signature is not valid';
  return undefined;
}

function gapBefore(checkpoint: Checkpoint, before: Checkpoint | undefined): string | undefined {
  if (checkpoint.number !== (before?.number ?? 0) + 1) return 'the checkpoint before it is missing';
  if (checkpoint.previous !== (before === undefined ? null : checkpointHash(before))) {
    return 'it does not link to the previous checkpoint';
  }
  return undefined;
}
