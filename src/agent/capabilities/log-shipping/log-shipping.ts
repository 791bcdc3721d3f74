import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { clock, type Timer } from '../../../clock.ts';
import { type DiagnosticLevel, type DiagnosticLine, LOG_MESSAGE_MAX } from '../../../protocol/index.ts';
import { type ConnectionState, reachesServer, StateLines } from '../../core/connection-options.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { post, put, type ServerAccess } from '../../core/server-call.ts';
import type { ServerClock } from '../../core/server-clock.ts';
import type { Tokens } from '../../core/tokens.ts';
import { AGENT_VERSION } from '../../core/version.ts';
import { type LogSource, MachineEvents, shippedLogs } from './machine-events.ts';
import { Sender, Spool } from './spool.ts';

const BUFFER_MS = 5000;
/** At most this many lines between two writes. Further lines are repetitions. */
const BUFFER_LINES = 200;

/** The agent's own log. Lines are buffered for a moment and then stored for sending. */
class AgentLog {
  readonly #keep: (lines: DiagnosticLine[]) => Promise<void>;
  readonly #now: () => number;
  readonly #bufferMs: number;
  #lines: DiagnosticLine[] = [];
  #omitted = 0;
  #timer: Timer | undefined;

  constructor(options: {
    keep: (lines: DiagnosticLine[]) => Promise<void>;
    /** The server's time. */
    now: () => number;
    bufferMs?: number;
  }) {
    this.#keep = options.keep;
    this.#now = options.now;
    this.#bufferMs = options.bufferMs ?? BUFFER_MS;
  }

