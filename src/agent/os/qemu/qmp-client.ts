import { connect, type Socket } from 'node:net';
import { StringDecoder } from 'node:string_decoder';
import { z } from 'zod';
import { clock, type Timer } from '../../../clock.ts';
import { shortened } from '../../../protocol/index.ts';

/** Speaks with the monitor of a qemu process (QMP): JSON lines over a socket. */

/** `query-named-block-nodes` of a machine with many disks takes some hundred kilobytes. */
const LINE_MAX = 4_000_000;
const CONNECT_MS = 10_000;
const COMMAND_MS = 30_000;
/** The most pending commands; callers never have more. */
const PENDING_MAX = 64;

const Greeting = z.object({ QMP: z.object({}) });
const Message = z.union([
  z.object({ event: z.string().max(200), data: z.record(z.string(), z.unknown()).optional() }),
  z.object({ id: z.number().int(), return: z.unknown() }),
  z.object({
    id: z.number().int(),
    error: z.object({
      class: z.string().max(200),
      desc: z.string().transform((text) => shortened(text, 1000)),
    }),
  }),
]);

/** qemu has refused a command. */
export class QmpRefusal extends Error {
  readonly errorClass: string;

  constructor(command: string, { class: errorClass, desc }: { class: string; desc: string }) {
    super(`qemu refuses ${command}: ${desc}`);
    this.name = 'QmpRefusal';
    this.errorClass = errorClass;
  }
}

/** The monitor is gone, does not respond, or does not speak QMP. */
export class QmpLost extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'QmpLost';
  }
}

export interface QmpOptions {
  onEvent?: (event: string, data: Record<string, unknown>) => void;
  connectMs?: number;
  /** The time limit of a reply. */
  commandMs?: number;
}

interface Pending {
  command: string;
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  timer: Timer;
}

export class QmpClient {
  readonly #socket: Socket;
  readonly #lines = new QmpLines(LINE_MAX);
  readonly #pending = new Map<number, Pending>();
  readonly #options: QmpOptions;
  readonly #greeted: Promise<void>;
  #onGreeting: () => void = () => {};
  #onRefusedGreeting: (error: Error) => void = () => {};
  #isGreeted = false;
  #lost: Error | undefined;
  #lastId = 0;

  private constructor(socket: Socket, options: QmpOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#greeted = new Promise((resolve, reject) => {
      this.#onGreeting = resolve;
      this.#onRefusedGreeting = reject;
    });
    // The connection may be lost before the caller waits for the greeting.
    this.#greeted.catch(() => {});
    socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    socket.on('error', (error) => this.#lose(new QmpLost(`The monitor cannot be reached: ${error.message}`)));
    socket.on('close', () => this.#lose(new QmpLost('The monitor has closed the connection.')));
  }

  /** Resolves when commands can be sent. Only one client at a time is served, so a second one times out. */
  static async connect(socketPath: string, options: QmpOptions = {}): Promise<QmpClient> {
    const { connectMs = CONNECT_MS } = options;
    const client = new QmpClient(connect(socketPath), options);
    const timer = clock.setTimeout(
      () => client.#lose(new QmpLost(`The monitor has not answered for ${connectMs} ms.`)),
      connectMs,
    );
    try {
      await client.#greeted;
      await client.execute('qmp_capabilities');
      return client;
    } catch (error) {
      client.close();
      throw error;
    } finally {
      clock.clear(timer);
    }
  }

  /** Rejects with `QmpRefusal` if qemu refuses the command, and with `QmpLost` if there is no usable reply. */
  async execute(command: string, args: Record<string, unknown> = {}): Promise<unknown> {
    if (this.#lost !== undefined) throw this.#lost;
    if (this.#pending.size >= PENDING_MAX) throw new QmpLost('Too many commands wait for the monitor.');
    const id = (this.#lastId += 1);
    const { commandMs = COMMAND_MS } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = clock.setTimeout(
        () => this.#lose(new QmpLost(`The monitor has not answered ${command} for ${commandMs} ms.`)),
        commandMs,
      );
      this.#pending.set(id, { command, resolve, reject, timer });
      this.#socket.write(`${JSON.stringify({ execute: command, arguments: args, id })}\n`);
    });
  }

  /** The same, with a reply of a known shape. Throws `QmpLost` for any other. */
  async ask<S extends z.ZodType>(
    command: string,
    answer: S,
    args: Record<string, unknown> = {},
  ): Promise<z.output<S>> {
    const parsed = answer.safeParse(await this.execute(command, args));
    if (parsed.success) return parsed.data;
    throw new QmpLost(
      `The monitor answers ${command} in an unknown way: ${parsed.error.issues[0]?.message ?? ''}`,
    );
  }

  close(): void {
    this.#lose(new QmpLost('The connection to the monitor was closed.'));
  }

  #receive(bytes: Buffer): void {
    if (this.#lost !== undefined) return;
    try {
      for (const line of this.#lines.push(bytes)) this.#take(JSON.parse(line));
    } catch (error) {
      this.#lose(
        new QmpLost(`The monitor does not speak QMP: ${error instanceof Error ? error.message : ''}`),
      );
    }
  }

  #take(value: unknown): void {
    if (!this.#isGreeted) {
      Greeting.parse(value);
      this.#isGreeted = true;
      this.#onGreeting();
      return;
    }
    const message = Message.parse(value);
    if ('event' in message) {
      this.#options.onEvent?.(message.event, message.data ?? {});
      return;
    }
    const pending = this.#pending.get(message.id);
    // A second reply to the same command is ignored.
    if (pending === undefined) return;
    this.#pending.delete(message.id);
    clock.clear(pending.timer);
    if ('error' in message) pending.reject(new QmpRefusal(pending.command, message.error));
    else pending.resolve(message.return);
  }

  #lose(error: Error): void {
    if (this.#lost !== undefined) return;
    this.#lost = error;
    this.#socket.destroy();
    this.#onRefusedGreeting(error);
    for (const { reject, timer } of this.#pending.values()) {
      clock.clear(timer);
      reject(error);
    }
    this.#pending.clear();
  }
}

