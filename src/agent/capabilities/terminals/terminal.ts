import { clock, type Timer } from '../../../clock.ts';
import {
  type CommandOutput,
  TERMINAL_KEPT,
  TERMINAL_LEASE_MS,
  TERMINAL_LONGEST_MS,
  TERMINAL_OUTPUT_MAX,
  TERMINAL_UNATTENDED_MS,
  TERMINAL_WINDOW,
  type TerminalControl,
  type TerminalNotice,
  type TerminalRow,
  type TerminalSize,
} from '../../../protocol/index.ts';
import type { StartTerminalProcess, TerminalProcess } from './terminal-process.ts';

type End = CommandOutput<'terminal.open'>;

/** One viewer of a terminal, from its live query to the end of that. */
interface Viewer {
  /** The id of the live query. */
  id: string;
  /** Resolves when the hub has the row; rejects if the connection has ended. */
  send: (row: TerminalRow) => Promise<void>;
  settle: (end: End | undefined) => void;
  sent: number;
  taken: number;
  received: number;
  reportedReceived: number;
  /** Rows that the hub has not acknowledged. */
  inFlight: number;
  lease: Timer | undefined;
}

/** Output is collected while so many rows are on their way, so that a flood becomes few large rows. */
const ROWS_IN_FLIGHT = 4;
/** The least time between rows of a flood, which keeps their number far below the limit of the hub. */
const PACE_MS = 5;
/** Input is confirmed after this time if no output confirms it. */
const CONFIRM_MS = 30;
/** How long the rest of the output may take to reach the viewer when the shell has ended. */
const LAST_OUTPUT_MS = 10_000;

/**
 * One terminal: a shell, its last output, and at most one viewer. The output of the shell is read only as fast as the
 * viewer takes it. Without a viewer it is read and only the end of it kept, so that programs go on.
 */
export class Terminal {
  readonly id: string;
  /** Called when the terminal is over and its viewer knows. */
  readonly #onOver: () => void;
  #process: TerminalProcess | undefined;
  #kept = '';
  /** The offset of the first kept character. */
  #keptFrom = 0;
  #viewer: Viewer | undefined;
  #unattended: Timer | undefined;
  #longest: Timer | undefined;
  #confirm: Timer | undefined;
  #lastOutput: Timer | undefined;
  #isPumpDue = false;
  #lastRowAt = Number.NEGATIVE_INFINITY;
  #isPaused = false;
  #isOver = false;
  #reason: End['reason'] = 'exited';
  #end: End | undefined;

  constructor(id: string, onOver: () => void) {
    this.id = id;
    this.#onOver = onOver;
  }

  get process(): TerminalProcess | undefined {
    return this.#process;
  }

