import {
  OkAck,
  TERMINAL_INPUT_MAX,
  TERMINAL_INPUT_WINDOW,
  TERMINAL_UNATTENDED_MS,
  TerminalClosed,
  TerminalOpened,
  TerminalOutput,
  type TerminalSize,
} from '../../protocol/index.ts';
import { askForSecondFactor } from '../api/index.ts';
import { HubError, hub } from './socket.ts';

/** How a terminal stands, as the page shows it. */
export type TerminalStanding =
  | { state: 'opening' }
  | { state: 'open'; shell: string; mode: TerminalOpened['mode']; notice: TerminalOpened['notice'] }
  /** The connection to it is lost, and it is being continued. */
  | { state: 'lost' }
  | { state: 'ended'; reason: TerminalClosed['reason']; exitCode: number | null }
  | { state: 'refused'; message: string };

/** What shows the terminal. */
export interface TerminalScreen {
  /** Calls `onShown` when the text is drawn. */
  write(text: string, onShown: () => void): void;
  size(): TerminalSize;
}

const CONNECT_MS = 10_000;
const RETRY_MS = 2000;
/** What is typed within this time is sent together. */
const COLLECT_MS = 8;
const CONFIRM_MS = 100;
/** Output is confirmed at once when so much was shown since. */
const CONFIRM_LENGTH = 64_000;
/** Pasted text beyond this is dropped. */
const TYPED_MAX = 1_000_000;
/** The attempt may succeed later. */
const PASSING = new Set([
  'DEVICE_OFFLINE',
  'DEVICE_TIMEOUT',
  'DEVICE_BUSY',
  'UNAVAILABLE',
  'RATE_LIMITED',
  'NO_ANSWER',
  'NOT_CONNECTED',
  'UNAUTHENTICATED',
]);

/**
 * One terminal of a device. It confirms output as that is shown, sends input no faster than the shell takes it, and
 * continues the terminal when the connection was lost.
 */
