import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { withDevicesOfTarget } from '../device-targets/index.ts';
import type { DeviceModel } from '../devices/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { whereOwnerAccessible } from '../owners/index.ts';
import { bindingsOfMany, defineWork, INSERT_MANY } from '../work/index.ts';
import type { DeviceAnswer, Failure } from './asking.ts';
import { EventLogAnswer, EventLogQuestion } from './question.model.ts';
import { type Outcome, QuestionQuery } from './question.schema.ts';

/** The work that asks one device. It waits for the device: its deadline is the end of the question. */
export const ASKING = defineWork({
  kind: 'event_log_question',
  input: z.object({}),
  steps: ['await', 'ask'],
  // Of one organization, which is the target, and of one partner.
  limits: { inProcess: 16, ofPartner: 32, ofTarget: 8 },
  deadlineMs: 30 * DAY_MS,
  keptDays: 30,
});

type Reader = Pick<Context, 'tx' | 'caller'>;

/** The questions that the caller may see. */
export const accessibleQuestions = (ctx: Reader) =>
  whereOwnerAccessible(EventLogQuestion.query(ctx.tx), ctx, 'event_log_questions');

/** An answer with its device. */
export type FoundAnswer = EventLogAnswer & Pick<DeviceModel, 'hostname' | 'displayName'>;

const SHOWN = [
  'device_id',
  'org_id',
  'outcome',
  'code',
  'message',
  'asked_at',
  'ended_at',
  'entry_count',
] as const;

/** What became of a question at the devices that the caller may see, without the entries. */
export const accessibleAnswers = ({ tx, caller }: Reader, questionId: string) =>
  EventLogAnswer.query(tx)
    .where('event_log_answers.question_id', questionId)
    .whereRaw(inTenant(caller, 'event_log_answers.org_id'))
    .joinRelated('device')
    .select(
      SHOWN.map((column) => `event_log_answers.${column}`),
      'device.hostname',
      'device.display_name',
    );

/**
 * Adds an answer that is waited for, and the work that asks the device, for each device that the target has now.
 * @returns how many devices they are: more than `atMost` if there are more, and then the caller undoes it
 */
export async function addDevices(
  { tx, caller }: Reader,
  { id, partnerId, orgId, target, days }: EventLogQuestion,
  atMost: number,
): Promise<number> {
  return withDevicesOfTarget(tx, { partnerId, orgId }, target, async (devices) => {
    const { rowCount } = await tx.raw<{ rowCount: number }>(ADD, {
      ...bindingsOfMany(ASKING),
      questionId: id,
      days,
      devices: devices
        // A device that waits for approval may not be asked.
        .whereRaw(`d.condition <> 'pending'`)
        .whereRaw(inTenant(caller, 'd.org_id'))
        .limit(atMost + 1),
    } as never);
    return rowCount;
  });
}

/**
 * As many at a time as the kind says are of one organization, which is the target of the work. All of it is added, because
 * none has a key: a join with what was added would compare thousands of rows with each other.
 */
const ADD = `with found as materialized (:devices),
  wanted as materialized (
    select new_row_id() as id, found.org_id, found.id as device_id, found.org_id::text as target,
      null::smallint as target_limit, null::text as exclusive_key, null::uuid as created_by, false as is_urgent, now() as due_at,
      now() + make_interval(days => :days::int) as deadline_at
    from found order by found.id
  ), added as (${INSERT_MANY})
  insert into event_log_answers (id, question_id, org_id, device_id)
  select id, :questionId::uuid, org_id, device_id from wanted`;

/** How many devices of each question have which outcome, of those that the caller may see. */
export async function countOutcomes(
  { tx, caller }: Reader,
  ids: readonly string[],
): Promise<Map<string, Map<Outcome, number>>> {
  const { rows } = await tx.raw<{ rows: { id: string; outcome: Outcome; devices: string }[] }>(
    `select question_id as id, outcome, count(*) as devices from event_log_answers
    where question_id = any(?::uuid[]) and ${inTenant(caller, 'event_log_answers.org_id')} group by 1, 2`,
    [[...ids]],
  );
  const counts = new Map<string, Map<Outcome, number>>(ids.map((id) => [id, new Map()]));
  for (const { id, outcome, devices } of rows) counts.get(id)?.set(outcome, Number(devices));
  return counts;
}

/** The work of a question that has not ended. */
export async function openWorkOf(tx: Tx, questionId: string): Promise<string[]> {
  const rows = await EventLogAnswer.query(tx)
    .where('question_id', questionId)
    .whereNull('ended_at')
    .select('id');
  return rows.map(({ id }) => id);
}

