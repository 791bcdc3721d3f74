import { z } from 'zod';
import { clock, DAY_MS, HOUR_MS, SECOND_MS } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { defineWork, type StepOutcome, type WorkEnd, type WorkEngine, type WorkRun } from '../work/index.ts';
import { openSecret } from './channel.service.ts';
import {
  addressOf,
  type DueNotification,
  endNotification,
  noteAttempt,
  noteFailure,
  readDue,
} from './delivery.queries.ts';
import { recordChannelOutcome } from './notification.queries.ts';
import { MessageContent } from './payloads/message.ts';
import { type Receiver, send, type SendOutcome, type SendParts } from './send.ts';

/**
 * Sends one notification, whose id it has. A receiver that does not answer is tried for a day. Each receiver has few
 * places, so that a slow one holds up only what is for it.
 */
export const NOTIFICATION = defineWork({
  kind: 'notification',
  input: z.object({}),
  steps: ['send'],
  limits: { inProcess: 32, ofPartner: 16, ofTarget: 2 },
  // The deadline ends the attempts, not their number.
  attempts: 100,
  backOff: { firstMs: 5 * SECOND_MS, longestMs: HOUR_MS },
  deadlineMs: DAY_MS,
  // The log of notifications has its facts.
  keptDays: 7,
});

export interface DeliveryParts extends SendParts {
  db: Db;
  secrets: Encryptor;
  onOutcome: (outcome: 'sent' | 'failed' | 'suppressed' | 'again') => void;
}

/** How the work ends, for `settle`. */
const Result = z.object({
  channelId: z.string().nullable(),
  responseStatus: z.number().nullable(),
});

/** Until an earlier message to the same recipient has ended. */
const EARLIER_WAIT_MS = SECOND_MS;
const PAUSE_MAX_MS = HOUR_MS;

export function addDeliveries(work: WorkEngine, parts: DeliveryParts): void {
  work.add(NOTIFICATION, {
    steps: { send: (run) => deliver(parts, run) },
    settle: (tx, { id }, end) => settle(parts, tx, id, end),
  });
}

const suppressed = (message: string): StepOutcome => ({ end: { status: 'cancelled', message } });
const failed = (message: string): StepOutcome => ({ end: { status: 'failed', code: 'REFUSED', message } });

async function deliver(parts: DeliveryParts, run: WorkRun): Promise<StepOutcome> {
  const { db } = parts;
  const due = await withSystem(db, 'read a notification that is to be sent', (tx) => readDue(tx, run.id));
  const decided = decide(due);
  if (decided !== undefined || due === undefined) return decided ?? { end: { status: 'completed' } };
  const receiver = await receiverOf(parts, due);
  if (typeof receiver === 'string') return failed(receiver);
  const content = MessageContent.safeParse(due.content);
  if (!content.success) return failed('This release of the server cannot read the message.');

  await withSystem(db, 'note an attempt to send a notification', async (tx) => {
    await run.hold(tx);
    await noteAttempt(tx, run.id);
  });
  const message = { id: run.id, at: clock.date(), content: content.data };
  const outcome = await send(parts, receiver, message, run.signal);
  const result = { channelId: due.channelId, responseStatus: outcome.responseStatus };
  if (outcome.ok) return { end: { status: 'completed', result } };
  if (outcome.isFinal) {
    return { end: { status: 'failed', code: 'REFUSED', message: outcome.error, result } };
  }
  await recordFailure(parts, run, due, outcome);
  parts.onOutcome('again');
  if (outcome.waitMs !== undefined) return { waitMs: outcome.waitMs };
  throw new Error(outcome.error);
}

/** What a notification comes to without being sent; `undefined` if it is to be sent. */
function decide(due: DueNotification | undefined): StepOutcome | undefined {
  if (due === undefined || due.status !== 'pending') return { end: { status: 'completed' } };
  const { reason, groupState, isManageable, wasTold, hasEarlier, pausedMs, channelId, userId, type } = due;
  if (!isManageable) return suppressed('The organization is not active.');
  if (channelId !== null && type === null) return suppressed('The channel was deleted.');
  if (channelId === null && userId === null) return suppressed('The account was deleted.');
  const isEnd = reason === 'resolved' || reason === 'acknowledged';
  if (!isEnd && groupState === 'closed') return suppressed('The alerts were resolved before this was sent.');
  if (isEnd && hasEarlier) return { waitMs: EARLIER_WAIT_MS };
  if (isEnd && !wasTold) return suppressed('What came before has not reached the recipient.');
  if (pausedMs !== null && pausedMs > 0) return { waitMs: Math.min(pausedMs, PAUSE_MAX_MS) };
  return undefined;
}

/** To whom a notification is sent, or why it cannot be. */
async function receiverOf({ db, secrets }: DeliveryParts, due: DueNotification): Promise<Receiver | string> {
  const { channelId, userId, partnerId, type, details, sealedSecret } = due;
  if (channelId !== null && type !== null) {
    const secret = openSecret(secrets, { id: channelId, sealedSecret });
    return { id: channelId, partnerId, type, details: details ?? {}, secret };
  }
  if (userId === null) return 'The account was deleted.';
  const address = await withSystem(db, 'read where a person is told', (tx) => addressOf(tx, userId));
  if (address === undefined) return 'The account of the person is disabled.';
  return { id: userId, partnerId, type: 'email', details: { address }, secret: null };
}

async function recordFailure(
  { db }: DeliveryParts,
  run: WorkRun,
  { channelId }: DueNotification,
  outcome: SendOutcome & { ok: false },
): Promise<void> {
  await withSystem(db, 'record a failed attempt to send a notification', async (tx) => {
    await run.hold(tx);
    if (channelId !== null) await recordChannelOutcome(tx, channelId, outcome);
    await noteFailure(tx, run.id, outcome);
  });
}

/** Ends the notification together with its work, whatever has ended that. */
async function settle(parts: DeliveryParts, tx: Tx, id: string, end: WorkEnd): Promise<void> {
  const result = Result.optional().parse(end.result);
  const status = STATUSES[end.status];
  const error = end.code === undefined || end.code === 'REFUSED' ? (end.message ?? null) : null;
  const { channelId, responseStatus } = result ?? { channelId: null, responseStatus: null };
  if (channelId !== null) {
    const outcome: SendOutcome =
      status === 'sent'
        ? { ok: true, responseStatus }
        : { ok: false, responseStatus, error: error ?? '', isFinal: true, isInDoubt: false };
    await recordChannelOutcome(tx, channelId, outcome);
  }
  // A receiver that has refused the message has not got it.
  const isInDoubt = status === 'sent' || end.code !== 'REFUSED';
  await endNotification(tx, id, { status, error, isInDoubt });
  parts.onOutcome(status);
}

const STATUSES = {
  completed: 'sent',
  partial: 'sent',
  failed: 'failed',
  cancelled: 'suppressed',
} as const satisfies Record<WorkEnd['status'], string>;
