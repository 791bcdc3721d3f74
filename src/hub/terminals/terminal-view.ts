import { clock, type Timer } from '../../clock.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import {
  TERMINAL_INPUT_WINDOW,
  TERMINAL_WINDOW,
  type CommandOutput,
  type CommandRow,
  type TerminalClosed,
  type TerminalEnd,
  type TerminalInput,
  type TerminalOutput,
  type TerminalSize,
} from '../../protocol/index.ts';
import {
  liveQueryError,
  type LiveQueryOutcome,
  type RunLiveQuery,
  type SendTerminalControl,
} from '../device/live-query.ts';
import type { Recorder } from './recorder.ts';

type Attached = Extract<CommandRow<'terminal.open'>, { kind: 'attached' }>;
type Output = Extract<CommandRow<'terminal.open'>, { kind: 'output' }>;
type Outcome = LiveQueryOutcome<'terminal.open'>;

/** How a viewer's part in a terminal ends. `detached`: the terminal waits for a viewer, and may be continued. */
export type ViewEnd =
  | { kind: 'ended'; reason: TerminalEnd; exitCode: number | null }
  | { kind: 'detached'; reason: 'disconnected' | 'replaced' };

export interface TerminalClient {
  output(message: TerminalOutput): void;
  closed(message: TerminalClosed): void;
}

/** The device is told this often that the terminal has its viewer: more often than the lease of a viewer lasts. */
const KEEP_MS = 20_000;
const ATTACH_MS = 15_000;
/** A flood is confirmed this often, which limits it to the window in this time. Slow output is confirmed with the next. */
const CONFIRM_MS = 50;
/** How long the device may take to end a terminal, and a viewer that has gone is still recorded. */
const END_MS = 3000;

interface Parts {
  terminalId: string;
  deviceId: string;
  query: RunLiveQuery;
  recorder: Recorder;
  client: TerminalClient;
  onEnd: (end: ViewEnd) => void;
}

/**
 * One dashboard's view of one terminal: output from the device to the recorder and the client, input the other way, each
 * within its window. The device is believed nothing: output that is not in order, or more than the window allows, ends it.
 */
