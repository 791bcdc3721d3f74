import { clock, type Timer } from '../../clock.ts';
import type { CommandEvent } from '../ports/command-ledger.ts';

type ProgressEvent = Extract<CommandEvent, { kind: 'running' }>;

/** Each command's progress is stored at most once in this time. */
const EVERY_MS = 1000;
/** Commands whose progress is throttled at the same time; progress of further ones is dropped until there is room. */
const MOST_COMMANDS = 50_000;

interface Throttled {
  pending: ProgressEvent | undefined;
  timer: Timer;
}

/**
 * Passes on the progress of each command at once and then at most once a second, and always the last report. Agents
 * throttle as well, but a faulty or hostile one must not be able to make the database write.
 */
export class ProgressThrottle {
  readonly #pass: (event: ProgressEvent) => void;
  readonly #commands = new Map<string, Throttled>();

  constructor(pass: (event: ProgressEvent) => void) {
    this.#pass = pass;
  }

  report(event: ProgressEvent): void {
    const key = keyOf(event);
    const throttled = this.#commands.get(key);
    if (throttled !== undefined) throttled.pending = event;
    else if (this.#commands.size < MOST_COMMANDS) {
      const timer = clock.setTimeout(() => this.#goOn(event), EVERY_MS);
      this.#commands.set(key, { pending: undefined, timer });
      this.#pass(event);
    }
  }

  /** A second is over: what has come meanwhile is passed on and begins the next second. */
  #goOn(command: ProgressEvent): void {
    const key = keyOf(command);
    const pending = this.#commands.get(key)?.pending;
    this.#commands.delete(key);
    if (pending !== undefined) this.report(pending);
  }

  /** Passes on the last report of a command now, so that it precedes the result. */
  flush(command: Pick<CommandEvent, 'id' | 'deviceId'>): void {
    const key = keyOf(command);
    const throttled = this.#commands.get(key);
    if (throttled === undefined) return;
    clock.clear(throttled.timer);
    this.#commands.delete(key);
    if (throttled.pending !== undefined) this.#pass(throttled.pending);
  }

  flushAll(): void {
    for (const { pending, timer } of this.#commands.values()) {
      clock.clear(timer);
      if (pending !== undefined) this.#pass(pending);
    }
    this.#commands.clear();
  }
}

/** Any agent can name any command, so the device is part of the key. */
const keyOf = ({ id, deviceId }: Pick<CommandEvent, 'id' | 'deviceId'>) => `${deviceId} ${id}`;