  write(level: DiagnosticLevel, component: string, message: string): void {
    if (this.#lines.length >= BUFFER_LINES) {
      this.#omitted += 1;
      return;
    }
    this.#lines.push(this.#line(level, component, message));
    this.#timer ??= clock
      .setTimeout(() => {
        void this.flush();
      }, this.#bufferMs)
      .unref();
  }

  /** Never rejects, because the failure could not be logged. */
  async flush(): Promise<void> {
    clock.clear(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines;
    this.#lines = [];
    if (this.#omitted > 0) lines.push(this.#line('warn', 'log', `${this.#omitted} more lines were omitted`));
    this.#omitted = 0;
    if (lines.length === 0) return;
    try {
      await this.#keep(lines);
    } catch {
      // The disk is full or missing. The agent keeps working without its log.
    }
  }

  #line(level: DiagnosticLevel, component: string, message: string): DiagnosticLine {
    return {
      timestamp: new Date(this.#now()).toISOString(),
      level,
      component,
      message: firstCharacters(message, LOG_MESSAGE_MAX),
      agentVersion: AGENT_VERSION,
    };
  }
}

export interface LogShippingOptions {
  access: ServerAccess;
  deviceId: string;
  /**
   * The folder belongs to this device: after an enrollment as another one, its records are not sent under the new
   * identity.
   */
  folder: string;
  tokens: Tokens;
  reader: LogSource;
  serverClock: ServerClock;
  /** Must not call `log`, because the warning may be about the log itself. */
  warn: (message: string) => void;
  logs?: readonly string[];
  /** For tests. */
  everyMs?: number;
  spreadMs?: number;
  bufferMs?: number;
  random?: () => number;
}

const EVERY_MS = 60_000;
/** After a connection, sending begins at a random moment within this time, so that a fleet does not send at once. */
const SPREAD_MS = 10_000;
const EVENTS_MAX_BYTES = 20 * 1024 * 1024;
const LINES_MAX_BYTES = 5 * 1024 * 1024;

/**
 * Sends the machine's warnings and errors, and the agent's own log, to the server. Records that cannot be sent wait on
 * disk, within limits. Nothing else in the agent waits for this, and its failures are only warnings.
 */
export class LogShipping {
  readonly #options: LogShippingOptions;
  readonly #random: () => number;
  readonly #folder: string;
  readonly #spools: { events: Spool; lines: Spool };
  readonly #senders: { events: Sender; lines: Sender };
  readonly #machine: MachineEvents;
  readonly #own: AgentLog;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #spread: Timer | undefined;
  #collecting: Promise<void> = Promise.resolve();
  #isConnected = false;
  readonly #stateLines = new StateLines();

  constructor(options: LogShippingOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    const { access, deviceId, tokens, serverClock, reader, warn } = options;
    this.#folder = options.folder;
    const spool = (name: string, maxBytes: number) =>
      new Spool({
        folder: path.join(this.#folder, name),
        maxBytes,
        onLost: (files) => this.#warn(`The ${files} oldest batches of ${name} were dropped to make room`),
      });
    this.#spools = { events: spool('events', EVENTS_MAX_BYTES), lines: spool('lines', LINES_MAX_BYTES) };
    const at = `/agents/${encodeURIComponent(deviceId)}`;
    const both = { tokens, warn, random: this.#random };
    this.#senders = {
      events: new Sender({
        ...both,
        what: 'Events of this machine',
        spool: this.#spools.events,
        send: async (events, token, signal) =>
          put(access, `${at}/eventlogs`, { token, body: { events }, signal }),
      }),
      lines: new Sender({
        ...both,
        what: 'Lines of the agent’s log',
        spool: this.#spools.lines,
        send: async (logs, token, signal) => post(access, `${at}/logs`, { token, body: { logs }, signal }),
      }),
    };
    this.#machine = new MachineEvents({
      reader,
      logs: options.logs ?? shippedLogs(process.platform),
      file: path.join(this.#folder, 'marks.json'),
      serverTime: () => serverClock.now(),
      keep: async (events) => {
        await this.#spools.events.add(events);
        this.#senders.events.wake();
      },
      warn: (message) => this.#warn(message),
    });
    this.#own = new AgentLog({
      now: () => serverClock.now(),
      ...(options.bufferMs === undefined ? {} : { bufferMs: options.bufferMs }),
      keep: async (lines) => {
        await this.#spools.lines.add(lines);
        this.#senders.lines.wake();
      },
    });
  }

  async start(): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await this.#spools.events.open();
      await this.#spools.lines.open();
    } catch (error) {
      this.#options.warn(`Logs are not sent to the server: ${String(error)}.`);
      this.#stop.abort();
      return;
    }
    this.#collectIn(this.#random() * this.#spreadMs);
  }

  /** Adds a line to the agent's own log. */
  log(level: 'info' | 'warn' | 'error', component: string, message: string): void {
    if (!this.#stop.signal.aborted) this.#own.write(level, component, message);
  }

  /** Must be called with each state of the connection: records are sent only while there is one, and changes are logged. */
  onState(state: ConnectionState): void {
    if (this.#stop.signal.aborted) return;
    const line = this.#stateLines.next(state);
    if (line !== undefined) this.log(line.level, 'connection', line.message);
    const isConnected = reachesServer(state);
    if (isConnected === this.#isConnected) return;
    this.#isConnected = isConnected;
    clock.clear(this.#spread);
    if (!isConnected) return this.#allow(false);
    this.#spread = clock.setTimeout(() => this.#allow(true), this.#random() * this.#spreadMs).unref();
  }

  async stop(): Promise<void> {
    clock.clear(this.#timer);
    clock.clear(this.#spread);
    const wasStarted = !this.#stop.signal.aborted;
    this.#stop.abort();
    await this.#collecting;
    if (wasStarted) await this.#own.flush();
    await Promise.all([this.#senders.events.stop(), this.#senders.lines.stop()]);
  }

  get #spreadMs(): number {
    return this.#options.spreadMs ?? SPREAD_MS;
  }

  #allow(mayWork: boolean): void {
    this.#senders.events.allow(mayWork);
    this.#senders.lines.allow(mayWork);
  }

  #warn(message: string): void {
    this.#options.warn(message);
    this.log('warn', 'shipping', message);
  }

  #collectIn(ms: number): void {
    this.#timer = clock
      .setTimeout(() => {
        this.#collecting = this.#machine
          .collect(this.#stop.signal)
          .catch((error: unknown) => this.#warn(String(error)))
          .then(() => {
            if (this.#stop.signal.aborted) return;
            this.#collectIn((this.#options.everyMs ?? EVERY_MS) * (0.9 + this.#random() * 0.2));
          });
      }, ms)
      .unref();
  }
}
