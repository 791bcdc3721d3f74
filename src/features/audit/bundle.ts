import { z } from 'zod';
import { type EntrySegment, SealedEntry, Checkpoint, PublicKey } from './chain.ts';
import { ChainCheck, type Fault, trustedKeys } from './chain-check.ts';

/**
 * The file format of an exported chain: JSON lines in the order header, public keys, checkpoints, entries by `seq`.
 * This file must not import database code: bundles are verified without one.
 */
const Header = z.strictObject({
  type: z.literal('muster-audit-bundle'),
  v: z.literal(1),
  chainId: z.string(),
  exportedAt: z.string(),
  /**
   * The signed end of the chain, without which a truncated copy would look complete. If it is a `cut`, the bundle is an
   * archive of the entries pruned up to there; its only checkpoint is the previous cut.
   */
  head: Checkpoint.nullable(),
});
export type Header = z.infer<typeof Header>;

const KeyLine = PublicKey.extend({ type: z.literal('key') });
const CheckpointLine = Checkpoint.extend({ type: z.literal('checkpoint') });
const EntryLine = SealedEntry.extend({ type: z.literal('entry') });

export const headerLine = (header: Omit<Header, 'type' | 'v'>): string =>
  JSON.stringify({ type: 'muster-audit-bundle', v: 1, ...header } satisfies Header);
export const keyLine = (key: PublicKey): string => JSON.stringify({ type: 'key', ...key });
export const checkpointLine = (checkpoint: Checkpoint): string =>
  JSON.stringify({ type: 'checkpoint', ...checkpoint });
export const entryLine = (entry: SealedEntry): string => JSON.stringify({ type: 'entry', ...entry });

/** The entry in a line of a bundle; undefined if `BundleReader` would reject the line. */
export function entryFromBundleLine(line: Buffer): SealedEntry | undefined {
  try {
    return EntryLine.safeParse(JSON.parse(line.toString())).data;
  } catch {
    return undefined;
  }
}

/** The file is not a bundle, or cannot be parsed. */
export class BundleError extends Error {}

export interface BundleReport {
  chainId: string;
  entries: number;
  checkpoints: number;
  fault: Fault | undefined;
  /** Whether the bundle archives pruned entries instead of holding a chain. */
  isArchive: boolean;
  /** The keys of the bundle that were trusted. */
  keys: PublicKey[];
  /** The end of the chain that the bundle proves; later bundles must still contain it. */
  head: Checkpoint | undefined;
}

export interface BundleTrust {
  /** The keys to trust. If absent, the bundle's own keys are used and people must compare their fingerprints. */
  keys?: readonly PublicKey[];
  /** Pins that an earlier bundle of the chain proved. */
  known?: readonly { seq: number; checksum: string }[];
}

/** Parses and verifies a bundle line by line. */
export class BundleReader {
  readonly #trust: BundleTrust;
  #header: Header | undefined;
  readonly #keys: PublicKey[] = [];
  readonly #checkpoints: Checkpoint[] = [];
  #check: ChainCheck | undefined;
  #line = 0;

  constructor(trust: BundleTrust = {}) {
    this.#trust = trust;
  }

  line(text: string): void {
    this.#line++;
    const value = this.#json(text);
    if (this.#header === undefined) this.#header = this.#parsed(Header, value);
    else if (typeOf(value) === 'entry') {
      // The extra `type` stays: removing it would copy each entry.
      this.#started().add(this.#parsed(EntryLine, value));
    } else if (this.#check !== undefined) this.#refuse('only entries may follow the first entry');
    else if (typeOf(value) === 'key') {
      const { type: _type, ...key } = this.#parsed(KeyLine, value);
      this.#keys.push(key);
    } else {
      const { type: _type, ...checkpoint } = this.#parsed(CheckpointLine, value);
      this.#checkpoints.push(checkpoint);
    }
  }

  /** Adds the entries of the next lines at once, if `ChainCheck` accepts them; otherwise pass each line to `line`. */
  segment(segment: EntrySegment): boolean {
    if (this.#header === undefined || !this.#started().addSegment(segment)) return false;
    this.#line += segment.count;
    return true;
  }

  end(): BundleReport {
    if (this.#header === undefined) throw new BundleError('The file is empty.');
    const check = this.#started();
    return {
      chainId: this.#header.chainId,
      entries: check.count,
      checkpoints: this.#checkpoints.length,
      fault: check.end(),
      isArchive: this.#header.head?.kind === 'cut',
      keys: [...(this.#trust.keys ?? this.#keys)],
      head: this.#header.head ?? undefined,
    };
  }

  #started(): ChainCheck {
    if (this.#check !== undefined) return this.#check;
    if (this.#header === undefined) throw new BundleError('The file has no header.');
    const { chainId, head } = this.#header;
    this.#check = new ChainCheck(
      {
        chainId,
        head: head ?? undefined,
        checkpoints: this.#checkpoints,
        // The cut at the end of an archive pins all of its entries, so other checkpoints are not needed.
        someCheckpoints: head?.kind === 'cut',
        known: this.#trust.known ?? [],
      },
      trustedKeys(this.#trust.keys ?? this.#keys),
    );
    return this.#check;
  }

  #json(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return this.#refuse('it is not valid JSON');
    }
  }

  #parsed<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    const issue = result.error.issues[0];
    return this.#refuse(`${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not valid'}`.trim());
  }

  #refuse(reason: string): never {
    throw new BundleError(`Line ${this.#line} is not part of an audit bundle: ${reason}`);
  }
}

const typeOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'type' in value ? value.type : undefined;