export class TerminalView {
  readonly #parts: Parts;
  readonly #controller = new AbortController();
  #control: SendTerminalControl | undefined;
  #attached: ((row: Attached) => void) | undefined;
  #client: TerminalClient | undefined;
  /** Output that came before the client knows the terminal. */
  #early: TerminalOutput[] | undefined = [];
  /** The offset of the next output. */
  #next = 0;
  /** The client has output before this offset already. */
  #clientHas = 0;
  #clientTaken = 0;
  #confirmed = 0;
  #input = 0;
  #received = 0;
  #confirmTimer: Timer | undefined;
  #keepTimer: Timer | undefined;
  #endTimer: Timer | undefined;
  #decided: ViewEnd | undefined;
  #isOver = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#client = parts.client;
  }

  get deviceId(): string {
    return this.#parts.deviceId;
  }

  /** Resolves when the device shows the terminal. Throws why it does not. */
  async begin(start: {
    isNew: boolean;
    size: TerminalSize;
    viewer: string;
    /** How many characters of output the client has. */
    after: number;
  }): Promise<Attached> {
    const { query, deviceId, terminalId, recorder } = this.#parts;
    const { size, isNew, viewer, after } = start;
    this.#clientHas = after;
    const attached = new Promise<Attached>((resolve) => (this.#attached = resolve));
    const late = clock.setTimeout(() => this.#controller.abort(), ATTACH_MS);
    const ended = query(deviceId, {
      type: 'terminal.open',
      // What the client has and the recording lacks is sent once more.
      payload: { terminalId, ...size, isNew, viewer, after: Math.min(after, recorder.recordedTo) },
      maxRows: Number.MAX_SAFE_INTEGER,
      onRows: (rows) => this.#onRows(rows),
      signal: this.#controller.signal,
      onRoute: (control) => (this.#control = control),
    });
    const first = await Promise.race([attached, ended]);
    clock.clear(late);
    if (!('kind' in first)) throw failureOf(first);
    this.#keepTimer = clock.setInterval(() => this.#send({}), KEEP_MS).unref();
    // The answer with the id of the terminal goes first.
    setImmediate(() => {
      for (const message of this.#early ?? []) this.#client?.output(message);
      this.#early = undefined;
      void ended.then((outcome) => this.#onOutcome(outcome));
    });
    return { ...first, offset: Math.max(first.offset, after) };
  }

  /** Throws `device_busy` for input that the shell has no room for, `not_found` when the terminal is ending. */
  input({ data, taken }: TerminalInput): void {
    if (this.#decided !== undefined) throw notFound('Terminal');
    if (taken !== undefined && taken <= this.#next) this.#clientTaken = Math.max(this.#clientTaken, taken);
    if (data !== undefined && data !== '') {
      if (this.#input + data.length - this.#received > TERMINAL_INPUT_WINDOW) {
        throw new AppError('device_busy', 'The program in the terminal does not read its input.');
      }
      this.#input += data.length;
      this.#send({ input: data });
    } else this.#confirmSoon();
  }

  resize(size: TerminalSize): void {
    if (this.#decided !== undefined) throw notFound('Terminal');
    this.#parts.recorder.resized(size);
    this.#send({ size });
  }

  /** Ends the terminal on the device. The client learns that it has ended. */
  end(reason: TerminalEnd): void {
    if (this.#isOver) return;
    // A viewer that has gone may lose its right in the next moment.
    const end: ViewEnd =
      this.#decided?.kind === 'ended' ? this.#decided : { kind: 'ended', reason, exitCode: null };
    this.#decided = end;
    this.#send({ end: true });
    this.#finishSoon();
    // Whoever may not view it any more sees nothing more of it. The rest is recorded.
    if (reason !== 'closed') this.#tellClient(end);
  }

  /** The client has gone. What the terminal shows in the next moment is still recorded; then it waits for a viewer. */
  leave(): void {
    if (this.#isOver) return;
    this.#client = undefined;
    this.#decided ??= { kind: 'detached', reason: 'disconnected' };
    this.#finishSoon();
  }

  recorded(): void {
    this.#confirmSoon();
  }

  #finishSoon(): void {
    this.#endTimer ??= clock.setTimeout(() => this.#controller.abort(), END_MS);
  }

  #onRows(rows: readonly CommandRow<'terminal.open'>[]): void {
    for (const row of rows) {
      if (row.kind === 'output') this.#onOutput(row);
      else if (this.#attached === undefined) this.#violated();
      else {
        this.#attached(row);
        this.#attached = undefined;
        this.#next = row.offset;
        this.#confirmed = row.offset;
        this.#clientHas = Math.max(row.offset, this.#clientHas);
        this.#clientTaken = this.#clientHas;
      }
    }
  }

  #onOutput({ offset, data, received }: Output): void {
    if (this.#isOver || this.#attached !== undefined) return this.#violated();
    const end = offset + data.length;
    // A message that the agent has repeated.
    if (end < this.#next || (end === this.#next && data !== '')) return;
    // It has refused or lost a message before this one: a viewer that comes back gets both.
    if (offset > this.#next) return this.#interrupted();
    if (end - this.#confirmed > TERMINAL_WINDOW || received > this.#input) return this.#violated();
    const fresh = data.slice(this.#next - offset);
    const from = this.#next;
    this.#next = end;
    this.#received = Math.max(this.#received, received);
    this.#parts.recorder.output(from, fresh);
    const shown = fresh.slice(Math.max(0, this.#clientHas - from));
    if (shown !== '' || fresh === '') {
      const { terminalId } = this.#parts;
      const message = { terminalId, offset: end - shown.length, data: shown, received: this.#received };
      if (this.#early === undefined) this.#client?.output(message);
      else this.#early.push(message);
    }
    this.#confirmSoon();
  }

  #violated(): void {
    this.#decided ??= { kind: 'ended', reason: 'protocol_violation', exitCode: null };
    this.#send({ end: true });
    this.#controller.abort();
  }

  #interrupted(): void {
    this.#decided ??= { kind: 'detached', reason: 'disconnected' };
    this.#controller.abort();
  }

  #confirmSoon(): void {
    this.#confirmTimer ??= clock.setTimeout(() => {
      this.#confirmTimer = undefined;
      if (this.#taken > this.#confirmed) this.#send({});
    }, CONFIRM_MS);
  }

  /** How much the client has and the database has. Without a client, only the recording counts. */
  get #taken(): number {
    const { recordedTo } = this.#parts.recorder;
    const taken = this.#client === undefined ? recordedTo : Math.min(this.#clientTaken, recordedTo);
    return Math.max(this.#confirmed, Math.min(taken, this.#next));
  }

  #send(control: Parameters<SendTerminalControl>[0]): void {
    if (this.#isOver) return;
    this.#confirmed = this.#taken;
    this.#control?.({ ...control, taken: this.#confirmed });
  }

  #onOutcome(outcome: Outcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const timer of [this.#confirmTimer, this.#keepTimer, this.#endTimer]) clock.clear(timer);
    const end = this.#decided ?? viewEnd(outcome);
    this.#parts.onEnd(end);
    this.#tellClient(end);
  }

  /** The last message to the client. */
  #tellClient(end: ViewEnd): void {
    const client = this.#client;
    this.#client = undefined;
    const { terminalId } = this.#parts;
    client?.closed({
      terminalId,
      reason: end.reason,
      exitCode: end.kind === 'ended' ? end.exitCode : null,
      canContinue: end.kind === 'detached',
    });
  }
}

function failureOf(outcome: Outcome): AppError {
  if (outcome.ok) return new AppError('device_error', 'The terminal has ended.');
  // The view itself has cancelled the query when it waited long enough.
  return liveQueryError(outcome.reason === 'cancelled' ? { reason: 'timeout' } : outcome);
}

function viewEnd(outcome: Outcome): ViewEnd {
  if (outcome.ok) return endOf(outcome.output);
  // The agent has sent what is none of its rows.
  if (outcome.reason === 'agent') return { kind: 'ended', reason: 'protocol_violation', exitCode: null };
  if (outcome.reason === 'timeout') return { kind: 'ended', reason: 'too_long', exitCode: null };
  return { kind: 'detached', reason: 'disconnected' };
}

function endOf({ reason, exitCode }: CommandOutput<'terminal.open'>): ViewEnd {
  if (reason === 'replaced') return { kind: 'detached', reason };
  // The lease of the viewer has ended on the device, and the terminal waits for one.
  if (reason === 'unattended') return { kind: 'detached', reason: 'disconnected' };
  return { kind: 'ended', reason, exitCode };
}
