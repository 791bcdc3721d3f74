import { clock } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertTarget } from '../device-targets/index.ts';
import type { FilterReferrer } from '../filters/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { lockOwner, type Owner, ownerOf } from '../owners/index.ts';
import { assertValuesFit, findScriptOf, type Script } from '../scripts/index.ts';
import { nextSlot, nextSlots } from './cron.ts';
import { ScriptSchedule } from './schedule.model.ts';
import { accessibleSchedules, countSchedules, schedulesFound, shownSchedules } from './schedule.queries.ts';
import type {
  NewScriptSchedule,
  PauseReason,
  SchedulePreviewRequest,
  ScriptSchedule as ScheduleResponse,
  ScriptSchedulePatch,
  ScriptScheduleQuery,
} from './schedule.schema.ts';

/** The number of schedules of one organization, and of those of one partner itself. */
export const SCHEDULES_MAX = 100;
const NAME_TAKEN = 'Another schedule of the same owner has this name.';
const CATCH_UP_MINUTES = 1440;
const SHOWN_SLOTS = 3;

/** Refuses the deletion of a filter that decides on which devices a script runs. */
export const scriptSchedulesUseFilters: FilterReferrer = {
  kind: 'script schedule',
  sql: `select s.id, s.name, f.org_id from script_schedules s
    join saved_filters f on f.id::text = s.target ->> 'filterId' where f.id = ?::uuid`,
};

export async function listSchedules(
  ctx: Context,
  query: ScriptScheduleQuery,
): Promise<Page<ScheduleResponse>> {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await schedulesFound(ctx, query).page(query.page - 1, query.limit);
  return toPage(query, { results: results.map((schedule) => toResponse(ctx, schedule)), total });
}

export async function readSchedule(ctx: Context, id: string): Promise<ScheduleResponse> {
  const schedule = await shownSchedules(ctx).findById(id);
  if (schedule === undefined) throw notFound('Script schedule');
  return toResponse(ctx, schedule);
}

export async function createSchedule(
  ctx: Context,
  { orgId, ...input }: NewScriptSchedule,
): Promise<ScheduleResponse> {
  const owner = await ownerOf(ctx, orgId, 'schedule scripts on the devices of all organizations');
  const { enabled = true, parameters = {}, catchUpMinutes = CATCH_UP_MINUTES } = input;
  assertFits(await scriptFor(ctx, owner, input.scriptId), parameters);
  await assertTarget(ctx, owner, input.target, 'body.target');
  await lockOwner(ctx.tx, owner);
  if ((await countSchedules(ctx.tx, owner)) >= SCHEDULES_MAX) {
    throw new AppError('limit_reached', `Script schedule limit reached (${SCHEDULES_MAX}).`);
  }
  const { id } = await named(
    ScriptSchedule.query(ctx.tx).insert({
      ...input,
      ...owner,
      enabled,
      parameters,
      catchUpMinutes,
      nextAt: enabled ? nextSlot(input, clock.date()) : null,
      runsAs: ctx.caller.userId,
      createdBy: ctx.caller.userId,
    }),
  );
  return readSchedule(ctx, id);
}

/** Whoever changes a schedule answers for it: from then on it runs by their rights, and a pause ends. */
export async function updateSchedule(
  ctx: Context,
  id: string,
  patch: ScriptSchedulePatch,
): Promise<ScheduleResponse> {
  const schedule = await lockSchedule(ctx, id);
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  const { scriptId = schedule.scriptId, target = schedule.target } = changes;
  if (scriptId === null) throw invalid('body.scriptId', 'is required, because the script was deleted');
  // The rights of whoever changes it decide, also about what stays.
  const script = await scriptFor(ctx, schedule, scriptId);
  // A schedule can be paused or renamed whatever its script has come to require.
  const { parameters } = changes;
  if (parameters !== undefined || scriptId !== schedule.scriptId) {
    assertFits(script, parameters ?? schedule.parameters);
  }
  await assertTarget(ctx, schedule, target, 'body.target');
  const before = recorded(schedule);
  const { enabled = schedule.enabled, cron = schedule.cron, timezone = schedule.timezone } = changes;
  const { nextAt } = schedule;
  const keepsTimes = cron === schedule.cron && timezone === schedule.timezone && nextAt !== null;
  const updated = await named(
    schedule.$query(ctx.tx).patchAndFetch({
      ...changes,
      nextAt: !enabled ? null : keepsTimes ? nextAt : nextSlot({ cron, timezone }, clock.date()),
      runsAs: ctx.caller.userId,
      pausedReason: null,
      pausedAt: null,
    }),
  );
  ctx.recordChange(before, recorded(updated));
  return readSchedule(ctx, id);
}