/** Notes that the work of these devices was cancelled. */
export async function markCancelled(tx: Tx, ids: readonly string[]): Promise<void> {
  await EventLogAnswer.query(tx)
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .patch({ outcome: 'cancelled', endedAt: clock.date() });
}

const Standing = z.object({
  questionId: z.string(),
  query: QuestionQuery,
  atMostRows: z.number(),
  createdBy: z.string().nullable(),
  orgId: z.string(),
  partnerId: z.string(),
  deviceId: z.string(),
  asks: z.number(),
  isConnected: z.boolean(),
  mayBeAsked: z.boolean(),
  isOfOwner: z.boolean(),
});
/** Where a question stands with one device. */
export type Standing = z.infer<typeof Standing>;

/** `undefined` if the question was deleted. */
export async function readStanding(tx: Tx, id: string): Promise<Standing | undefined> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(STANDING, [id]);
  return rows[0] === undefined ? undefined : Standing.parse(rows[0]);
}

const STANDING = `select q.id as "questionId", q.query, q.at_most_rows as "atMostRows", q.created_by as "createdBy",
    a.org_id as "orgId", o.partner_id as "partnerId", a.device_id as "deviceId", a.asks,
    coalesce(p.state = 'connected', false) as "isConnected",
    d.condition not in ('pending', 'decommissioned') and ${isManageableSql('o')} as "mayBeAsked",
    o.partner_id = q.partner_id and (q.org_id is null or q.org_id = a.org_id) as "isOfOwner"
  from event_log_answers a join event_log_questions q on q.id = a.question_id
  join devices d on d.org_id = a.org_id and d.id = a.device_id
  join organizations o on o.id = a.org_id
  left join device_presence p on p.org_id = a.org_id and p.device_id = a.device_id
  where a.id = ?`;

/** @returns how often the device has been asked with this one */
export async function markAsked(tx: Tx, id: string): Promise<number> {
  const { rows } = await tx.raw<{ rows: { asks: number }[] }>(
    `update event_log_answers set outcome = 'asked', asks = asks + 1, asked_at = now() where id = ? returning asks`,
    [id],
  );
  return rows[0]?.asks ?? 0;
}

/** @param counts  whether the device was asked, and did not answer */
export async function markWaiting(tx: Tx, id: string, { counts }: { counts: boolean }): Promise<void> {
  await tx.raw(
    `update event_log_answers set outcome = 'waiting', asks = case when :counts then asks else asks - 1 end
    where id = :id and outcome = 'asked'`,
    { id, counts },
  );
}

/** What the answers to one question take at most. */
export const QUESTION_MAX_BYTES = 256 * 1024 * 1024;

/**
 * Stores the answer of a device. One for which the question has no room keeps the count of its entries alone. The question
 * comes first, as where it is cancelled or deleted.
 */
export async function storeAnswer(tx: Tx, id: string, answer: DeviceAnswer): Promise<void> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update event_log_questions q set stored_bytes = q.stored_bytes + :bytes::bigint
    from event_log_answers a where a.id = :id and q.id = a.question_id
      and q.stored_bytes + :bytes::bigint <= ${QUESTION_MAX_BYTES}`,
    { id, bytes: answer.bytes },
  );
  const hasRoom = rowCount > 0;
  await EventLogAnswer.query(tx)
    .findById(id)
    .patch({
      outcome: 'answered',
      code: null,
      message: null,
      endedAt: clock.date(),
      entries: hasRoom ? answer.entries : [],
      entryCount: hasRoom ? answer.entries.length : 0,
      leftOut: hasRoom ? answer.leftOut : answer.leftOut + answer.entries.length,
      summary: answer.summary,
    });
}

/** Ends the waiting for a device without an answer. A device that came, but gave none until the end, has failed. */
export async function storeNoAnswer(
  tx: Tx,
  id: string,
  outcome: 'failed' | 'never_came' | 'cancelled',
  failure?: Failure,
): Promise<void> {
  await tx.raw(
    `update event_log_answers set ended_at = now(),
      outcome = case when :outcome = 'never_came' and asks > 0 then 'failed' else :outcome end,
      code = case when :outcome = 'never_came' and asks > 0 then 'UNANSWERED' else :code end,
      message = case when :outcome = 'never_came' and asks > 0
        then 'The device was asked, and gave no answer until the end of the question.' else :message end
    where id = :id and ended_at is null`,
    { id, outcome, code: failure?.code ?? null, message: failure?.message ?? null },
  );
}
