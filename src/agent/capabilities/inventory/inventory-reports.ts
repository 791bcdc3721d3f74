import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { AgentErrorCode, type Inventory } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { reconnectDelay, refusedDelay } from '../../core/server/back-off.ts';
import type { ConnectionState } from '../../core/connection/connection.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { type ServerAnswer, ServerCallError } from '../../core/server/server-call.ts';
import type { ServerClock } from '../../core/server/server-clock.ts';
import { batchVerdict } from '../../core/server/upload-verdict.ts';
import type { Tokens } from '../../core/enrollment/tokens.ts';
import type { Gathered } from './fit.ts';

export interface InventoryReportsOptions {
  /** @param signal  ends what it has started */
  gather: (signal: AbortSignal) => Promise<Gathered>;
  /** Throws `ServerCallError` where the server is not reached. */
  send: (inventory: Inventory, token: string, signal: AbortSignal) => Promise<ServerAnswer>;
  tokens: Tokens;
  clock: ServerClock;
  /** Remembers what was sent last; without one it is sent after each start. */
  file?: string;
  warn: (message: string) => void;
  /** For tests, and for machines of which there are many. */
  firstMs?: number;
  everyMs?: number;
  spreadMs?: number;
  refreshMs?: number;
  random?: () => number;
}

const FIRST_MS = 5000;
const EVERY_MS = 4 * 3_600_000;
/** What has not changed is said again, so that the server knows that it is still so. */
const DAILY_MS = 24 * 3_600_000 - 60_000;
/** After a connection: a fleet that comes back at once does not send all it has at once. */
const SPREAD_MS = 10_000;
/** How long somebody who asks for an inventory waits for the server to have it. */
const REFRESH_MS = 60_000;

const Sent = z.object({ hash: z.string(), at: z.number() });
type Sent = z.infer<typeof Sent>;

interface Waiting {
  gathered: Gathered;
  hash: string;
  /** By a clock that only counts: what time it was, the server may not have told yet. */
  at: number;
}

/** Told what has become of the inventory that was asked for. */
type Asker = (failure?: AgentError) => void;

/**
 * Looks at the machine now and then, and tells the server what is not as it was told before. What cannot be sent waits,
 * the latest alone: of two states of a machine the older one is of no use.
 */
export class InventoryReports {
  readonly #options: InventoryReportsOptions;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  #sent: Sent | undefined;
  #waiting: Waiting | undefined;
  #askers: Asker[] = [];
  #turn: Promise<void> = Promise.resolve();
  #sending: Promise<void> | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #sendTimer: NodeJS.Timeout | undefined;
  #isConnected = false;
  #failures = 0;
  #lastFault = '';

  constructor(options: InventoryReportsOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
  }

  async start(): Promise<void> {
    const { file, firstMs = FIRST_MS } = this.#options;
    const kept = Sent.safeParse(
      file === undefined ? undefined : await readPrivateJson(file).catch(() => undefined),
    );
    this.#sent = kept.data;
    this.#lookIn(firstMs * this.#random());
  }

