import { createHash } from 'node:crypto';
import { z } from 'zod';
import { clock, type Timer } from '../../../clock.ts';
import { AgentErrorCode, type Inventory } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { type ConnectionState, reachesServer } from '../../core/connection-options.ts';
import {
  reconnectDelay,
  refusedDelay,
  type ServerAnswer,
  ServerCallError,
  uploadVerdict,
  post,
  type ServerAccess,
} from '../../core/server-call.ts';
import type { ServerClock } from '../../core/server-clock.ts';
import type { Tokens } from '../../core/tokens.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import type { DurableHandlers } from '../../work/handler.ts';
import type { MachineInventory } from './collect.ts';

/** Returns a function that sends the inventories of one device to its server. */
export const sendInventoryTo =
  (access: ServerAccess, deviceId: string) =>
  async (inventory: Inventory, token: string, signal: AbortSignal): Promise<ServerAnswer> =>
    post(access, `/agents/${encodeURIComponent(deviceId)}/inventory`, {
      token,
      body: inventory,
      compress: true,
      signal,
    });

export interface InventoryReportsOptions {
  /** @param signal  aborted when the agent stops */
  collect: (signal: AbortSignal) => Promise<MachineInventory>;
  /** Throws `ServerCallError` if the server cannot be reached. */
  send: (inventory: Inventory, token: string, signal: AbortSignal) => Promise<ServerAnswer>;
  tokens: Tokens;
  serverClock: ServerClock;
  /** Stores what was sent last. Without a file, the inventory is sent after each start. */
  file?: string;
  warn: (message: string) => void;
  /** For tests and for simulated fleets. */
  firstMs?: number;
  everyMs?: number;
  spreadMs?: number;
  refreshMs?: number;
  random?: () => number;
}

const FIRST_MS = 5000;
const EVERY_MS = 4 * 3_600_000;
/** An unchanged inventory is sent again after a day, so that the server knows that it is current. */
const DAILY_MS = 24 * 3_600_000 - 60_000;
/** After a connection, sending begins at a random moment within this time, so that a fleet does not send at once. */
const SPREAD_MS = 10_000;
/** How long a refresh waits until the server has accepted the inventory. */
const REFRESH_MS = 60_000;

const Sent = z.object({ hash: z.string(), at: z.number() });
type Sent = z.infer<typeof Sent>;

interface Pending {
  inventory: MachineInventory;
  hash: string;
  /** By the monotonic clock, because the time of the server may not be known yet. */
  at: number;
}

/** Settles a refresh: without an error, the server has accepted the inventory. */
type Settle = (failure?: AgentError) => void;

/**
 * Collects the inventory regularly, and sends it when it differs from the one that was sent last. An inventory that
 * cannot be sent waits until a newer one replaces it.
 */
