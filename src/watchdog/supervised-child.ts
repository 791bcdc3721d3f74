import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { withoutSecrets } from '../agent/os/diagnostic-log.ts';
import { signalGroup } from '../agent/os/process-group.ts';
import { FromChild, type ToChild } from '../agent/os/supervision.ts';
import { clock, type Timer } from '../clock.ts';
import { childEnvironment } from './guard.ts';

interface ChildLimits {
  pingEveryMs: number;
  missedPings: number;
  helloMs: number;
  stopMs: number;
}

export interface ChildEnd {
  /** How it ended, for people. */
  how: string;
  exitCode: number | null;
  /** True if it was killed because its event loop did not answer. */
  isSilent: boolean;
  ranMs: number;
  /** The last lines of its output, without secrets. */
  output: string[];
}

const LAST_WORDS_MS = 1000;

/** The reports of a program, besides that its event loop answers. */
export type ChildMessage = Exclude<FromChild, { type: 'pong' }>;

/** A program in its own process group with a channel. It is killed if its event loop does not answer. */
export class SupervisedChild {
  readonly pid: number | undefined;
  readonly ended: Promise<ChildEnd>;
  readonly #child: ChildProcess;
  readonly #limits: ChildLimits;
  readonly #startedAt = clock.monotonic();
  #timer: Timer | undefined;
  #pingId = 0;
  #unanswered = 0;
  #saidHello = false;
  /** The reason of the kill if its event loop did not answer. */
  #silence: string | undefined;
  #answeredAt = this.#startedAt;
  readonly #output = new LastLines();
  #force: Timer | undefined;

