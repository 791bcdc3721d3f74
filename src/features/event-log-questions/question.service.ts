import { clock, DAY_MS } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import type { RepeatedReads } from '../audit/index.ts';
import { assertTarget } from '../device-targets/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { lockOwner, ownerOf } from '../owners/index.ts';
import { cancelMany, type WorkEngine } from '../work/index.ts';
import { EventLogQuestion } from './question.model.ts';
import {
  accessibleAnswers,
  accessibleQuestions,
  addDevices,
  countOutcomes,
  type FoundAnswer,
  markCancelled,
  openWorkOf,
} from './question.queries.ts';
import type {
  NewQuestion,
  Outcome,
  Question,
  QuestionDevice,
  QuestionDeviceParams,
  QuestionDeviceQuery,
  QuestionQueryString,
} from './question.schema.ts';

/** Of one organization, and of one partner itself, until they are removed: their answers take room. */
export const QUESTIONS_MAX = 100;
export const DEVICES_MAX = 10_000;
/** The right to end what others have asked. */
const ENDS_ALL = 'devices:write';

export async function askQuestion(
  ctx: Context,
  { orgId, name, target, query, days, atMostRowsPerDevice }: NewQuestion,
  work: Pick<WorkEngine, 'wake'>,
): Promise<Question> {
  const { tx, caller } = ctx;
  const owner = await ownerOf(ctx, orgId, 'ask the devices of all organizations');
  await assertTarget(ctx, owner, target, 'body.target');
  await lockOwner(tx, owner);
  const present = await EventLogQuestion.query(tx)
    .where({ partner_id: owner.partnerId, org_id: owner.orgId })
    .resultSize();
  if (present >= QUESTIONS_MAX) {
    throw new AppError('limit_reached', `Question limit reached (${QUESTIONS_MAX}). Delete some first.`);
  }
  const question = await EventLogQuestion.query(tx).insertAndFetch({
    ...owner,
    id: newId(),
    name: name ?? null,
    target,
    query,
    days,
    atMostRows: atMostRowsPerDevice,
    endsAt: new Date(clock.now() + days * DAY_MS),
    createdBy: caller.userId,
    authorName: caller.name,
  });
  const deviceCount = await addDevices(ctx, question, DEVICES_MAX);
  if (deviceCount === 0) throw new AppError('conflict', 'The target has no device that can be asked.');
  if (deviceCount > DEVICES_MAX) {
    throw invalid('body.target', `must have at most ${DEVICES_MAX} devices`);
  }
  const counted = await question.$query(tx).patchAndFetch({ deviceCount });
  ctx.afterCommit(() => work.wake());
  return withCounts(ctx, counted);
}

export async function listQuestions(ctx: Context, { orgId, ...page }: QuestionQueryString) {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const questions = accessibleQuestions(ctx)
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page.page - 1, page.limit);
  if (orgId !== undefined) void questions.where('event_log_questions.org_id', orgId);
  const { results, total } = await questions;
  const counts = await countOutcomes(
    ctx,
    results.map(({ id }) => id),
  );
  return toPage(page, { results: results.map((one) => toResponse(one, counts.get(one.id))), total });
}

export const readQuestion = async (ctx: Context, id: string): Promise<Question> =>
  withCounts(ctx, await findQuestion(ctx, id));

async function findQuestion(ctx: Context, id: string): Promise<EventLogQuestion> {
  const question = await accessibleQuestions(ctx).findById(id);
  if (question === undefined) throw notFound('Question');
  return question;
}

export async function listQuestionDevices(
  ctx: Context,
  id: string,
  { outcome, ...page }: QuestionDeviceQuery,
) {
  await findQuestion(ctx, id);
  const answers = accessibleAnswers(ctx, id).orderBy('event_log_answers.device_id');
  if (outcome !== undefined) void answers.whereIn('event_log_answers.outcome', outcome);
  const { results, total } = await answers
    .page(page.page - 1, page.limit)
    .castTo<{ results: FoundAnswer[]; total: number }>();
  return toPage(page, { results: results.map(toDevice), total });
}

