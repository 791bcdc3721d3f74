import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { clock, type Timer } from '../../clock.ts';
import { FromChild, type ToChild } from '../../agent/os/supervision/messages.ts';
import { signalGroup } from '../../agent/os/processes/process-group.ts';
import { childEnvironment } from '../launcher/guard.ts';
import { LastLines } from './last-lines.ts';

export interface ChildLimits {
  pingEveryMs: number;
  missedPings: number;
  helloMs: number;
  stopMs: number;
}

export interface ChildEnd {
  /** For people: how it ended. */
  how: string;
  exitCode: number | null;
  /** It was killed, because its event loop gave no answer. */
  isSilent: boolean;
  ranMs: number;
  /** The last lines that it has written, without secrets. */
  output: string[];
}

const LAST_WORDS_MS = 1000;

type Message = Exclude<FromChild, { type: 'pong' }>;

/** A program in a process group of its own, with a channel, that is killed where its event loop does not answer. */
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
  /** Why it was killed, where its event loop gave no answer. */
  #silence: string | undefined;
  #answeredAt = this.#startedAt;
  readonly #output = new LastLines();
  #force: Timer | undefined;

  constructor(
    command: readonly [string, ...string[]],
    limits: ChildLimits,
    onMessage: (message: Message) => void,
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
        // What it has started in its group ends with it.
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
        // What it wrote last may still be on its way; a program outside of its group may hold the output open.
        lastWords = clock.setTimeout(over, LAST_WORDS_MS);
      });
      this.#child.once('close', over);
    });
    this.#timer = clock.setInterval(() => this.#check(), limits.pingEveryMs);
  }

  send(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** Ends it in good order, or by force where that takes too long. */
  async stop(): Promise<ChildEnd> {
    this.send({ type: 'stop' });
    if (process.platform !== 'win32' && !this.#saidHello) this.#child.kill('SIGTERM');
    this.#force ??= clock.setTimeout(() => this.kill(), this.#limits.stopMs);
    return this.ended;
  }

  kill(): void {
    signalGroup(this.pid, 'SIGKILL');
  }

  /** The output goes where that of the watchdog goes, to the log of the service; its last lines are kept. */
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
