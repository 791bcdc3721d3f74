import { clock, type Timer } from '../../../clock.ts';
import {
  OkAck,
  TERMINAL_INPUT_MAX,
  TERMINAL_INPUT_WINDOW,
  TERMINAL_UNATTENDED_MS,
  TerminalClosed,
  TerminalOpened,
  TerminalOutput,
  type TerminalSize,
} from '../../../protocol/index.ts';
import { Refused } from '../api.ts';
import { aborted, connectToHub, type HubConnection, unheld } from '../hub-connection.ts';
import type { PersonSession } from '../person-session.ts';
import { EXIT, RemoteFailure } from '../profiles.ts';

/** What shows the terminal: the local one. */
export interface Surface {
  /** Calls `onShown` when the local terminal has taken the text. */
  write(text: string, onShown: () => void): void;
  size(): TerminalSize;
  opened(opened: TerminalOpened, isAgain: boolean): void;
  lost(why: string): void;
  /** Asks for another second factor, for which the local terminal is as it was before for a while. */
  askForFactor(): Promise<void>;
}

export type TerminalOutcome = Pick<TerminalClosed, 'reason' | 'exitCode'>;

const RETRY_MS = 2000;
/** What is typed within this time is sent together. */
const COLLECT_MS = 8;
const CONFIRM_MS = 100;
/** Output is confirmed at once when so much was shown since. */
const CONFIRM_LENGTH = 64_000;
/** What is typed beyond this is dropped. */
const TYPED_MAX = 1_000_000;
/** How long the end of the terminal is waited for when it is left. */
const CLOSE_MS = 3000;
/** The attempt to continue may succeed later. */
const PASSING: ReadonlySet<string> = new Set([
  'DEVICE_OFFLINE',
  'DEVICE_TIMEOUT',
  'DEVICE_BUSY',
  'UNAVAILABLE',
  'RATE_LIMITED',
]);

interface Parts {
  session: PersonSession;
  deviceId: string;
  surface: Surface;
  /** The user leaves: the terminal ends. */
  left: AbortSignal;
}