/** The stored answer of a device. */
export async function readAnswer(ctx: Context, { id, deviceId }: QuestionDeviceParams, reads: RepeatedReads) {
  const question = await findQuestion(ctx, id);
  const answer = await accessibleAnswers(ctx, id)
    .findOne('event_log_answers.device_id', deviceId)
    .select('event_log_answers.entries', 'event_log_answers.left_out', 'event_log_answers.summary')
    .castTo<FoundAnswer | undefined>();
  if (answer === undefined) throw notFound('Device of the question');
  const { entries, leftOut, summary, hostname, orgId } = answer;
  const details = { how: 'question', questionId: id, conditions: question.query };
  return {
    device: toDevice(answer),
    data: entries ?? [],
    truncated: leftOut > 0 || summary?.truncated === true,
    leftOut,
    summary,
    // Nothing of a log is shown of a device that has not answered.
    noted: entries === null ? [] : reads.noteOf(ctx, { id: deviceId, orgId, hostname }, details),
  };
}

/** Devices that have not answered are not asked any more. What others have answered stays. */
export async function cancelQuestion(
  ctx: Context,
  id: string,
  work: Pick<WorkEngine, 'wake'>,
): Promise<Question> {
  const question = await findQuestion(ctx, id);
  assertMayEnd(ctx, question);
  const open = await openWorkOf(ctx.tx, id);
  if (open.length === 0) throw new AppError('conflict', 'No device is waited for any more.');
  // The work first, as where a device answers.
  const ended = await cancelMany(ctx.tx, open);
  const now = clock.date();
  const { cancelledAt: before } = question;
  const cancelled = await question.$query(ctx.tx).patchAndFetch({ cancelledAt: now, endsAt: now });
  await markCancelled(ctx.tx, ended);
  ctx.recordChange({ cancelledAt: before }, { cancelledAt: cancelled.cancelledAt });
  ctx.afterCommit(() => work.wake());
  return withCounts(ctx, cancelled);
}

export async function deleteQuestion(ctx: Context, id: string, work: Pick<WorkEngine, 'wake'>) {
  const question = await findQuestion(ctx, id);
  assertMayEnd(ctx, question);
  await cancelMany(ctx.tx, await openWorkOf(ctx.tx, id));
  await question.$query(ctx.tx).delete();
  ctx.afterCommit(() => work.wake());
  return { success: true as const, question };
}

function assertMayEnd({ caller }: Context, { createdBy }: EventLogQuestion): void {
  if (createdBy === caller.userId || holds(caller.permissions, ENDS_ALL)) return;
  throw new AppError('forbidden', `To end the question of another person, you need ${ENDS_ALL}.`);
}

async function withCounts(ctx: Context, question: EventLogQuestion): Promise<Question> {
  return toResponse(question, (await countOutcomes(ctx, [question.id])).get(question.id));
}

function toResponse(question: EventLogQuestion, counts: ReadonlyMap<Outcome, number> = new Map()): Question {
  const { id, orgId, partnerId, name, target, query, days, atMostRows, deviceCount, createdBy } = question;
  const { authorName, createdAt, endsAt, cancelledAt } = question;
  const of = (outcome: Outcome) => counts.get(outcome) ?? 0;
  const seen = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const isOpen = of('waiting') + of('asked') > 0;
  return {
    id,
    orgId,
    partnerId,
    name,
    target,
    query,
    days,
    atMostRowsPerDevice: atMostRows,
    status: cancelledAt !== null ? 'cancelled' : isOpen ? 'open' : 'over',
    devices: deviceCount,
    outcomes: {
      waiting: of('waiting'),
      asked: of('asked'),
      answered: of('answered'),
      failed: of('failed'),
      neverCame: of('never_came'),
      cancelled: of('cancelled'),
      gone: Math.max(0, deviceCount - seen),
    },
    createdBy,
    authorName,
    createdAt,
    endsAt,
    cancelledAt,
  };
}

const toDevice = (answer: FoundAnswer): QuestionDevice => ({
  deviceId: answer.deviceId,
  orgId: answer.orgId,
  hostname: answer.hostname,
  displayName: answer.displayName,
  outcome: answer.outcome,
  code: answer.code,
  message: answer.message,
  askedAt: answer.askedAt,
  endedAt: answer.endedAt,
  entries: answer.entryCount,
});
