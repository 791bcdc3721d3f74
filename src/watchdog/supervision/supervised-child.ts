import { type ChildProcess, spawn } from 'node:child_process';
import { clock, type Timer } from '../../clock.ts';
import { FromChild, type ToChild } from '../../agent/os/supervision/messages.ts';
import { signalGroup } from '../../agent/os/processes/process-group.ts';
import { childEnvironment } from '../launcher/guard.ts';

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
}

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
  #isSilent = false;
  #force: Timer | undefined;

  constructor(
    command: readonly [string, ...string[]],
    limits: ChildLimits,
    onMessage: (message: Message) => void,
  ) {
    this.#limits = limits;
    const [program, ...words] = command;
    this.#child = spawn(program, words, {
      // The output goes where that of the watchdog goes: to the log of the service.
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      detached: process.platform !== 'win32',
      windowsHide: true,
      env: childEnvironment(),
    });
    this.pid = this.#child.pid;
    this.#child.on('message', (raw) => {
      const message = FromChild.safeParse(raw);
      if (!message.success) return;
      if (message.data.type === 'pong') this.#unanswered = 0;
      else {
        if (message.data.type === 'hello') this.#saidHello = true;
        onMessage(message.data);
      }
    });
    this.ended = new Promise((resolve) => {
      const end = (how: string, exitCode: number | null) => {
        clock.clear(this.#timer);
        clock.clear(this.#force);
        // What it has started in its group ends with it.
        if (process.platform !== 'win32') signalGroup(this.pid, 'SIGKILL');
        resolve({ how, exitCode, isSilent: this.#isSilent, ranMs: clock.monotonic() - this.#startedAt });
      };
      this.#child.once('error', (error) => {
        if (this.pid === undefined) end(`It could not be started: ${error.message}.`, null);
      });
      this.#child.once('exit', (code, signal) => {
        const how = signal === null ? `It ended with exit code ${code}.` : `It was ended by ${signal}.`;
        end(this.#isSilent ? 'It gave no sign of life and was killed.' : how, code);
      });
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

  #check(): void {
    const isLate = !this.#saidHello && clock.monotonic() - this.#startedAt > this.#limits.helloMs;
    if (isLate || (this.#saidHello && this.#unanswered >= this.#limits.missedPings)) {
      this.#isSilent = true;
      this.kill();
      return;
    }
    this.#unanswered += 1;
    this.send({ type: 'ping', id: ++this.#pingId });
  }
}
