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
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { assertValuesFit, findScriptOf, type Script, withoutSecrets } from '../scripts/index.ts';
import { nextSlot, nextSlots } from './cron.ts';
import { type ScheduleSecret, ScriptSchedule } from './schedule.model.ts';
import { accessibleSchedules, countSchedules, schedulesFound, shownSchedules } from './schedule.queries.ts';
import {
  assertMayChangeUse,
  changeOfSecrets,
  isForAnother,
  namesAfter,
  secretsForAfter,
  secretsOf,
  storeSecrets,
  type Use,
} from './schedule-secrets.ts';
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
  { orgId, secrets, scriptFingerprint, ...input }: NewScriptSchedule,
  encryptor: Encryptor,
): Promise<ScheduleResponse> {
  const owner = await ownerOf(ctx, orgId, 'schedule scripts on the devices of all organizations');
  const { enabled = true, parameters = {}, catchUpMinutes = CATCH_UP_MINUTES } = input;
  const script = await scriptFor(ctx, owner, input.scriptId);
  const change = changeOfSecrets([], secrets);
  assertValuesFit(script.parameters, { parameters, secretNames: namesAfter(change) });
  await assertTarget(ctx, owner, input.target, 'body.target');
  await lockOwner(ctx.tx, owner);
  if ((await countSchedules(ctx.tx, owner)) >= SCHEDULES_MAX) {
    throw new AppError('limit_reached', `Script schedule limit reached (${SCHEDULES_MAX}).`);
  }
  const created = await named(
    ScriptSchedule.query(ctx.tx).insert({
      ...input,
      ...owner,
      enabled,
      parameters,
      catchUpMinutes,
      secretsFor: secretsForAfter(change, { script, scriptFingerprint }),
      nextAt: enabled ? nextSlot(input, clock.date()) : null,
      runsAs: ctx.caller.userId,
      createdBy: ctx.caller.userId,
    }),
  );
  await storeSecrets(ctx, created, change, encryptor);
  return readSchedule(ctx, created.id);
}

/** Whoever changes a schedule answers for it: from then on it runs by their rights, and a pause ends. */
export async function updateSchedule(
  ctx: Context,
  id: string,
  patch: ScriptSchedulePatch,
  encryptor: Encryptor,
): Promise<ScheduleResponse> {
  const schedule = await lockSchedule(ctx, id);
  const { secrets: given, scriptFingerprint, ...changes } = omitUndefined(patch);
  if (Object.keys(omitUndefined(patch)).length === 0) throw noFields();
  const { scriptId = schedule.scriptId, target = schedule.target } = changes;
  if (scriptId === null) throw invalid('body.scriptId', 'is required, because the script was deleted');
  // The rights of whoever changes it decide, also about what stays.
  const script = await scriptFor(ctx, schedule, scriptId);
  const held = await secretsOf(ctx.tx, id);
  const change = changeOfSecrets(held, given);
  const secretsFor = secretsForAfter(change, { script, scriptFingerprint, before: schedule });
  // What has become a secret of the script is kept in the clear no longer.
  schedule.parameters = withoutSecrets(script.parameters, schedule.parameters);
  const { parameters = schedule.parameters } = changes;
  assertMayChangeUse(ctx, change, {
    before: useOf(schedule),
    after: { scriptId, target, parameters, secretsFor },
    hasRemoved: change.kept.length < held.length,
  });
  // A schedule can be paused or renamed whatever its script has come to require.
  const isUsedAnew =
    changes.parameters !== undefined ||
    given !== undefined ||
    scriptFingerprint !== undefined ||
    scriptId !== schedule.scriptId;
  if (isUsedAnew) assertValuesFit(script.parameters, { parameters, secretNames: namesAfter(change) });
  await assertTarget(ctx, schedule, target, 'body.target');
  const before = recorded(schedule, held);
  const { enabled = schedule.enabled, cron = schedule.cron, timezone = schedule.timezone } = changes;
  const { nextAt } = schedule;
  const keepsTimes = cron === schedule.cron && timezone === schedule.timezone && nextAt !== null;
  // Nobody ends this pause by the way: the secrets have to be given to the script as it is now.
  const isPaused = isForAnother({ secretsFor }, script.fingerprint);
  const updated = await named(
    schedule.$query(ctx.tx).patchAndFetch({
      ...changes,
      parameters,
      secretsFor,
      nextAt: !enabled || isPaused ? null : keepsTimes ? nextAt : nextSlot({ cron, timezone }, clock.date()),
      runsAs: ctx.caller.userId,
      pausedReason: isPaused ? 'script_changed' : null,
      pausedAt: isPaused ? (schedule.pausedAt ?? clock.date()) : null,
    }),
  );
  await storeSecrets(ctx, schedule, change, encryptor);
  ctx.recordChange(before, recorded(updated, await secretsOf(ctx.tx, id)));
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

const useOf = ({ scriptId, target, parameters, secretsFor }: Use): Use => ({
  scriptId,
  target,
  parameters,
  secretsFor,
});

/** Of secrets the audit trail shows the names, and which of them were given. */
const recorded = (
  {
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
  }: ScriptSchedule,
  secrets: readonly ScheduleSecret[],
) => ({
  sealed: Object.fromEntries(secrets.map((secret) => [secret.name, secret.setAt])),
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
  script_changed:
    'The script was changed since it was given the secrets. Somebody who knows them has to give them again, or to confirm the script.',
  secrets_missing: 'The script requires a secret that is not set.',
  secrets_unreadable:
    'A secret cannot be opened any more, because the key of the server was changed. Set it again.',
};

function pauseOf(schedule: ScriptSchedule): ScheduleResponse['paused'] {
  const { pausedReason, pausedAt, scriptId, scriptFingerprint } = schedule;
  const isChanged = scriptFingerprint !== null && isForAnother(schedule, scriptFingerprint);
  const reason = pausedReason ?? (scriptId === null ? 'script_gone' : isChanged ? 'script_changed' : null);
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
    secrets: schedule.secrets,
    secretsFor: schedule.secretsFor,
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