  /** Told how the connection stands: sends only while there is one. */
  onState({ state }: ConnectionState): void {
    const isConnected = state === 'connected';
    if (isConnected === this.#isConnected || this.#stop.signal.aborted) return;
    this.#isConnected = isConnected;
    clearTimeout(this.#sendTimer);
    this.#sendTimer = undefined;
    if (isConnected) this.#sendIn(this.#random() * (this.#options.spreadMs ?? SPREAD_MS));
  }

  /** Looks at the machine now, whether anything has changed or not. Resolves when the server has taken it. */
  async refresh(signal: AbortSignal): Promise<void> {
    let tell: Asker = () => {};
    const taken = new Promise<void>((resolve, reject) => {
      tell = (failure) => (failure === undefined ? resolve() : reject(failure));
    });
    await this.#look(tell);
    // Nobody who asks waits for a wait that is over, or for the spread after a connection.
    clearTimeout(this.#sendTimer);
    this.#sendTimer = undefined;
    this.#wake();
    const ms = this.#options.refreshMs ?? REFRESH_MS;
    const within = AbortSignal.any([signal, this.#stop.signal]);
    const late = delay(ms, undefined, { signal: within, ref: false }).then(
      () => {
        throw new AgentError(AgentErrorCode.failed, `${NOT_YET} ${this.#lastFault}`.trim());
      },
      () => {
        throw new AgentError(AgentErrorCode.cancelled, NOT_YET);
      },
    );
    await Promise.race([taken, late]);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#lookTimer);
    clearTimeout(this.#sendTimer);
    this.#isConnected = false;
    this.#stop.abort();
    await this.#turn;
    await this.#sending;
  }

  #lookIn(ms: number): void {
    this.#lookTimer = setTimeout(() => {
      const { everyMs = EVERY_MS } = this.#options;
      this.#look()
        .catch((error: unknown) => this.#tell(String(error)))
        .then(
          () => this.#lookIn(everyMs * (0.9 + this.#random() * 0.2)),
          () => {},
        );
    }, ms).unref();
  }

  /** One look at a time: they start the same programs. */
  async #look(asker?: Asker): Promise<void> {
    const look = this.#turn.then(async () => {
      if (this.#stop.signal.aborted) return;
      const gathered = await this.#options.gather(this.#stop.signal);
      const hash = createHash('sha256').update(JSON.stringify(gathered)).digest('hex');
      const told = this.#sent;
      const isNews = told?.hash !== hash || Date.now() - told.at > DAILY_MS || Date.now() < told.at;
      // One that waits is replaced by whatever differs, even by what the server knows: it may be as it was again.
      const isTold = this.#waiting === undefined ? !isNews : this.#waiting.hash === hash;
      if (isTold && asker === undefined) return;
      this.#waiting = { gathered, hash, at: performance.now() };
      if (asker !== undefined) this.#askers.push(asker);
    });
    this.#turn = look.catch(() => {});
    await look;
    if (this.#sendTimer === undefined) this.#wake();
  }

  #wake(): void {
    if (!this.#isConnected || this.#stop.signal.aborted) return;
    this.#sending ??= this.#sendAll()
      .catch((error: unknown) => {
        this.#tell(`The inventory of this machine cannot be sent: ${String(error)}`);
        this.#sendIn(refusedDelay(this.#failures++, this.#random));
      })
      .finally(() => {
        this.#sending = undefined;
      });
  }

  #sendIn(ms: number): void {
    this.#sendTimer = setTimeout(() => {
      this.#sendTimer = undefined;
      this.#wake();
    }, ms).unref();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting !== undefined && this.#isConnected) {
      const waiting = this.#waiting;
      const askers = this.#askers.length;
      const waitMs = await this.#ship(waiting, askers);
      if (waitMs === undefined) {
        this.#failures = 0;
        // A newer one may have come meanwhile.
        if (this.#waiting === waiting) this.#waiting = undefined;
        continue;
      }
      this.#failures += 1;
      if (this.#isConnected) this.#sendIn(waitMs);
      return;
    }
  }

  /** Answers how long to wait before it is tried again; `undefined` where it is settled. */
  async #ship({ gathered, hash, at }: Waiting, askers: number): Promise<number | undefined> {
    const { tokens, send, clock } = this.#options;
    const collectedAt = new Date(clock.now() - (performance.now() - at)).toISOString();
    const token = await tokens.current();
    let answer: ServerAnswer;
    try {
      answer = await send({ ...gathered, collectedAt }, token, this.#stop.signal);
    } catch (error) {
      if (!(error instanceof ServerCallError)) throw error;
      this.#lastFault = error.message;
      return reconnectDelay(this.#failures, this.#random);
    }
    this.#lastFault = answer.refusal ?? '';
    const verdict = batchVerdict(answer, this.#failures, this.#random);
    switch (verdict.do) {
      case 'done':
        await tokens.accepted(token);
        await this.#remember({ hash, at: Date.now() });
        this.#settle(askers);
        return undefined;
      case 'resend':
      case 'give-up': {
        // It was made to be taken, so it is not for this agent to guess what would be.
        const message = `The server refused the inventory of this machine: ${answer.refusal ?? ''}`;
        this.#tell(message);
        this.#settle(askers, new AgentError(AgentErrorCode.failed, message));
        return undefined;
      }
      case 'other-token':
        return tokens.refused(token)
          ? reconnectDelay(1, this.#random)
          : refusedDelay(this.#failures, this.#random);
      case 'wait':
        return verdict.ms;
      default:
        return verdict satisfies never;
    }
  }

  async #remember(sent: Sent): Promise<void> {
    this.#sent = sent;
    const { file } = this.#options;
    if (file === undefined) return;
    // It is sent once more after the next start, which does no harm.
    await writePrivateJson(file, sent).catch(() => {});
  }

  /** @param askers  how many had asked when it was sent: the others ask for a later one */
  #settle(askers: number, failure?: AgentError): void {
    for (const asker of this.#askers.splice(0, askers)) asker(failure);
  }

  #tell(message: string): void {
    if (message !== this.#lastFault) this.#options.warn(message);
    this.#lastFault = message;
  }
}

const NOT_YET = 'The inventory was gathered, and the server has not taken it yet.';
