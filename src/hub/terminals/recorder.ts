import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../../platform/logger.ts';
import type { TerminalSize } from '../../protocol/index.ts';
import type { TerminalRecordingPart } from '../ports.ts';

type RecordedEvent = TerminalRecordingPart['events'][number] & { text: string };

const PART_MS = 1000;
const PART_LENGTH = 64_000;
const RETRY_MS = 1000;
/** A terminal whose output cannot be recorded for this long ends. */
const PATIENCE_MS = 30_000;

interface Parts {
  /** `full`: the recording has reached its size, and the part was not stored. */
  store: (part: TerminalRecordingPart) => Promise<'stored' | 'full'>;
  /** The offset up to which the terminal was recorded before. */
  recordedTo: number;
  /** More of the output is recorded. */
  onRecorded: () => void;
  onFailed: (reason: 'recording_failed' | 'recording_full') => void;
  log: Logger;
}

/** Records the output of one terminal, in parts. What a person types is never recorded. */
export class Recorder {
  readonly #parts: Parts;
  #events: RecordedEvent[] = [];
  #length = 0;
  #seen: number;
  #recordedTo: number;
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  #failingSince: number | undefined;
  #isOver = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#seen = parts.recordedTo;
    this.#recordedTo = parts.recordedTo;
  }

  /** All characters before this one are in the database. */
  get recordedTo(): number {
    return this.#recordedTo;
  }

  /** Output that is recorded already is left out. What the agent has not kept is marked as missing. */
  output(offset: number, data: string): void {
    if (offset > this.#seen) {
      this.#add('m', `${offset - this.#seen} characters of output were not kept`);
      this.#seen = offset;
    }
    const fresh = data.slice(this.#seen - offset);
    if (fresh === '') return;
    this.#seen += fresh.length;
    this.#add('o', fresh);
  }

  resized({ cols, rows }: TerminalSize): void {
    this.#add('r', `${cols}x${rows}`);
  }

  mark(text: string): void {
    this.#add('m', text);
  }

  /**
   * Stores what there is; gives up when the database does not take it.
   * @param isContinued  another recorder has begun where the database ended, and is sent the same output
   */
  async close({ isContinued = false }: { isContinued?: boolean } = {}): Promise<void> {
    clock.clear(this.#timer);
    await this.#writing;
    this.#isOver = true;
    if (isContinued) return;
    if (this.#events.length > 0) await this.#write();
  }

  #add(code: RecordedEvent['code'], text: string): void {
    if (this.#isOver) return;
    const at = clock.now();
    const last = this.#events.at(-1);
    // A flood comes in many rows of one moment.
    if (code === 'o' && last?.code === 'o' && last.at === at) last.text += text;
    else this.#events.push({ at, code, text });
    this.#length += text.length;
    if (this.#length >= PART_LENGTH) this.#writeNow();
    else this.#writeIn(PART_MS);
  }

  #writeIn(ms: number): void {
    this.#timer ??= clock.setTimeout(() => this.#writeNow(), ms).unref();
  }

  #writeNow(): void {
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#isOver || this.#events.length === 0) return;
      if (this.#failingSince !== undefined) this.#writeIn(RETRY_MS);
      else if (this.#length >= PART_LENGTH) this.#writeNow();
      else this.#writeIn(PART_MS);
    });
  }

  async #write(): Promise<void> {
    const events = this.#events;
    const length = this.#length;
    const recordedTo = this.#seen;
    this.#events = [];
    this.#length = 0;
    try {
      if ((await this.#parts.store({ events, recordedTo })) === 'full') return this.#fail('recording_full');
      this.#recordedTo = recordedTo;
      this.#failingSince = undefined;
      this.#parts.onRecorded();
    } catch (error) {
      this.#events = [...events, ...this.#events];
      this.#length += length;
      if (this.#failingSince === undefined) this.#parts.log.warn({ err: error }, 'terminal.not_recorded');
      this.#failingSince ??= clock.monotonic();
      if (clock.monotonic() - this.#failingSince > PATIENCE_MS) this.#fail('recording_failed');
    }
  }

  #fail(reason: 'recording_failed' | 'recording_full'): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events = [];
    this.#parts.onFailed(reason);
  }
}
