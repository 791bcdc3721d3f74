import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { lockOwner, type Owner, ownerOf } from '../owners/index.ts';
import { knownPeople, type KnownPerson } from '../users/index.ts';
import { nextDue } from './due-times.ts';
import { ReportSchedule } from './report-schedule.model.ts';
import { accessibleSchedules, accessibleSchedulesByName } from './report-schedule.queries.ts';
import type {
  NewReportSchedule,
  ReportSchedulePatch,
  ReportScheduleQuery,
  ReportScheduleResponse,
} from './report-schedule.schema.ts';

/** The number of schedules of one organization, and of those of one partner itself. */
export const SCHEDULES_MAX = 50;
const NAME_TAKEN = 'Another schedule of the same owner has this name.';

export async function listSchedules(ctx: Context, query: ReportScheduleQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleSchedulesByName(ctx, query.orgId).page(
    query.page - 1,
    query.limit,
  );
  return toPage(query, { results: await toResponses(ctx, results), total });
}

export async function createSchedule(
  ctx: Context,
  { orgId, ...input }: NewReportSchedule,
): Promise<ReportScheduleResponse> {
  const owner = await ownerOf(ctx, orgId, 'mail reports of all organizations');
  await assertBelowLimit(ctx, owner);
  await assertRecipients(ctx, input);
  const schedule = await named(
    ReportSchedule.query(ctx.tx).insertAndFetch({
      ...input,
      ...owner,
      personId: ctx.caller.userId,
      dueAt: nextDue(input, clock.date()),
    }),
  );
  return toResponse(ctx, schedule);
}

/** Who changes a schedule answers for it: from then on, it is made by the rights of that person. */
export async function updateSchedule(ctx: Context, id: string, patch: ReportSchedulePatch) {
  const schedule = await lockSchedule(ctx, id);
  const { isPaused = schedule.dueAt === null, ...fields } = omitUndefined(patch);
  const changedFields = Object.keys(omitUndefined(patch));
  if (changedFields.length === 0) throw noFields();
  const { dayOfMonth, time, timezone, userIds, addresses } = schedule;
  const after = { dayOfMonth, time, timezone, userIds, addresses, ...fields };
  // A schedule can be paused also by those who do not see all of its people.
  if (!isPaused) await assertRecipients(ctx, after);
  const updated = await named(
    patchRecorded(ctx, schedule, {
      ...fields,
      personId: ctx.caller.userId,
      dueAt: isPaused ? null : nextDue(after, clock.date()),
      ...(isPaused && patch.isPaused === undefined ? {} : { pausedBecause: null }),
    }),
  );
  return { ...(await toResponse(ctx, updated)), changedFields };
}

export async function deleteSchedule(ctx: Context, id: string) {
  const schedule = await lockSchedule(ctx, id);
  await schedule.$query(ctx.tx).delete();
  return { success: true as const, schedule };
}

async function lockSchedule(ctx: Context, id: string): Promise<ReportSchedule> {
  const schedule = await accessibleSchedules(ctx).findById(id).forUpdate();
  if (schedule === undefined) throw notFound('Schedule of reports');
  if (schedule.orgId !== null) await assertManageable(ctx, schedule.orgId);
  return schedule;
}

async function assertBelowLimit({ tx }: Context, { partnerId, orgId }: Owner): Promise<void> {
  await lockOwner(tx, { partnerId, orgId });
  const present = await ReportSchedule.query(tx).where({ partner_id: partnerId, org_id: orgId }).resultSize();
  if (present >= SCHEDULES_MAX) {
    throw new AppError('limit_reached', `Limit of schedules of reports reached (${SCHEDULES_MAX}).`);
  }
}

async function assertRecipients(
  ctx: Context,
  { userIds, addresses }: Pick<ReportSchedule, 'userIds' | 'addresses'>,
): Promise<void> {
  if (userIds.length + addresses.length === 0) {
    throw invalid('body.addresses', 'must name at least one recipient, here or in userIds');
  }
  const known = await knownPeople(ctx, userIds);
  const unknown = userIds.findIndex((id) => !known.has(id));
  if (unknown >= 0) throw invalid(`body.userIds.${unknown}`, 'must be a person whom you can see');
}

async function toResponses(
  ctx: Context,
  schedules: readonly ReportSchedule[],
): Promise<ReportScheduleResponse[]> {
  const people = await knownPeople(
    ctx,
    schedules.flatMap(({ personId }) => personId ?? []),
  );
  return schedules.map((schedule) => responseOf(schedule, people));
}

async function toResponse(ctx: Context, schedule: ReportSchedule): Promise<ReportScheduleResponse> {
  const { personId } = schedule;
  return responseOf(schedule, await knownPeople(ctx, personId === null ? [] : [personId]));
}

function responseOf(
  { personId, ...schedule }: ReportSchedule,
  people: ReadonlyMap<string, KnownPerson>,
): ReportScheduleResponse {
  const person = personId === null ? undefined : people.get(personId);
  return {
    ...schedule,
    setUpBy: personId === null || person === undefined ? null : { id: personId, name: person.name },
    isPaused: schedule.dueAt === null,
  };
}

const named = <T>(query: PromiseLike<T>) =>
  namingConflict(query, 'report_schedules_name', 'body.name', NAME_TAKEN);