/** One terminal of a device, continued when the connection was lost. */
export class LiveTerminal {
  readonly #parts: Parts;
  #hub: HubConnection | undefined;
  #opened: TerminalOpened | undefined;
  #isOpen = false;
  /** Output may arrive before the acknowledgement that names its terminal. */
  #early: TerminalOutput[] = [];
  #arrived = 0;
  #shown = 0;
  #confirmed = 0;
  #typed = '';
  #sent = 0;
  #received = 0;
  #sendTimer: Timer | undefined;
  #confirmTimer: Timer | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Resolves when the terminal has ended. Throws if it is refused, or cannot be continued. */
  async run(): Promise<TerminalOutcome> {
    const { left, surface } = this.#parts;
    let lostAt: number | undefined;
    let hasGivenFactor = false;
    for (;;) {
      try {
        const late = aborted(left)
          .then(() => unheld(2 * CLOSE_MS))
          .then(() => LEFT);
        const outcome = await Promise.race([this.#view(() => (lostAt = undefined)), late]);
        if (outcome.reason !== 'disconnected') return outcome;
        surface.lost('The connection to the device was lost.');
      } catch (error) {
        if (left.aborted) return LEFT;
        if (!(error instanceof RemoteFailure)) throw error;
        const code = error instanceof Refused ? error.code : undefined;
        if (code === 'MFA_REQUIRED' && this.#opened !== undefined && !hasGivenFactor) {
          hasGivenFactor = true;
          await surface.askForFactor();
          continue;
        }
        if (code === 'NOT_FOUND' && this.#opened !== undefined) return UNATTENDED;
        const isPassing = error.exit === EXIT.unreachable || PASSING.has(code ?? '');
        if (this.#opened === undefined || !isPassing) throw error;
        if (lostAt === undefined) surface.lost(error.message);
        else if (clock.monotonic() - lostAt > TERMINAL_UNATTENDED_MS) throw error;
      } finally {
        this.#isOpen = false;
        for (const timer of [this.#sendTimer, this.#confirmTimer]) clock.clear(timer);
        [this.#sendTimer, this.#confirmTimer] = [undefined, undefined];
        this.#hub?.close();
        this.#hub = undefined;
      }
      lostAt ??= clock.monotonic();
      await clock.sleep(RETRY_MS, { signal: left }).catch(() => undefined);
      if (left.aborted) return LEFT;
    }
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** What is typed while the connection is lost is not sent later, to a screen that has changed. */
  type(text: string): void {
    if (!this.#isOpen || this.#typed.length + text.length > TYPED_MAX) return;
    this.#typed += text;
    this.#sendTimer ??= clock.setTimeout(() => this.#send(), COLLECT_MS);
  }

  resize(): void {
    if (!this.#isOpen) return;
    this.#tell(
      this.#hub?.ask('terminal:resize', { terminalId: this.#id, ...this.#parts.surface.size() }, OkAck),
    );
  }

  /** Views the terminal until its end, or until the connection is lost. */
  async #view(onOpen: () => void): Promise<TerminalOutcome> {
    const { session, deviceId, surface, left } = this.#parts;
    const hub = await connectToHub(await session.profile());
    this.#hub = hub;
    this.#early = [];
    const isAgain = this.#opened !== undefined;
    const closed = new Promise<TerminalOutcome>((resolve) => {
      hub.on('terminal:data', TerminalOutput, (output) => this.#onOutput(output));
      hub.on('terminal:close', TerminalClosed, (message) => {
        if (message.terminalId === this.#opened?.terminalId) resolve(message);
      });
    });
    const { terminalId, resumeToken } = this.#opened ?? {};
    const known =
      terminalId === undefined || resumeToken === undefined
        ? {}
        : { terminalId, resumeToken, after: this.#arrived };
    const opened = await hub.ask('terminal:open', { deviceId, ...surface.size(), ...known }, TerminalOpened);
    onOpen();
    if (isAgain && opened.offset > this.#arrived) {
      surface.write('\r\n[Some output was not kept.]\r\n', () => undefined);
    }
    this.#begin(opened);
    surface.opened(opened, isAgain);
    for (const output of this.#early.splice(0)) this.#onOutput(output);
    // The size may have changed meanwhile.
    this.resize();
    const leaving = aborted(left).then(() => this.#leave(closed));
    return Promise.race([closed, leaving, hub.lost]);
  }

  #begin(opened: TerminalOpened): void {
    this.#opened = opened;
    this.#isOpen = true;
    [this.#arrived, this.#shown, this.#confirmed] = [opened.offset, opened.offset, opened.offset];
    // Whether input that was on its way has arrived is not known, so it is not sent again.
    this.#typed = '';
    [this.#sent, this.#received] = [0, 0];
  }

  /** Ends the terminal on the device; without an answer, the server ends it a while after its last viewer. */
  async #leave(closed: Promise<TerminalOutcome>): Promise<TerminalOutcome> {
    this.#send();
    this.#tell(this.#hub?.ask('terminal:close', { terminalId: this.#id }, OkAck));
    return Promise.race([closed, unheld(CLOSE_MS).then(() => LEFT)]);
  }

  #onOutput(output: TerminalOutput): void {
    if (!this.#isOpen) {
      this.#early.push(output);
      return;
    }
    const { terminalId, offset, data, received } = output;
    if (terminalId !== this.#opened?.terminalId) return;
    this.#received = Math.max(this.#received, received);
    if (this.#typed !== '') this.#sendTimer ??= clock.setTimeout(() => this.#send(), COLLECT_MS);
    const fresh = data.slice(Math.max(0, this.#arrived - offset));
    if (fresh === '') return;
    this.#arrived += fresh.length;
    const end = this.#arrived;
    this.#parts.surface.write(fresh, () => {
      this.#shown = Math.max(this.#shown, end);
      this.#confirmSoon();
    });
  }

  #send(): void {
    clock.clear(this.#sendTimer);
    this.#sendTimer = undefined;
    const room = Math.min(TERMINAL_INPUT_WINDOW - (this.#sent - this.#received), TERMINAL_INPUT_MAX);
    if (!this.#isOpen || this.#typed === '' || room <= 0) return;
    const data = this.#typed.slice(0, room);
    this.#typed = this.#typed.slice(room);
    this.#sent += data.length;
    this.#confirmed = this.#shown;
    this.#tell(this.#hub?.ask('terminal:data', { terminalId: this.#id, data, taken: this.#shown }, OkAck));
    if (this.#typed !== '') this.#sendTimer = clock.setTimeout(() => this.#send(), COLLECT_MS);
  }

  #confirmSoon(): void {
    if (!this.#isOpen || this.#shown === this.#confirmed) return;
    if (this.#shown - this.#confirmed >= CONFIRM_LENGTH) return this.#confirm();
    this.#confirmTimer ??= clock.setTimeout(() => this.#confirm(), CONFIRM_MS);
  }

  #confirm(): void {
    clock.clear(this.#confirmTimer);
    this.#confirmTimer = undefined;
    if (!this.#isOpen || this.#shown === this.#confirmed) return;
    this.#confirmed = this.#shown;
    this.#tell(this.#hub?.ask('terminal:data', { terminalId: this.#id, taken: this.#shown }, OkAck));
  }

  get #id(): string {
    return this.#opened?.terminalId ?? '';
  }

  /** A message that is refused belongs to a terminal that has just ended, of which the hub says so. */
  #tell(asked: Promise<unknown> | undefined): void {
    asked?.catch(() => undefined);
  }
}

const LEFT: TerminalOutcome = { reason: 'closed', exitCode: null };
const UNATTENDED: TerminalOutcome = { reason: 'unattended', exitCode: null };
