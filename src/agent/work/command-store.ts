import type { CommandFrame, CommandResult } from '../../protocol/index.ts';
import type { Journal } from './journal-file.ts';
import type { JournalRecord } from './journal-line.ts';

/** Work that was accepted and whose result the hub does not have yet. */
export interface Entry {
  readonly id: string;
  readonly type: string;
  /** Of the newest frame with this id. */
  epoch: number;
  /** Dropped when the work is over. */
  payload: unknown;
  startedAt: string | undefined;
  result: CommandResult | undefined;
}

const DAY_MS = 86_400_000;
const KEEP_IDS_MS = 7 * DAY_MS;
const KEEP_IDS = 10_000;
const COMPACT_BYTES = 1_000_000;

/** What the agent has accepted, as the journal has it: a change counts when it is written. */
export class CommandStore {
  readonly #journal: Journal;
  readonly #now: () => number;
  /** In the order accepted. */
  readonly #entries = new Map<string, Entry>();
  /** Ids of what is over, the oldest first, with the moment it ended. */
  readonly #done = new Map<string, number>();
  readonly #keepIds: number;
  #compactAt = COMPACT_BYTES;

  /** @param options.now  the server's time: by a machine's clock that was set ahead, all ids would be old at once */
  constructor(journal: Journal, options: { now?: () => number; keepIds?: number } = {}) {
    this.#journal = journal;
    this.#now = options.now ?? Date.now;
    this.#keepIds = options.keepIds ?? KEEP_IDS;
  }

  /** Work that had begun when the agent ended has no result; after damage nobody knows what had begun. */
  async open(): Promise<{ interrupted: Entry[] }> {
    const { records, isDamaged } = await this.#journal.open();
    // Old ids are forgotten with the next one that is done: by then the server has told what time it is.
    for (const record of records) this.#apply(record);
    const interrupted = this.entries().filter(
      ({ startedAt, result }) => result === undefined && (isDamaged || startedAt !== undefined),
    );
    // A damaged journal is replaced as soon as the caller has said how these ended.
    if (isDamaged) this.#compactAt = -1;
    return { interrupted };
  }

  close(): Promise<void> {
    return this.#journal.close();
  }

  entries(): Entry[] {
    return [...this.#entries.values()];
  }

  get openCount(): number {
    return this.#entries.size;
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  /** Whether this id is over and the hub has its result. */
  isDone(id: string): boolean {
    return this.#done.has(id);
  }

  /** The same work came again under a newer claim: its result is told under that one. */
  renew(entry: Entry, epoch: number): void {
    entry.epoch = epoch;
    if (entry.result !== undefined) entry.result = { ...entry.result, epoch };
  }

  async accept({ id, type, payload, epoch }: CommandFrame): Promise<void> {
    await this.#write({ kind: 'accepted', id, type, payload, epoch });
  }

  async start(id: string, at: string): Promise<void> {
    await this.#write({ kind: 'started', id, at });
  }

  async finish(result: CommandResult): Promise<void> {
    await this.#write({ kind: 'finished', result });
  }

  /** For a result that cannot be written: it is still sent, and the work is not begun again by this process. */
  finishUnwritten(result: CommandResult): void {
    this.#apply({ kind: 'finished', result });
  }

  /** The hub has the result. Where that cannot be written, it is sent once more after the next start. */
  async done(id: string): Promise<void> {
    const record = { kind: 'done', id, at: this.#now() } as const;
    this.#apply(record);
    this.#forgetOld();
    await this.#journal.write(record);
    await this.compactIfLarge();
  }

  async compactIfLarge(): Promise<void> {
    if (this.#journal.size <= this.#compactAt) return;
    // Where it fails, the next try is when the journal has grown as much again.
    this.#compactAt = 2 * this.#journal.size;
    await this.#journal.replace(() => this.#records());
    this.#compactAt = Math.max(COMPACT_BYTES, 2 * this.#journal.size);
  }

  async #write(record: JournalRecord): Promise<void> {
    await this.#journal.write(record, () => this.#apply(record));
  }

  #apply(record: JournalRecord): void {
    switch (record.kind) {
      case 'accepted': {
        const { id, type, payload, epoch } = record;
        if (this.#entries.has(id) || this.#done.has(id)) return;
        this.#entries.set(id, { id, type, epoch, payload, startedAt: undefined, result: undefined });
        return;
      }
      case 'started': {
        const entry = this.#entries.get(record.id);
        if (entry !== undefined) entry.startedAt = record.at;
        return;
      }
      case 'finished': {
        const entry = this.#entries.get(record.result.id);
        if (entry === undefined) return;
        entry.result ??= record.result;
        entry.payload = undefined;
        return;
      }
      case 'done':
        this.#entries.delete(record.id);
        this.#done.set(record.id, record.at);
    }
  }

  /** The fewest records that say the same. */
  #records(): JournalRecord[] {
    const records: JournalRecord[] = [...this.#done].map(([id, at]) => ({ kind: 'done', id, at }));
    for (const { id, type, payload, epoch, startedAt, result } of this.#entries.values()) {
      records.push({ kind: 'accepted', id, type, payload: result === undefined ? payload : null, epoch });
      if (startedAt !== undefined) records.push({ kind: 'started', id, at: startedAt });
      if (result !== undefined) records.push({ kind: 'finished', result });
    }
    return records;
  }

  /** The hub sends nothing again after days; and a journal must not grow for ever. */
  #forgetOld(): void {
    const oldest = this.#now() - KEEP_IDS_MS;
    for (const [id, at] of this.#done) {
      if (at >= oldest && this.#done.size <= this.#keepIds) return;
      this.#done.delete(id);
    }
  }
}