/** Block jobs of qemu. They continue without a connection, and their end is kept until it is dismissed. */

const Jobs = z.array(
  z.object({
    id: z.string(),
    type: z.string(),
    status: z.string(),
    'current-progress': z.number().nonnegative(),
    'total-progress': z.number().nonnegative(),
    error: z.string().optional(),
  }),
);

interface BlockJob {
  id: string;
  status: string;
  done: number;
  total: number;
  error: string | undefined;
}

export async function listJobs(monitor: QmpClient): Promise<BlockJob[]> {
  const jobs = await monitor.ask('query-jobs', Jobs);
  return jobs.map(({ id, status, error, ...job }) => ({
    id,
    status,
    error,
    done: job['current-progress'],
    total: job['total-progress'],
  }));
}

export const streamJob = (node: string) => `stream-${node}`;

/**
 * Starts to copy the remaining content of a node from its base. `auto-dismiss` is off, so that its end and its error
 * can be read.
 */
export async function beginStream(monitor: QmpClient, node: string): Promise<void> {
  await monitor.execute('block-stream', {
    'job-id': streamJob(node),
    device: node,
    'auto-dismiss': false,
    // A full disk stops the copy and not the guest, and the copy can be started again.
    'on-error': 'report',
  });
}

export const dismissJob = (monitor: QmpClient, id: string) => monitor.execute('job-dismiss', { id });

/** Splits the output of a monitor into lines. A line that exceeds the limit ends the connection. */
class QmpLines {
  readonly #decoder = new StringDecoder('utf8');
  readonly #max: number;
  #rest: string[] = [];
  #length = 0;

  constructor(maxLength: number) {
    this.#max = maxLength;
  }

  /** Throws if a line is too long. */
  push(bytes: Buffer): string[] {
    const [first = '', ...others] = this.#decoder.write(bytes).split('\n');
    this.#keep(first);
    const lines: string[] = [];
    for (const text of others) {
      lines.push(this.#rest.join('').trim());
      this.#rest = [];
      this.#length = 0;
      this.#keep(text);
    }
    return lines.filter((line) => line !== '');
  }

  #keep(text: string): void {
    this.#length += text.length;
    if (this.#length > this.#max) {
      throw new Error(`The monitor wrote a line of more than ${this.#max} characters.`);
    }
    if (text !== '') this.#rest.push(text);
  }
}