export class InventoryReports {
  readonly #options: InventoryReportsOptions;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  #sent: Sent | undefined;
  #pending: Pending | undefined;
  #refreshes: Settle[] = [];
  #turn: Promise<void> = Promise.resolve();
  #sending: Promise<void> | undefined;
  #collectTimer: Timer | undefined;
  #sendTimer: Timer | undefined;
  #isConnected = false;
  #failures = 0;
  #lastFailure = '';

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
    this.#collectIn(firstMs * this.#random());
  }

  /** Must be called with each state of the connection: the inventory is sent only while there is one. */
  onState(state: ConnectionState): void {
    const isConnected = reachesServer(state);
    if (isConnected === this.#isConnected || this.#stop.signal.aborted) return;
    this.#isConnected = isConnected;
    clock.clear(this.#sendTimer);
    this.#sendTimer = undefined;
    if (isConnected) this.#sendIn(this.#random() * (this.#options.spreadMs ?? SPREAD_MS));
  }

  /** Collects the inventory now and sends it, changed or not. Resolves when the server has accepted it. */
  async refresh(signal: AbortSignal): Promise<void> {
    let settle: Settle = () => {};
    const accepted = new Promise<void>((resolve, reject) => {
      settle = (failure) => (failure === undefined ? resolve() : reject(failure));
    });
    await this.#collect(settle);
    // A refresh does not wait for the next attempt, or for the random delay after a connection.
    clock.clear(this.#sendTimer);
    this.#sendTimer = undefined;
    this.#wake();
    const ms = this.#options.refreshMs ?? REFRESH_MS;
    const within = AbortSignal.any([signal, this.#stop.signal]);
    const late = clock.sleep(ms, { signal: within, unref: true }).then(
      () => {
        throw new AgentError(AgentErrorCode.failed, `${NOT_YET} ${this.#lastFailure}`.trim());
      },
      () => {
        throw new AgentError(AgentErrorCode.cancelled, NOT_YET);
      },
    );
    await Promise.race([accepted, late]);
  }

  async stop(): Promise<void> {
    clock.clear(this.#collectTimer);
    clock.clear(this.#sendTimer);
    this.#isConnected = false;
    this.#stop.abort();
    await this.#turn;
    await this.#sending;
  }

  #collectIn(ms: number): void {
    this.#collectTimer = clock
      .setTimeout(() => {
        const { everyMs = EVERY_MS } = this.#options;
        this.#collect()
          .catch((error: unknown) => this.#warnOnce(String(error)))
          .then(
            () => this.#collectIn(everyMs * (0.9 + this.#random() * 0.2)),
            () => {},
          );
      }, ms)
      .unref();
  }

  /** Collections run one after another, because they start the same programs. */
  async #collect(settle?: Settle): Promise<void> {
    const collection = this.#turn.then(async () => {
      if (this.#stop.signal.aborted) return;
      const inventory = await this.#options.collect(this.#stop.signal);
      // A read that was aborted has not failed.
      if (this.#stop.signal.aborted) return;
      const hash = createHash('sha256').update(JSON.stringify(inventory)).digest('hex');
      const last = this.#sent;
      const isDue = last?.hash !== hash || clock.now() - last.at > DAILY_MS || clock.now() < last.at;
      // Any other inventory replaces a pending one, even one equal to the last that was sent: the machine may have
      // changed back.
      const isKnown = this.#pending === undefined ? !isDue : this.#pending.hash === hash;
      if (isKnown && settle === undefined) return;
      this.#pending = { inventory, hash, at: clock.monotonic() };
      if (settle !== undefined) this.#refreshes.push(settle);
    });
    this.#turn = collection.catch(() => {});
    await collection;
    if (this.#sendTimer === undefined) this.#wake();
  }

  #wake(): void {
    if (!this.#isConnected || this.#stop.signal.aborted) return;
    this.#sending ??= this.#sendAll()
      .catch((error: unknown) => {
        this.#warnOnce(`The inventory of this machine cannot be sent: ${String(error)}`);
        this.#sendIn(refusedDelay(this.#failures++, this.#random));
      })
      .finally(() => {
        this.#sending = undefined;
      });
  }

  #sendIn(ms: number): void {
    this.#sendTimer = clock
      .setTimeout(() => {
        this.#sendTimer = undefined;
        this.#wake();
      }, ms)
      .unref();
  }

  async #sendAll(): Promise<void> {
    while (this.#pending !== undefined && this.#isConnected) {
      const pending = this.#pending;
      const refreshes = this.#refreshes.length;
      const waitMs = await this.#sendOne(pending, refreshes);
      if (waitMs === undefined) {
        this.#failures = 0;
        // A newer one may have replaced it.
        if (this.#pending === pending) this.#pending = undefined;
        continue;
      }
      this.#failures += 1;
      if (this.#isConnected) this.#sendIn(waitMs);
      return;
    }
  }

  /** Returns how long to wait before the next attempt; `undefined` if none is needed. */
  async #sendOne({ inventory, hash, at }: Pending, refreshes: number): Promise<number | undefined> {
    const { tokens, send, serverClock } = this.#options;
    const collectedAt = new Date(serverClock.now() - (clock.monotonic() - at)).toISOString();
    const token = await tokens.current();
    let answer: ServerAnswer;
    try {
      answer = await send(
        { ...withoutFuture(inventory, collectedAt), collectedAt },
        token,
        this.#stop.signal,
      );
    } catch (error) {
      if (!(error instanceof ServerCallError)) throw error;
      this.#lastFailure = error.message;
      return reconnectDelay(this.#failures, this.#random);
    }
    this.#lastFailure = answer.refusal ?? '';
    const verdict = uploadVerdict(answer, this.#failures, this.#random);
    switch (verdict.do) {
      case 'done':
        await tokens.accepted(token);
        await this.#remember({ hash, at: clock.now() });
        this.#settle(refreshes);
        return undefined;
      case 'resend':
      case 'give-up': {
        // The agent has already applied the limits, and cannot know what the server would accept instead.
        const message = `The server refused the inventory of this machine: ${answer.refusal ?? ''}`;
        this.#warnOnce(message);
        this.#settle(refreshes, new AgentError(AgentErrorCode.failed, message));
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
    // If this fails, the inventory is sent once more after the next start, which is harmless.
    await writePrivateJson(file, sent).catch(() => {});
  }

  /** @param count  how many refreshes waited when it was sent; the later ones wait for a later inventory */
  #settle(count: number, failure?: AgentError): void {
    for (const settle of this.#refreshes.splice(0, count)) settle(failure);
  }

  #warnOnce(message: string): void {
    if (message !== this.#lastFailure) this.#options.warn(message);
    this.#lastFailure = message;
  }
}

const NOT_YET = 'The inventory was collected, but the server has not accepted it yet.';

export function inventoryHandlers(parts: {
  /** Reads the facts of the heartbeat again and sends them at once. */
  reportNow: () => void;
  /** Resolves when the server has accepted the current inventory. */
  refreshInventory: (signal: AbortSignal) => Promise<void>;
}): DurableHandlers {
  return {
    async 'agent.refresh-inventory'(_payload, { signal }) {
      parts.reportNow();
      await parts.refreshInventory(signal);
      return {};
    },
  };
}

/** The clock of the machine may be ahead. The server refuses an inventory with times that are in the future for it. */
function withoutFuture({ software, ...rest }: MachineInventory, collectedAt: string): MachineInventory {
  if (software === undefined) return rest;
  return {
    ...rest,
    software: software.map(({ installedAt, ...entry }) =>
      installedAt === undefined || Date.parse(installedAt) > Date.parse(collectedAt)
        ? entry
        : { ...entry, installedAt },
    ),
  };
}