  constructor(
    command: readonly [string, ...string[]],
    limits: ChildLimits,
    onMessage: (message: ChildMessage) => void,
  ) {
    this.#limits = limits;
    const [program, ...words] = command;
    this.#child = spawn(program, words, {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: process.platform !== 'win32',
      windowsHide: true,
      env: childEnvironment(),
    });
    this.pid = this.#child.pid;
    this.#pass(this.#child.stdout, process.stdout);
    this.#pass(this.#child.stderr, process.stderr);
    this.#child.on('message', (raw) => {
      const message = FromChild.safeParse(raw);
      if (!message.success) return;
      if (message.data.type === 'pong') {
        this.#unanswered = 0;
        this.#answeredAt = clock.monotonic();
      } else {
        if (message.data.type === 'hello') this.#saidHello = true;
        onMessage(message.data);
      }
    });
    this.ended = new Promise((resolve) => {
      let end: ChildEnd | undefined;
      let lastWords: Timer | undefined;
      const over = () => {
        if (end === undefined) return;
        clock.clear(lastWords);
        resolve({ ...end, output: this.#output.lines });
      };
      const ends = (how: string, exitCode: number | null) => {
        clock.clear(this.#timer);
        clock.clear(this.#force);
        // Its process group ends with it.
        if (process.platform !== 'win32') signalGroup(this.pid, 'SIGKILL');
        const ranMs = clock.monotonic() - this.#startedAt;
        end = { how, exitCode, isSilent: this.#silence !== undefined, ranMs, output: [] };
      };
      this.#child.once('error', (error) => {
        if (this.pid !== undefined) return;
        ends(`It could not be started: ${error.message}.`, null);
        over();
      });
      this.#child.once('exit', (code, signal) => {
        const how = signal === null ? `It ended with exit code ${code}.` : `It was ended by ${signal}.`;
        ends(this.#silence ?? how, code);
        // Its last output may still arrive; a program outside of its group may keep the output open.
        lastWords = clock.setTimeout(over, LAST_WORDS_MS);
      });
      this.#child.once('close', over);
    });
    this.#timer = clock.setInterval(() => this.#check(), limits.pingEveryMs);
  }

  send(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** Shuts it down cleanly, or by force if that takes too long. */
  async stop(): Promise<ChildEnd> {
    this.send({ type: 'stop' });
    if (process.platform !== 'win32' && !this.#saidHello) this.#child.kill('SIGTERM');
    this.#force ??= clock.setTimeout(() => this.kill(), this.#limits.stopMs);
    return this.ended;
  }

  kill(): void {
    signalGroup(this.pid, 'SIGKILL');
  }

  /** Forwards the output to that of the watchdog, which is the log of the service, and keeps its last lines. */
  #pass(from: Readable | null, to: NodeJS.WriteStream): void {
    from?.setEncoding('utf8').on('data', (text: string) => {
      to.write(text);
      this.#output.add(text);
    });
    from?.on('error', () => {});
  }

  #check(): void {
    const now = clock.monotonic();
    const seconds = (since: number) => Math.round((now - since) / 1000);
    if (!this.#saidHello && now - this.#startedAt > this.#limits.helloMs) {
      this.#silence = `It had not started after ${seconds(this.#startedAt)} s and was killed.`;
    } else if (this.#saidHello && this.#unanswered >= this.#limits.missedPings) {
      this.#silence = `It stopped answering for ${seconds(this.#answeredAt)} s and was killed.`;
    }
    if (this.#silence !== undefined) return this.kill();
    this.#unanswered += 1;
    this.send({ type: 'ping', id: ++this.#pingId });
  }
}

const LINES = 12;
const LINE_MAX = 160;
/** Longer lines are cut, such as the line of a bundle that a stack quotes. */
const OPEN_MAX = 4096;

/** The last lines of a program's output, for the report of why it has ended: few, short, and without secrets. */
export class LastLines {
  #lines: string[] = [];
  #open = '';

  add(text: string): void {
    const parts = (this.#open + text).split('\n');
    this.#open = (parts.pop() ?? '').slice(-OPEN_MAX);
    const whole = parts.slice(-LINES).map((line) => line.slice(0, OPEN_MAX));
    this.#lines = [...this.#lines, ...whole].slice(-LINES);
  }

  get lines(): string[] {
    return [...this.#lines, this.#open]
      .map((line) => plain(withoutSecrets(line).slice(0, LINE_MAX)))
      .filter((line) => line !== '')
      .slice(-LINES);
  }
}

/** Removes control characters, and half characters at the cuts. */
const plain = (line: string) => line.replaceAll(/[\p{Cc}\p{Cf}\p{Surrogate}]+/gu, ' ').trim();

/** When an agent that has exited is started again, and with which of the available scripts. Pure. */

interface RestartLimits {
  restartMs: number;
  restartMaxMs: number;
  steadyMs: number;
  crashLoop: number;
}

export interface RestartState {
  /** The script in use: 0 is the chosen release, later ones are fallbacks. */
  choice: number;
  /** How often it has exited soon after its start, in a row. */
  crashes: number;
  /** How often all scripts were tried without success. */
  rounds: number;
}

export const FIRST_START: RestartState = { choice: 0, crashes: 0, rounds: 0 };

/** @param choices  the number of scripts */
export function afterEnd(
  state: RestartState,
  ranMs: number,
  choices: number,
  { restartMs, restartMaxMs, steadyMs, crashLoop }: RestartLimits,
): { state: RestartState; waitMs: number; isCrashLoop: boolean } {
  // A script that has run for a while is kept: its exit had another cause.
  if (ranMs >= steadyMs) {
    return { state: { ...state, crashes: 0, rounds: 0 }, waitMs: restartMs, isCrashLoop: false };
  }
  const crashes = state.crashes + 1;
  const doubled = restartMs * 2 ** Math.min(crashes - 1 + crashLoop * state.rounds, 20);
  const waitMs = Math.min(restartMaxMs, doubled);
  if (crashes < crashLoop) return { state: { ...state, crashes }, waitMs, isCrashLoop: false };
  const isLast = state.choice + 1 >= choices;
  const next = isLast
    ? { choice: 0, crashes: 0, rounds: state.rounds + 1 }
    : { choice: state.choice + 1, crashes: 0, rounds: state.rounds };
  return { state: next, waitMs, isCrashLoop: true };
}
