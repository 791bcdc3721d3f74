import { z } from 'zod';
import type { EntrySegment } from './entry-segment.ts';
import { SealedEntry } from './chain.ts';
import { ChainCheck, type Fault, trustedKeys } from './chain-check.ts';
import { Checkpoint, PublicKey } from './checkpoint.ts';

/**
 * A chain to take away: JSON lines, in this order: the header, the public keys, the checkpoints, the entries by `seq`.
 * Nothing in here knows of a database.
 */
const Header = z.strictObject({
  type: z.literal('muster-audit-bundle'),
  v: z.literal(1),
  chainId: z.string(),
  exportedAt: z.string(),
  /**
   * The signed end of the chain, without which a shortened copy would look whole. A `cut`: the bundle is an archive, of
   * what was removed from the chain up to there. It has the cut before it and no other checkpoint.
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

/** The entry of a line, as `BundleReader` would take it; none where it would not. */
export function entryFromBundleLine(line: Buffer): SealedEntry | undefined {
  try {
    return EntryLine.safeParse(JSON.parse(line.toString())).data;
  } catch {
    return undefined;
  }
}

/** The file is no bundle, or damaged beyond telling what it says. */
export class BundleError extends Error {}

export interface BundleReport {
  chainId: string;
  entries: number;
  checkpoints: number;
  fault: Fault | undefined;
  /** Whether it is of entries that were removed from their chain, and not of the chain. */
  isArchive: boolean;
  /** The keys of the bundle that were trusted. */
  keys: PublicKey[];
  /** The end it proves: what a later bundle of the chain must still have. */
  head: Checkpoint | undefined;
}

export interface BundleTrust {
  /** The keys to trust; absent: those that the bundle brings, for whoever compares their fingerprints. */
  keys?: readonly PublicKey[];
  /** What an earlier bundle of the chain proved. */
  known?: readonly { seq: number; checksum: string }[];
}

/** Reads a bundle line by line. Whoever has lines has the file: `lines` is anything that gives them. */
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
      // With its type: without it, each entry would be copied.
      this.#started().add(this.#parsed(EntryLine, value));
    } else if (this.#check !== undefined) this.#refuse('only entries come after the first entry');
    else if (typeOf(value) === 'key') {
      const { type: _type, ...key } = this.#parsed(KeyLine, value);
      this.#keys.push(key);
    } else {
      const { type: _type, ...checkpoint } = this.#parsed(CheckpointLine, value);
      this.#checkpoints.push(checkpoint);
    }
  }

  /** The entries of the next lines, as `ChainCheck` takes them; it too may want each line by itself. */
  run(run: EntrySegment): boolean {
    if (this.#header === undefined || !this.#started().addSegment(run)) return false;
    this.#line += run.count;
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
        // The cut at its end pins every entry. Checkpoints between the two cuts are mostly about entries after it.
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
      return this.#refuse('it is not JSON');
    }
  }

  #parsed<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    const issue = result.error.issues[0];
    return this.#refuse(`${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not right'}`.trim());
  }

  #refuse(reason: string): never {
    throw new BundleError(`Line ${this.#line} is not of an audit bundle: ${reason}`);
  }
}

const typeOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'type' in value ? value.type : undefined;