  async start(startProcess: StartTerminalProcess, size: TerminalSize): Promise<void> {
    this.#process = await startProcess(size, {
      onOutput: (text) => this.#onOutput(text),
      onExit: (exitCode) => this.#onExit(exitCode),
    });
    // From its start: each viewer that continues it has a deadline of its own.
    this.#longest = clock.setTimeout(() => this.end('too_long'), TERMINAL_LONGEST_MS).unref();
    this.#waitForViewer();
  }

  /**
   * Shows the terminal to a viewer until it ends or the viewer goes. A former viewer is replaced.
   * @param after  the number of characters that the viewer has already
   * @returns how the terminal has ended; `undefined` if the viewer has gone
   */
  async view(
    { id, sendNow, signal }: { id: string; sendNow: Viewer['send']; signal: AbortSignal },
    { after, notice }: { after: number; notice: TerminalNotice },
  ): Promise<End | undefined> {
    this.#viewer?.settle({ reason: 'replaced', exitCode: null });
    clock.clear(this.#unattended);
    const offset = Math.min(Math.max(after, this.#keptFrom), this.#endOffset);
    return new Promise((resolve) => {
      const viewer: Viewer = {
        id,
        send: sendNow,
        settle: (end) => {
          clock.clear(viewer.lease);
          signal.removeEventListener('abort', leave);
          if (this.#viewer === viewer) this.#viewer = undefined;
          resolve(end);
        },
        sent: offset,
        taken: offset,
        received: 0,
        reportedReceived: 0,
        inFlight: 0,
        lease: undefined,
      };
      const leave = () => this.#leave(viewer);
      signal.addEventListener('abort', leave, { once: true });
      this.#viewer = viewer;
      if (signal.aborted) return leave();
      // The shell may have ended before its viewer came.
      if (this.#isOver) return viewer.settle(this.#end);
      this.#renewLease(viewer);
      const { mode = 'pty', shell = '' } = this.#process ?? {};
      this.#send(viewer, { kind: 'attached', mode, shell, notice, offset });
      this.#pump();
    });
  }

  /** False if the message is not from the present viewer. */
  control({ id, input, size, taken, end }: TerminalControl): boolean {
    const viewer = this.#viewer;
    if (viewer?.id !== id) return false;
    this.#renewLease(viewer);
    if (taken !== undefined) viewer.taken = Math.min(Math.max(taken, viewer.taken), viewer.sent);
    if (size !== undefined) this.#process?.resize(size);
    if (input !== undefined) {
      this.#process?.write(input);
      viewer.received += input.length;
      this.#confirm ??= clock.setTimeout(() => this.#confirmInput(), CONFIRM_MS);
    }
    if (end === true) this.end('closed');
    this.#pumpSoon();
    return true;
  }

  end(reason: End['reason']): void {
    if (this.#end !== undefined) return;
    this.#reason = reason;
    if (this.#process === undefined) this.#onExit(null);
    else this.#process.end();
  }

  get #endOffset(): number {
    return this.#keptFrom + this.#kept.length;
  }

  #onOutput(text: string): void {
    this.#kept += text;
    // Cut rarely: each cut copies what is kept.
    if (this.#kept.length > 2 * TERMINAL_KEPT) {
      const excess = this.#kept.length - TERMINAL_KEPT;
      this.#kept = this.#kept.slice(excess);
      this.#keptFrom += excess;
    }
    this.#pumpSoon();
  }

  #onExit(exitCode: number | null): void {
    if (this.#end !== undefined) return;
    this.#end = { reason: this.#reason, exitCode: this.#reason === 'exited' ? exitCode : null };
    clock.clear(this.#unattended);
    // With the agent, the connection ends as well.
    const waitMs = this.#reason === 'agent_stopped' ? 0 : LAST_OUTPUT_MS;
    this.#lastOutput = clock.setTimeout(() => this.#over(), waitMs);
    this.#pump();
  }

  /** After all of the output that was read in this turn. Behind another row, a moment later with what comes until then. */
  #pumpSoon(): void {
    if (this.#isPumpDue) return;
    this.#isPumpDue = true;
    const pump = () => {
      this.#isPumpDue = false;
      this.#pump();
    };
    const waitMs = this.#lastRowAt + PACE_MS - clock.monotonic();
    if (waitMs > 0) clock.setTimeout(pump, waitMs);
    else setImmediate(pump);
  }

  /** Sends what the viewer may be sent, and reads on or waits accordingly. */
  #pump(): void {
    const viewer = this.#viewer;
    if (viewer !== undefined) this.#sendRows(viewer);
    this.#setPaused(viewer !== undefined && this.#endOffset - viewer.taken >= TERMINAL_WINDOW);
    if (this.#end !== undefined && (viewer === undefined || viewer.sent === this.#endOffset)) this.#over();
  }

  #sendRows(viewer: Viewer): void {
    while (viewer.inFlight < ROWS_IN_FLIGHT && viewer.sent < this.#endOffset) {
      const room = TERMINAL_WINDOW - (viewer.sent - viewer.taken);
      if (room <= 0) return;
      const from = viewer.sent - this.#keptFrom;
      this.#sendOutput(viewer, this.#kept.slice(from, from + Math.min(room, TERMINAL_OUTPUT_MAX)));
    }
  }

  #setPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) this.#process?.pause();
    else this.#process?.resume();
  }

  #sendOutput(viewer: Viewer, data: string): void {
    const { sent: offset, received } = viewer;
    viewer.sent += data.length;
    viewer.reportedReceived = received;
    this.#send(viewer, { kind: 'output', offset, data, received });
  }

  #confirmInput(): void {
    this.#confirm = undefined;
    const viewer = this.#viewer;
    if (viewer !== undefined && viewer.reportedReceived < viewer.received) this.#sendOutput(viewer, '');
  }

  #send(viewer: Viewer, row: TerminalRow): void {
    viewer.inFlight += 1;
    this.#lastRowAt = clock.monotonic();
    viewer.send(row).then(
      () => {
        viewer.inFlight -= 1;
        this.#pumpSoon();
      },
      // The connection has ended, or the hub does not want the row: the viewer comes back and says what it has.
      () => this.#leave(viewer),
    );
  }

  #renewLease(viewer: Viewer): void {
    clock.clear(viewer.lease);
    viewer.lease = clock.setTimeout(() => this.#leave(viewer), TERMINAL_LEASE_MS).unref();
  }

  #leave(viewer: Viewer): void {
    const isPresent = this.#viewer === viewer;
    viewer.settle(undefined);
    if (!isPresent) return;
    this.#waitForViewer();
    this.#pump();
  }

  #waitForViewer(): void {
    clock.clear(this.#unattended);
    if (this.#end !== undefined) return;
    this.#unattended = clock.setTimeout(() => this.end('unattended'), TERMINAL_UNATTENDED_MS).unref();
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const timers = [this.#unattended, this.#longest, this.#confirm, this.#lastOutput];
    for (const timer of timers) clock.clear(timer);
    this.#viewer?.settle(this.#end);
    this.#kept = '';
    this.#onOver();
  }
}