export class LiveTerminal {
  readonly #deviceId: string;
  readonly #screen: TerminalScreen;
  readonly #onStanding: (standing: TerminalStanding) => void;
  readonly #stops: (() => void)[];
  #opened: TerminalOpened | undefined;
  #isOpen = false;
  #isOver = false;
  #lostAt: number | undefined;
  /** How many characters of output have arrived, and how many of them are shown and confirmed. */
  #arrived = 0;
  #shown = 0;
  #confirmed = 0;
  #typed = '';
  #sent = 0;
  #received = 0;
  /** Output may arrive before the acknowledgement that names its terminal. */
  #early: TerminalOutput[] = [];
  #sendTimer: ReturnType<typeof setTimeout> | undefined;
  #confirmTimer: ReturnType<typeof setTimeout> | undefined;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: {
    deviceId: string;
    screen: TerminalScreen;
    onStanding: (standing: TerminalStanding) => void;
  }) {
    this.#deviceId = parts.deviceId;
    this.#screen = parts.screen;
    this.#onStanding = parts.onStanding;
    this.#stops = [
      hub.on('terminal:data', TerminalOutput, (output) => this.#onOutput(output)),
      hub.on('terminal:close', TerminalClosed, (closed) => this.#onClosed(closed)),
      hub.watch(() => {
        if (hub.state.state !== 'live' && this.#isOpen) this.#lost();
      }),
    ];
    parts.onStanding({ state: 'opening' });
    void this.#open();
  }

  type(text: string): void {
    if (!this.#isOpen || this.#typed.length + text.length > TYPED_MAX) return;
    this.#typed += text;
    this.#sendTimer ??= setTimeout(() => this.#send(), COLLECT_MS);
  }

  resize(size: TerminalSize): void {
    if (this.#isOpen) this.#tell(hub.ask('terminal:resize', { terminalId: this.#id, ...size }, OkAck));
  }

  /** Ends the terminal on the device. */
  close(): void {
    if (this.#isOpen) this.#tell(hub.ask('terminal:close', { terminalId: this.#id }, OkAck));
    else this.#end({ state: 'ended', reason: 'closed', exitCode: null });
  }

  /** The page is left: the terminal ends. */
  leave(): void {
    if (this.#isOpen) this.close();
    this.#isOver = true;
    this.#stop();
  }

  async #open(): Promise<void> {
    const { terminalId, resumeToken } = this.#opened ?? {};
    const size = this.#screen.size();
    this.#early = [];
    try {
      await hub.untilLive(CONNECT_MS);
      if (this.#isOver) return;
      const known =
        terminalId === undefined || resumeToken === undefined
          ? {}
          : { terminalId, resumeToken, after: this.#arrived };
      const opened = await hub.ask(
        'terminal:open',
        { deviceId: this.#deviceId, ...size, ...known },
        TerminalOpened,
      );
      // The page was left meanwhile.
      if (this.#isOver) {
        this.#tell(hub.ask('terminal:close', { terminalId: opened.terminalId }, OkAck));
      } else this.#begin(opened);
    } catch (error) {
      if (!this.#isOver) await this.#refused(error);
    }
  }

  #begin(opened: TerminalOpened): void {
    const isNew = this.#opened === undefined;
    if (!isNew && opened.offset > this.#arrived) {
      this.#screen.write('\r\n[Some output was not kept.]\r\n', () => undefined);
    }
    this.#opened = opened;
    this.#isOpen = true;
    this.#lostAt = undefined;
    this.#arrived = opened.offset;
    this.#shown = opened.offset;
    this.#confirmed = opened.offset;
    // Whether input that was on its way has arrived is not known, so it is not sent again.
    this.#typed = '';
    this.#sent = 0;
    this.#received = 0;
    const { shell, mode, notice } = opened;
    this.#onStanding({ state: 'open', shell, mode, notice });
    for (const output of this.#early.splice(0)) this.#onOutput(output);
    this.resize(this.#screen.size());
  }

  async #refused(error: unknown): Promise<void> {
    const { code, message } =
      error instanceof HubError ? error : { code: 'UNEXPECTED', message: String(error) };
    if (code === 'MFA_REQUIRED' && (await askForSecondFactor())) return this.#open();
    const isContinuing = this.#opened !== undefined;
    if (isContinuing && code === 'NOT_FOUND') {
      return this.#end({ state: 'ended', reason: 'unattended', exitCode: null });
    }
    const isInTime = performance.now() - (this.#lostAt ?? 0) < TERMINAL_UNATTENDED_MS;
    if (isContinuing && PASSING.has(code) && isInTime) {
      this.#retryTimer = setTimeout(() => void this.#open(), RETRY_MS);
      return;
    }
    this.#end({ state: 'refused', message });
  }

  #onOutput(output: TerminalOutput): void {
    if (this.#opened === undefined || !this.#isOpen) {
      this.#early.push(output);
      return;
    }
    const { terminalId, offset, data, received } = output;
    if (terminalId !== this.#opened.terminalId) return;
    this.#received = Math.max(this.#received, received);
    if (this.#typed !== '') this.#sendTimer ??= setTimeout(() => this.#send(), COLLECT_MS);
    const fresh = data.slice(Math.max(0, this.#arrived - offset));
    if (fresh === '') return;
    this.#arrived += fresh.length;
    const end = this.#arrived;
    this.#screen.write(fresh, () => {
      this.#shown = Math.max(this.#shown, end);
      this.#confirmSoon();
    });
  }

  #onClosed({ terminalId, reason, exitCode, canContinue }: TerminalClosed): void {
    if (terminalId !== this.#opened?.terminalId) return;
    if (canContinue && reason === 'disconnected') this.#lost();
    else this.#end({ state: 'ended', reason, exitCode });
  }

  #lost(): void {
    if (this.#isOver) return;
    this.#isOpen = false;
    this.#lostAt ??= performance.now();
    this.#onStanding({ state: 'lost' });
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => void this.#open(), RETRY_MS);
  }

  #end(standing: TerminalStanding): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#isOpen = false;
    this.#stop();
    this.#onStanding(standing);
  }

  #stop(): void {
    for (const stop of this.#stops) stop();
    for (const timer of [this.#sendTimer, this.#confirmTimer, this.#retryTimer]) clearTimeout(timer);
  }

  #send(): void {
    this.#sendTimer = undefined;
    const room = Math.min(TERMINAL_INPUT_WINDOW - (this.#sent - this.#received), TERMINAL_INPUT_MAX);
    if (!this.#isOpen || this.#typed === '' || room <= 0) return;
    const data = this.#typed.slice(0, room);
    this.#typed = this.#typed.slice(room);
    this.#sent += data.length;
    this.#confirmed = this.#shown;
    this.#tell(hub.ask('terminal:data', { terminalId: this.#id, data, taken: this.#shown }, OkAck));
    if (this.#typed !== '') this.#sendTimer = setTimeout(() => this.#send(), COLLECT_MS);
  }

  #confirmSoon(): void {
    if (!this.#isOpen || this.#shown === this.#confirmed) return;
    if (this.#shown - this.#confirmed >= CONFIRM_LENGTH) this.#confirm();
    else {
      this.#confirmTimer ??= setTimeout(() => {
        this.#confirmTimer = undefined;
        this.#confirm();
      }, CONFIRM_MS);
    }
  }

  #confirm(): void {
    if (!this.#isOpen || this.#shown === this.#confirmed) return;
    this.#confirmed = this.#shown;
    this.#tell(hub.ask('terminal:data', { terminalId: this.#id, taken: this.#shown }, OkAck));
  }

  get #id(): string {
    return this.#opened?.terminalId ?? '';
  }

  /** A message that is refused belongs to a terminal that has just ended, of which the hub says so. */
  #tell(asked: Promise<unknown>): void {
    asked.catch(() => undefined);
  }
}
