import { clock, DAY_MS } from '../../clock.ts';
import { type CommandFrame, type CommandResult, secretRefsIn } from '../../protocol/index.ts';
import type { AnswerChannel } from '../core/answer-channel.ts';
import type { Journal, JournalRecord } from './journal-file.ts';

/** An accepted command whose result the hub does not have yet. */
export interface Entry {
  readonly id: string;
  readonly type: string;
  /** The epoch of the newest frame with this id. */
  epoch: number;
  /** Dropped when the command has ended. */
  payload: unknown;
  startedAt: string | undefined;
  result: CommandResult | undefined;
}

/** No command with this id is stored. */
const SELF_CHECK = 'self-check';
const KEEP_IDS_MS = 7 * DAY_MS;
const KEEP_IDS = 10_000;
const COMPACT_BYTES = 1_000_000;

/** The accepted commands, backed by the journal: a change takes effect when it is on disk. */
export class CommandStore {
  readonly #journal: Journal;
  readonly #now: () => number;
  /** In the order in which they were accepted. */
  readonly #entries = new Map<string, Entry>();
  /** The ids of delivered commands and the times of their delivery, the oldest first. */
  readonly #done = new Map<string, number>();
  readonly #keepIds: number;
  #compactAt = COMPACT_BYTES;

  /** @param options.now  the server's time: if the machine's clock were set ahead, all ids would expire at once */
  constructor(journal: Journal, options: { now?: () => number; keepIds?: number } = {}) {
    this.#journal = journal;
    this.#now = options.now ?? (() => clock.now());
    this.#keepIds = options.keepIds ?? KEEP_IDS;
  }

  /** Reads the journal, and returns the commands that were running. After damage, any unfinished one may have run. */
  async open(): Promise<{ interrupted: Entry[] }> {
    const { records, isDamaged } = await this.#journal.open();
    // Old ids are dropped with the next delivery, because the server's time is known by then.
    for (const record of records) this.#apply(record);
    // Accepted commands with secrets are confirmed only once they start, so these were not confirmed: they are sent
    // again.
    for (const { id, payload, startedAt, result } of this.entries()) {
      const isUnstarted = startedAt === undefined && result === undefined && !isDamaged;
      if (isUnstarted && secretRefsIn(payload).length > 0) this.#entries.delete(id);
    }
    const interrupted = this.entries().filter(
      ({ startedAt, result }) => result === undefined && (isDamaged || startedAt !== undefined),
    );
    // A damaged journal is replaced as soon as the caller has recorded the ends of these commands.
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

  /** Whether the hub has the result of this command. */
  isDone(id: string): boolean {
    return this.#done.has(id);
  }

  /** The command was sent again under a newer epoch, which its result must then carry. */
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

  /** For a result that cannot be written: it is still sent, and this process does not start the command again. */
  finishUnwritten(result: CommandResult): void {
    this.#apply({ kind: 'finished', result });
  }

  /** Records the delivery of the result. If that cannot be written, the result is sent once more after the next start. */
  async done(id: string): Promise<void> {
    const record = { kind: 'done', id, at: this.#now() } as const;
    this.#apply(record);
    this.#forgetOld();
    await this.#journal.write(record);
    await this.compactIfLarge();
  }

  /** Rejects if nothing can be written. The test record says that a command was delivered that never existed. */
  check(): Promise<void> {
    return this.done(SELF_CHECK);
  }

  async compactIfLarge(): Promise<void> {
    if (this.#journal.size <= this.#compactAt) return;
    // After a failure, the next attempt is made when the journal has doubled in size.
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
        // Moved to the end, because the ids are in the order of their times.
        this.#done.delete(record.id);
        this.#done.set(record.id, record.at);
    }
  }

  /** The fewest records that describe the current state. */
  #records(): JournalRecord[] {
    const records: JournalRecord[] = [...this.#done].map(([id, at]) => ({ kind: 'done', id, at }));
    for (const { id, type, payload, epoch, startedAt, result } of this.#entries.values()) {
      records.push({ kind: 'accepted', id, type, payload: result === undefined ? payload : null, epoch });
      if (startedAt !== undefined) records.push({ kind: 'started', id, at: startedAt });
      if (result !== undefined) records.push({ kind: 'finished', result });
    }
    return records;
  }

  /** The hub does not resend a command after days, and the journal must not grow without limit. */
  #forgetOld(): void {
    const oldest = this.#now() - KEEP_IDS_MS;
    for (const [id, at] of this.#done) {
      if (at >= oldest && this.#done.size <= this.#keepIds) return;
      this.#done.delete(id);
    }
  }
}

/** Sends results one after another until the hub has acknowledged them, over any number of connections. */
export class ResultOutbox {
  readonly #store: CommandStore;
  readonly #warn: (message: string) => void;
  #channel: AnswerChannel | undefined;
  /** Results that the hub has refused over this connection. They are sent again over the next one. */
  #refused = new Set<string>();
  #sending: AnswerChannel | undefined;
  readonly #awaited = new Map<string, () => void>();

  constructor(store: CommandStore, warn: (message: string) => void) {
    this.#store = store;
    this.#warn = warn;
  }

  attach(channel: AnswerChannel): void {
    this.#channel = channel;
    this.#refused = new Set();
    this.wake();
  }

  detach(): void {
    this.#channel = undefined;
  }

  /** Must be called when there may be a result to send. */
  wake(): void {
    const channel = this.#channel;
    if (channel === undefined || this.#sending === channel) return;
    this.#sending = channel;
    void this.#sendAll(channel).finally(() => {
      if (this.#sending === channel) this.#sending = undefined;
    });
  }

  /** The hub has sent the command again, so a refused result is sent again as well. */
  retry(id: string): void {
    this.#refused.delete(id);
    this.wake();
  }

  /** Resolves when the hub has acknowledged this result. */
  delivered(id: string): Promise<void> {
    return new Promise((resolve) => {
      this.#awaited.set(id, resolve);
    });
  }

  async #sendAll(channel: AnswerChannel): Promise<void> {
    for (;;) {
      const result = this.#store
        .entries()
        .find((entry) => entry.result !== undefined && !this.#refused.has(entry.id))?.result;
      if (result === undefined || this.#channel !== channel) return;
      try {
        await channel.result(result);
      } catch (error) {
        if (this.#channel !== channel) return;
        this.#refused.add(result.id);
        this.#warn(`The hub did not accept the result of command ${result.id}: ${String(error)}`);
        continue;
      }
      this.#awaited.get(result.id)?.();
      this.#awaited.delete(result.id);
      await this.#store.done(result.id).catch((error: unknown) => {
        this.#warn(`The journal of commands could not be written: ${String(error)}`);
      });
    }
  }
}