export async function deleteSchedule(ctx: Context, id: string) {
  const schedule = await lockSchedule(ctx, id);
  await schedule.$query(ctx.tx).delete();
  return { success: true as const, schedule };
}

export const previewSchedule = (times: SchedulePreviewRequest) => ({
  data: nextSlots(times, clock.date(), SHOWN_SLOTS),
});

async function lockSchedule(ctx: Context, id: string): Promise<ScriptSchedule> {
  const schedule = await accessibleSchedules(ctx).findById(id).forUpdate();
  if (schedule === undefined) throw notFound('Script schedule');
  if (schedule.orgId !== null) await assertManageable(ctx, schedule.orgId);
  return schedule;
}

/** The script must be one that the caller can see, and that can run on devices of the owner. */
async function scriptFor(ctx: Context, owner: Owner, scriptId: string): Promise<Script> {
  const script = await findScriptOf(ctx, scriptId);
  const fits =
    script !== undefined &&
    (script.orgId === null ? script.partnerId === owner.partnerId : script.orgId === owner.orgId);
  if (!fits) throw invalid('body.scriptId', 'must be a script that you can see, of the owner or its partner');
  return script;
}

/** Secrets are not kept, so a script that requires one has no schedule. */
const assertFits = (script: Script, parameters: Record<string, string>): void =>
  assertValuesFit(script.parameters, { parameters, secretNames: [] });

const recorded = ({
  name,
  scriptId,
  enabled,
  cron,
  timezone,
  target,
  parameters,
  catchUpMinutes,
  runsAs,
  pausedReason,
}: ScriptSchedule) => ({
  name,
  scriptId,
  enabled,
  cron,
  timezone,
  target,
  parameters,
  catchUpMinutes,
  runsAs,
  pausedReason,
});

const PAUSED: Record<PauseReason, string> = {
  person_gone: 'The person by whose rights it ran has no account any more, or it is disabled.',
  permission_lost: 'The person by whose rights it ran may not run scripts, or use the filter, any more.',
  access_lost: 'The person by whose rights it ran has no access to these devices any more.',
  script_gone: 'The script was deleted.',
};

function pauseOf({ pausedReason, pausedAt, scriptId }: ScriptSchedule): ScheduleResponse['paused'] {
  const reason = pausedReason ?? (scriptId === null ? 'script_gone' : null);
  return reason === null ? null : { reason, message: PAUSED[reason], at: pausedAt };
}

function toResponse({ caller }: Context, schedule: ScriptSchedule): ScheduleResponse {
  const paused = pauseOf(schedule);
  const { nextAt } = schedule;
  return {
    id: schedule.id,
    orgId: schedule.orgId,
    partnerId: schedule.partnerId,
    name: schedule.name,
    scriptId: schedule.scriptId,
    scriptName: schedule.scriptName,
    enabled: schedule.enabled,
    cron: schedule.cron,
    timezone: schedule.timezone,
    target: schedule.target,
    parameters: holds(caller.permissions, 'scripts:execute') ? schedule.parameters : null,
    catchUpMinutes: schedule.catchUpMinutes,
    runsAs: schedule.runsAs,
    runsAsName: schedule.runsAsName,
    nextRuns:
      nextAt === null || paused !== null ? [] : [nextAt, ...nextSlots(schedule, nextAt, SHOWN_SLOTS - 1)],
    paused,
    lastSlotAt: schedule.lastSlotAt,
    lastSkip: schedule.lastSkip,
    createdBy: schedule.createdBy,
    createdAt: schedule.createdAt,
    updatedAt: schedule.updatedAt,
  };
}

const named = <T>(query: PromiseLike<T>) =>
  namingConflict(query, 'script_schedules_name', 'body.name', NAME_TAKEN);
