import { z } from 'zod';
import { MINUTE_MS } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { holds } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { loadUserRights, type UserRights } from '../auth/index.ts';
import { reachesOwner } from '../owners/index.ts';
import type { StepOutcome, WorkEnd, WorkEngine, WorkItem, WorkRun } from '../work/index.ts';
import { afterQuery, type DeviceAnswer, EntryCollector, type Failure, spreadMs } from './asking.ts';
import {
  ASKING,
  markAsked,
  markWaiting,
  readStanding,
  type Standing,
  storeAnswer,
  storeNoAnswer,
} from './question.queries.ts';

export interface AskingParts {
  db: Db;
  hub: Pick<DeviceHub, 'query'>;
  work: WorkEngine;
}

/** The permission of live queries of event logs. */
export const ASKS = 'devices:read';

/** A device that has just connected is busy, and so are the servers when many have. */
const SETTLES_MS = 2000;
const SPREAD_MS = 10_000;
/** Until a device is asked again that could not be asked, or gave no answer. */
const AGAIN_MS = 5 * MINUTE_MS;
const BUSY_MS = 30_000;

/** What the end of a piece of work means for the question. An end by the engine itself has neither. */
type Result = { answer: DeviceAnswer } | { failure: Failure };

/** Asks devices what standing questions want to know, one piece of work for each (docs/decisions/event-log-questions.md). */
export function addAskingWork(parts: AskingParts): void {
  parts.work.add(ASKING, {
    steps: { await: (run) => awaitDevice(parts, run), ask: (run) => ask(parts, run) },
    settle,
  });
}

async function awaitDevice({ db }: AskingParts, { id }: WorkRun): Promise<StepOutcome> {
  const standing = await withSystem(db, 'read whether a device can be asked', (tx) => readStanding(tx, id));
  if (standing === undefined) return DELETED;
  if (!standing.isConnected) return { until: 'connected' };
  return { next: 'ask', afterMs: SETTLES_MS + spreadMs(standing.deviceId, SPREAD_MS) };
}

/** The answers of a deleted question have gone with it. */
const DELETED: StepOutcome = { end: { status: 'cancelled' } };

const failed = (failure: Failure): StepOutcome => {
  const result: Result = { failure };
  return { end: { status: 'failed', ...failure, result } };
};

async function ask({ db, hub }: AskingParts, run: WorkRun): Promise<StepOutcome> {
  const { id, signal } = run;
  const begun = await withSystem(
    db,
    'read whether a device may be asked, and note that it is',
    async (tx) => {
      await run.hold(tx);
      const standing = await readStanding(tx, id);
      if (standing === undefined) return DELETED;
      const refusal = await refusalOf(tx, standing);
      if (refusal !== undefined) return failed(refusal);
      if (!standing.isConnected) return { next: 'await' };
      if (!standing.mayBeAsked) return { waitMs: AGAIN_MS };
      return { ...standing, asks: await markAsked(tx, id) };
    },
  );
  if (!('asks' in begun)) return begun;

  const collected = new EntryCollector();
  const outcome = await hub.query(begun.deviceId, {
    type: 'eventlogs.query',
    payload: { ...begun.query, page: 1, limit: begun.atMostRows },
    maxRows: begun.atMostRows,
    onRows: (rows) => collected.add(rows),
    signal,
  });
  signal.throwIfAborted();
  const next = afterQuery(outcome, collected, begun.asks);
  switch (next.move) {
    case 'answered': {
      const result: Result = { answer: next.answer };
      return { end: { status: 'completed', result } };
    }
    case 'failed':
      return failed(next.failure);
    case 'not_asked':
    case 'again':
      await withSystem(db, 'note that a device is asked later', async (tx) => {
        await run.hold(tx);
        await markWaiting(tx, id, { counts: next.move === 'again' });
      });
      return { next: 'await', afterMs: next.move === 'again' ? AGAIN_MS : BUSY_MS };
    default:
      return next satisfies never;
  }
}

const MOVED = {
  code: 'DEVICE_MOVED',
  message: 'The device belongs to another organization by now. The question does not concern it any more.',
};
const RIGHT_LOST = {
  code: 'RIGHT_LOST',
  message: 'Whoever made the question may not query the event logs of this device any more.',
};

/** Why the device is not asked any more. */
async function refusalOf(
  tx: Tx,
  { createdBy, orgId, partnerId, isOfOwner }: Standing,
): Promise<Failure | undefined> {
  if (!isOfOwner) return MOVED;
  const rights = createdBy === null ? undefined : await rightsOf(tx, createdBy);
  return rights !== undefined && mayAsk(rights, { orgId, partnerId }) ? undefined : RIGHT_LOST;
}

async function rightsOf(tx: Tx, userId: string): Promise<UserRights | undefined> {
  try {
    return await loadUserRights(tx, userId);
  } catch (error) {
    if (error instanceof AppError && error.code === 'partner_inactive') return undefined;
    throw error;
  }
}

const mayAsk = (rights: UserRights, device: { orgId: string; partnerId: string }): boolean =>
  holds(rights.permissions, ASKS) && reachesOwner(rights, device);

const IsResult = z.custom<Result>((value) => typeof value === 'object' && value !== null);

async function settle(tx: Tx, { id }: WorkItem, { status, code, message, result }: WorkEnd): Promise<void> {
  const known = IsResult.optional().parse(result);
  if (known !== undefined) {
    if ('answer' in known) await storeAnswer(tx, id, known.answer);
    else await storeNoAnswer(tx, id, 'failed', known.failure);
  } else if (status === 'cancelled') await storeNoAnswer(tx, id, 'cancelled');
  else if (code === 'EXPIRED' || code === 'TIMED_OUT') await storeNoAnswer(tx, id, 'never_came');
  else await storeNoAnswer(tx, id, 'failed', { code: code ?? 'FAILED', message: message ?? '' });
}
