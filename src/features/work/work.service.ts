import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../platform/metrics.ts';
import {
  announceCommands,
  cancelServerCommand,
  type EndedCommand,
  findEndOfCommand,
  setWorkOfCommand,
} from '../commands/index.ts';
import { itemOf } from './attempt.ts';
import { behaved, type WorkBehavior, type WorkEnd, type WorkItem, type WorkKind } from './definition.ts';
import { WORK_TIMING, WorkDispatcher, type WorkTiming } from './dispatcher.ts';
import { insertPlainWork, insertWork, type PlainWork } from './new-work.queries.ts';
import { endUnheld, lockWork, putOnDevice, requestCancelOfWork, setPaused } from './work.queries.ts';

export interface EnqueueOptions {
  /** The id, which the row of the feature shares. */
  id?: string;
  orgId?: string | null;
  deviceId?: string | null;
  /** Of work that belongs to no organization. */
  partnerId?: string | null;
  createdBy?: string | null;
  /** A person waits for it. */
  isUrgent?: boolean;
  delayMs?: number;
  deadlineMs?: number;
  /** What only so many use at a time, as the limits of the kind say. */
  target?: string;
  /** How many use this target at a time, if it is not what the kind says. */
  targetLimit?: number;
  /** Nothing is added while work of this kind with the same key is open. */
  exclusiveKey?: string;
  /** Work that has to end first; it fails this work if it does not succeed, unless only its end counts. */
  needs?: readonly { id: string; mustSucceed: boolean }[];
}

export interface WorkEngineOptions {
  /** A pool of background work, so that it and requests never wait for each other's connections. */
  db: Db;
  nodeId: string;
  log: Logger;
  metrics?: Metrics | undefined;
  timing?: Partial<WorkTiming> | undefined;
}

/** Long work: started by features, done by whichever server claims it (docs/decisions/work.md). */
export class WorkEngine {
  readonly #dispatcher: WorkDispatcher;
  readonly #commands = new Set<string>();
  #hub: DeviceHub | undefined;

