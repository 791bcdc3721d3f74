import { createPublicKey, type KeyObject } from 'node:crypto';
import { chainOf, checksumOf, type SealedEntry } from './chain.ts';
import type { EntrySegment } from './entry-segment.ts';
import { type Checkpoint, checkpointHash, isSignedBy, type PublicKey } from './checkpoint.ts';

/** Checks one chain, entry by entry, without a database and without holding entries. */

export interface Fault {
  chainId: string;
  /** The place in the chain that it is about; null where it is about the chain as a whole. */
  seq: number | null;
  /** The entry that stands there, where one does. */
  id: string | null;
  reason: string;
}

export type TrustedKeys = ReadonlyMap<string, KeyObject>;

export const trustedKeys = (keys: readonly PublicKey[]): TrustedKeys =>
  new Map(keys.map(({ keyId, publicKey }) => [keyId, createPublicKey(publicKey)]));

/** What somebody signed or kept about an entry. */
interface Pin {
  seq: number;
  checksum: string;
  name: string;
  /** What is wrong with the pin itself. */
  fault: string | undefined;
}

export interface ChainClaims {
  chainId: string;
  /** The signed end of the chain; there must be one. */
  head: Checkpoint | undefined;
  /** By number. */
  checkpoints: readonly Checkpoint[];
  /** Only some of the checkpoints are given: each must be signed, but none must be there because the next one is. */
  someCheckpoints?: boolean;
  /** Of an earlier copy: what must still be there. */
  known?: readonly { seq: number; checksum: string }[];
}

export class ChainCheck {
  readonly #chainId: string;
  readonly #head: Checkpoint | undefined;
  readonly #pins: Pin[];
  #nextPin = 0;
  /** The place of the last entry, and its checksum. At first those of the anchor that pruning has left. */
  #seq: number;
  #checksum: string | null;
  #lastPinned: number;
  /** Nothing was read yet: only here may the link to the entry before be missing. */
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

  /** The first fault, once there is one. Nothing is looked at after it. */
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
    const reason = this.#whatIsWrong(entry);
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
   * The next entries, all at once, where nothing is to be said of any of them. Answers whether that is so: if not, none
   * was taken, and each must be added by itself.
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

  /** After the last entry. Answers the first fault of all. */
  end(): Fault | undefined {
    if (this.#fault !== undefined) return this.#fault;
    const last = this.#pins.at(-1);
    if (this.#head === undefined) this.#say(null, 'the signed head of the chain is missing');
    else if (last !== undefined && last.seq > this.#seq) {
      this.#say(last.seq, `${span(this.#seq + 1, last.seq)} missing at the end: ${last.name} names the last`);
    }
    return this.#fault;
  }

  #whatIsWrong(entry: SealedEntry): string | undefined {
    const expected = this.#seq + 1;
    if (!Number.isSafeInteger(entry.seq) || entry.seq < 1) return 'it has no place in the chain';
    if (entry.seq > expected) return `${span(expected, entry.seq - 1)} missing before it`;
    if (entry.seq < expected) {
      return this.#first
        ? 'it was pruned, or put in before the first entry'
        : 'another entry has the same place';
    }
    if (chainOf(entry) !== this.#chainId) return 'it belongs to another chain';
    // Pruning takes the link of the first entry it leaves; what stood there is in the signed cut.
    const linked =
      entry.prevChecksum === null && this.#first ? { ...entry, prevChecksum: this.#checksum } : entry;
    if (checksumOf(linked) !== entry.checksum) return 'its content is not what was sealed';
    if (linked.prevChecksum !== this.#checksum) return 'it does not follow the entry before it';
    if (this.#head !== undefined && entry.seq > this.#head.seq) return 'it stands behind the signed head';
    return undefined;
  }

  #passPins(seq: number, id: string | null = null): void {
    for (let pin = this.#pins[this.#nextPin]; pin !== undefined && pin.seq <= seq; ) {
      if (pin.fault !== undefined) this.#say(pin.seq, `${pin.name}: ${pin.fault}`, id);
      else if (pin.seq === seq && pin.checksum !== this.#checksum) {
        const since = `${span(this.#lastPinned + 1, seq)} rewritten`;
        this.#say(seq, `${since}: ${pin.name} has another checksum for the last`, id);
      }
      this.#lastPinned = pin.seq;
      pin = this.#pins[++this.#nextPin];
    }
  }

  #say(seq: number | null, reason: string, id: string | null = null): void {
    this.#fault ??= { chainId: this.#chainId, seq, id, reason };
  }
}

const span = (from: number, to: number) =>
  from === to ? `entry ${from} is` : `entries ${from} to ${to} are`;

/** Each checkpoint and the head, with what is wrong with it: its signature, or what it says of the one before. */
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
  // A head that was kept is the last checkpoint itself.
  const kept = checkpoints.at(-1)?.number === head.number;
  before = kept ? checkpoints.at(-2) : checkpoints.at(-1);
  return [...pins, pinOf(head, 'the signed head')];
}

function faultOf(checkpoint: Checkpoint, chainId: string, keys: TrustedKeys): string | undefined {
  if (checkpoint.chainId !== chainId) return 'it is of another chain';
  const key = keys.get(checkpoint.keyId);
  if (key === undefined) return `it is signed with the key ${checkpoint.keyId}, which is not trusted`;
  if (!isSignedBy(checkpoint, key)) return 'its signature is not valid';
  return undefined;
}

function gapBefore(checkpoint: Checkpoint, before: Checkpoint | undefined): string | undefined {
  if (checkpoint.number !== (before?.number ?? 0) + 1) return 'a checkpoint before it is missing';
  if (checkpoint.previous !== (before === undefined ? null : checkpointHash(before))) {
    return 'it does not follow the checkpoint before it';
  }
  return undefined;
}