  constructor({ db, nodeId, log, metrics, timing }: WorkEngineOptions) {
    const ends = metrics?.counter(
      'muster_work_attempts_total',
      'Attempts at steps of work, by kind and outcome.',
      ['kind', 'outcome'],
    );
    this.#dispatcher = new WorkDispatcher({
      db,
      nodeId,
      log,
      timing: { ...WORK_TIMING, ...timing },
      onCommands: (commands) => {
        if (this.#hub !== undefined) announceCommands(this.#hub, commands);
      },
      onEnd: (kind, outcome) => ends?.inc({ kind, outcome }),
    });
  }

  /** Gives a kind its behavior. To be called before the start. */
  add<Input>(kind: WorkKind<Input>, behavior: WorkBehavior<NoInfer<Input>>): void {
    this.#dispatcher.add(behaved(kind, behavior));
    for (const type of kind.commands) this.#commands.add(type);
  }

  /** The hub carries the commands that work gives to devices. To be called before the start. */
  connect(hub: DeviceHub): void {
    this.#hub = hub;
  }

  get #connected(): DeviceHub {
    if (this.#hub === undefined) throw new Error('The work engine is not connected to the hub.');
    return this.#hub;
  }

  /**
   * Adds work in the transaction of the caller.
   * @returns its id; `undefined` if work of the kind with the same exclusive key is open
   */
  async enqueue<Input>(
    tx: Tx,
    kind: EnqueuedKind<Input>,
    input: NoInfer<Input>,
    options: EnqueueOptions = {},
  ): Promise<string | undefined> {
    const id = await insert(tx, kind, input, options);
    if (id === undefined) return undefined;
    this.#wakeAfter(tx);
    return id;
  }

  /**
   * The same for many pieces that need no input, in one statement.
   * @returns the ids of those that were added
   */
  async enqueueMany(
    tx: Tx,
    kind: EnqueuedKind<Record<string, never>>,
    pieces: readonly PlainWork[],
  ): Promise<Set<string>> {
    if (pieces.length === 0) return new Set();
    const added = await insertPlainWork(tx, kind, pieces);
    this.#wakeAfter(tx);
    return added;
  }

  /** Other servers find the work with their next look. */
  #wakeAfter(tx: Tx): void {
    void tx.executionPromise.then(
      () => this.#dispatcher.wake(),
      () => {},
    );
  }

  /**
   * Cancels work. Work that has not begun ends at once; a step or a device that has begun is told to stop, and the work is
   * cancelled when it has.
   * @throws AppError `not_found`, and `conflict` if it has ended
   */
  async cancel({ tx, afterCommit }: Pick<Context, 'tx' | 'afterCommit'>, id: string): Promise<void> {
    // A command is locked before its work, as when its device reports: otherwise both could wait for each other.
    const before = await tx('work')
      .where({ id })
      .first<{ command_id: string | null } | undefined>('command_id');
    if (before === undefined) throw notFound('Work');
    const request =
      before.command_id === null
        ? undefined
        : await cancelServerCommand(tx, before.command_id, this.#connected);
    const work = await lockWork(tx, id);
    if (work === undefined) throw notFound('Work');
    if (work.hasEnded) throw new AppError('conflict', 'The work has already ended.');
    if (work.commandId !== before.command_id) {
      throw new AppError('conflict', 'The work is just being given to its device. Try again.');
    }
    await requestCancelOfWork(tx, id);
    // Also if the device had not been sent its command, which ended with the request.
    const isUnheld =
      (work.stage === 'ready' || work.stage === 'parked') &&
      (work.commandId === null || request?.hasEnded === true);
    const kind = this.#dispatcher.kind(work.kind);
    // Of a kind that only another release knows: a server of that one ends it.
    if (isUnheld && kind !== undefined) {
      await endUnheld(tx, id, { status: 'cancelled' });
      await kind.settle?.(tx, itemOf(work), { status: 'cancelled' });
    }
    afterCommit(() => {
      request?.announce();
      this.#dispatcher.wake();
    });
  }

  /** Stops the work where it can go on later. What a device has begun is not stopped. Returns whether it was paused. */
  async pause({ tx, afterCommit }: Pick<Context, 'tx' | 'afterCommit'>, id: string): Promise<boolean> {
    afterCommit(() => this.#dispatcher.wake());
    return setPaused(tx, id, true);
  }

  async resume({ tx, afterCommit }: Pick<Context, 'tx' | 'afterCommit'>, id: string): Promise<boolean> {
    afterCommit(() => this.#dispatcher.wake());
    return setPaused(tx, id, false);
  }

  /** The database has made work due by itself, at the end of commands of these types. */
  commandsEnded(types: readonly string[]): void {
    if (types.some((type) => this.#commands.has(type))) this.#dispatcher.wake();
  }

  /** Call it when the new presence of devices is in the database. */
  devicesTurned(deviceIds: readonly string[]): void {
    this.#dispatcher.turned(deviceIds);
  }

  wake(): void {
    this.#dispatcher.wake();
  }

  settle(): Promise<void> {
    return this.#dispatcher.settle();
  }

  start(): void {
    this.#dispatcher.start();
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }
}

type EnqueuedKind<Input> = Pick<
  WorkKind<Input>,
  'kind' | 'input' | 'steps' | 'deadlineMs' | 'keptDays' | 'runsOnServer'
>;

async function insert<Input>(
  tx: Tx,
  { kind, input: schema, steps, deadlineMs, keptDays, runsOnServer }: EnqueuedKind<Input>,
  input: Input,
  { id = newId(), needs = [], delayMs = 0, ...options }: EnqueueOptions,
): Promise<string | undefined> {
  const isAdded = await insertWork(tx, {
    id,
    kind,
    partnerId: options.partnerId ?? null,
    orgId: options.orgId ?? null,
    deviceId: options.deviceId ?? null,
    input: JSON.stringify(schema.parse(input)),
    step: steps[0],
    createdBy: options.createdBy ?? null,
    delaySeconds: delayMs / 1000,
    deadlineSeconds: (options.deadlineMs ?? deadlineMs) / 1000,
    keptDays,
    waitsForDevice: !runsOnServer && options.deviceId != null && delayMs === 0 && needs.length === 0,
    isUrgent: options.isUrgent ?? false,
    target: options.target ?? null,
    targetLimit: options.targetLimit ?? null,
    exclusiveKey: options.exclusiveKey ?? null,
    needs,
  });
  return isAdded ? id : undefined;
}

interface GivenOptions extends Omit<EnqueueOptions, 'needs' | 'delayMs'> {
  /** Of the ledger, added in the same transaction. */
  command: { id: string };
  /** What is done when the command has ended. */
  step: string;
}

/**
 * Adds work that its device is given in the same transaction.
 * @returns its id
 */
export async function giveWork<Input>(
  tx: Tx,
  kind: EnqueuedKind<Input>,
  input: NoInfer<Input>,
  options: GivenOptions,
): Promise<string> {
  const id = await insert(tx, kind, input, options);
  if (id === undefined) throw new Error('Work with this exclusive key is open.');
  await giveWorkAgain(tx, id, kind, options);
  return id;
}

/**
 * Gives its device work again that has ended.
 * @throws AppError `conflict` if it has not
 */
export async function giveWorkAgain(
  tx: Tx,
  id: string,
  kind: Pick<WorkKind, 'deadlineMs'>,
  { command, step, deadlineMs = kind.deadlineMs }: Pick<GivenOptions, 'command' | 'step' | 'deadlineMs'>,
): Promise<void> {
  const order = { commandId: command.id, step, deadlineSeconds: deadlineMs / 1000 };
  if (!(await putOnDevice(tx, id, order))) throw new AppError('conflict', 'The work has not ended yet.');
  await setWorkOfCommand(tx, command.id, id);
}

/** How the command has ended that the work gave to its device. Throws if it has not. */
export async function endOfCommand(
  tx: Tx,
  { commandId }: Pick<WorkItem, 'commandId'>,
): Promise<EndedCommand> {
  const end = commandId === null ? undefined : await findEndOfCommand(tx, commandId);
  if (end === undefined) throw new Error('The command of the work has not ended.');
  return end;
}

/**
 * Records work that other work has done in passing: it ends in the transaction in which it is added, and is not settled.
 * @returns its id, which the row of the feature shares
 */
export async function recordWork<Input>(
  tx: Tx,
  kind: EnqueuedKind<Input>,
  input: NoInfer<Input>,
  { status, code, message }: WorkEnd,
  options: Omit<EnqueueOptions, 'id' | 'exclusiveKey' | 'needs'> = {},
): Promise<string> {
  const id = newId();
  await insert(tx, kind, input, { ...options, id });
  await endUnheld(tx, id, { status, code: code ?? null, message: message ?? null });
  return id;
}
