import { isDeepStrictEqual } from 'node:util';
import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertTarget } from '../device-targets/index.ts';
import { lockOwner, type Owner, ownerOf } from '../owners/index.ts';
import type { FilterReferrer } from '../filters/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { MaintenanceWindow } from './maintenance-window.model.ts';
import { accessibleWindows, accessibleWindowsByName, membersOf } from './maintenance-window.queries.ts';
import type {
  Calendar,
  CalendarQuery,
  MaintenanceWindowPatch,
  MaintenanceWindowQuery,
  NewMaintenanceWindow,
  PreviewRequest,
  MaintenanceWindow as WindowResponse,
} from './maintenance-window.schema.ts';
import {
  nextOccurrence,
  type Occurrence,
  occurrenceAt,
  occurrencesBetween,
  type Schedule,
  scheduleFaults,
} from './occurrences.ts';

type Hub = Pick<DeviceHub, 'devicesChanged'>;

/** The number of windows of one organization, and of those of one partner itself. */
export const WINDOWS_MAX = 100;
const NAME_TAKEN = 'Another maintenance window of the same owner has this name.';

/** Refuses the deletion of a filter that decides which devices a window has. */
export const maintenanceWindowsUseFilters: FilterReferrer = {
  kind: 'maintenance window',
  sql: `select w.id, w.name, f.org_id from maintenance_windows w
    join saved_filters f on f.id::text = w.target ->> 'filterId' where f.id = ?::uuid`,
};

export async function listWindows(ctx: Context, query: MaintenanceWindowQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleWindowsByName(ctx, query.orgId).page(
    query.page - 1,
    query.limit,
  );
  return toPage(query, { results: results.map(toResponse), total });
}

export async function readWindow(ctx: Context, id: string): Promise<WindowResponse> {
  const window = await accessibleWindows(ctx).findById(id);
  if (window === undefined) throw notFound('Maintenance window');
  return toResponse(window);
}

async function lockWindow(ctx: Context, id: string): Promise<MaintenanceWindow> {
  const window = await accessibleWindows(ctx).findById(id).forUpdate();
  if (window === undefined) throw notFound('Maintenance window');
  if (window.orgId !== null) await assertManageable(ctx, window.orgId);
  return window;
}

export async function createWindow(
  ctx: Context,
  { orgId, suppress, repeat = null, ...input }: NewMaintenanceWindow,
): Promise<WindowResponse> {
  const owner = await ownerOf(ctx, orgId, 'plan maintenance of all organizations');
  assertAhead({ ...input, repeat });
  await assertTarget(ctx, owner, input.target, 'body.target');
  await assertBelowLimit(ctx, owner);
  const window = await named(
    MaintenanceWindow.query(ctx.tx).insertAndFetch({
      ...input,
      ...owner,
      id: newId(),
      repeat,
      suppressAlerts: suppress?.alerts ?? true,
      suppressUpgrades: suppress?.upgrades ?? true,
      dueAt: clock.date(),
      createdBy: ctx.caller.userId,
    }),
  );
  return toResponse(window);
}

async function assertBelowLimit({ tx }: Context, { partnerId, orgId }: Owner): Promise<void> {
  await lockOwner(tx, { partnerId, orgId });
  const present = await MaintenanceWindow.query(tx)
    .where({ partner_id: partnerId, org_id: orgId })
    .resultSize();
  if (present >= WINDOWS_MAX) {
    throw new AppError('limit_reached', `Maintenance window limit reached (${WINDOWS_MAX}).`);
  }
}

/** A window that would never be in effect is a mistake in its times. */
function assertAhead(schedule: Schedule): void {
  if (ahead(schedule, 1).length > 0) return;
  throw invalid('body.start', 'must have an occurrence that ends in the future');
}

export async function updateWindow(ctx: Context, id: string, patch: MaintenanceWindowPatch) {
  const window = await lockWindow(ctx, id);
  const { suppress, ...fields } = omitUndefined(patch);
  const changedFields = Object.keys(omitUndefined(patch));
  if (changedFields.length === 0) throw noFields();
  // A form sends times that it does not change as well.
  const isMoved = TIMES.some(
    (field) => fields[field] !== undefined && !isDeepStrictEqual(fields[field], window[field]),
  );
  if (isMoved) assertSound({ ...scheduleOf(window), ...fields });
  if (fields.target !== undefined) await assertTarget(ctx, window, fields.target, 'body.target');
  const before = recorded(window);
  const updated = await named(
    window.$query(ctx.tx).patchAndFetch({
      ...fields,
      ...(suppress === undefined
        ? {}
        : { suppressAlerts: suppress.alerts, suppressUpgrades: suppress.upgrades }),
      // What was ended belongs to the former times.
      ...(isMoved ? { endedEarlyAt: null, overSince: null } : {}),
      dueAt: clock.date(),
    }),
  );
  ctx.recordChange(before, recorded(updated));
  return { ...toResponse(updated), changedFields };
}

const TIMES = ['timezone', 'start', 'durationMinutes', 'repeat'] as const;

const scheduleOf = ({ timezone, start, durationMinutes, repeat }: MaintenanceWindow) => ({
  timezone,
  start,
  durationMinutes,
  repeat,
});

/** The rules for fields that go together, for a window of which only some were sent. */
function assertSound(schedule: Schedule): void {
  const details = scheduleFaults(schedule).map(([path, message]) => ({
    path: ['body', ...path].join('.'),
    message,
  }));
  const [first] = details;
  if (first !== undefined) {
    throw new AppError('validation_failed', `${first.path}: ${first.message}`, { details });
  }
  assertAhead(schedule);
}

const recorded = (window: MaintenanceWindow) => ({
  name: window.name,
  target: window.target,
  ...scheduleOf(window),
  suppress: { alerts: window.suppressAlerts, upgrades: window.suppressUpgrades },
});

export async function deleteWindow(ctx: Context, id: string, hub: Hub) {
  const window = await lockWindow(ctx, id);
  const members = await membersOf(ctx.tx, id);
  await window.$query(ctx.tx).delete();
  if (members.length > 0) ctx.afterCommit(() => hub.devicesChanged(members));
  return { success: true as const, window };
}

/** Ends the occurrence that is in progress. Later ones happen as planned. */
export async function endWindow(ctx: Context, id: string): Promise<WindowResponse> {
  const window = await lockWindow(ctx, id);
  const now = clock.date();
  const current = occurrenceAt(window, now);
  if (current === undefined) {
    const next = nextOccurrence(window, now);
    throw new AppError(
      'conflict',
      next === undefined
        ? 'This maintenance window is over.'
        : `This maintenance window is not in progress. It begins next at ${next.startsAt.toISOString()}.`,
    );
  }
  const updated = await window.$query(ctx.tx).patchAndFetch({ endedEarlyAt: now, dueAt: now });
  ctx.recordChange({ endsAt: current.endsAt }, { endsAt: now });
  return toResponse(updated);
}

const PREVIEWED = 5;

/** When a window with these times would be in effect. */
export function previewOccurrences({ repeat = null, ...schedule }: PreviewRequest) {
  return { data: ahead({ ...schedule, repeat }, PREVIEWED) };
}

/** The first occurrences that are in progress or have not begun. */
const ahead = (schedule: Schedule, atMost: number): Occurrence[] =>
  occurrencesBetween(schedule, { from: clock.date(), to: new Date(LAST_MS) }, atMost);
/** Later than any window can be. */
const LAST_MS = Date.UTC(9999, 11, 31);

const CALENDAR_WINDOWS = 1000;
const CALENDAR_MAX = 1000;

/** The occurrences of all windows that the caller may see, in a span of time. */
export async function readCalendar(ctx: Context, { orgId, from, to }: CalendarQuery): Promise<Calendar> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const windows = await accessibleWindowsByName(ctx, orgId).limit(CALENDAR_WINDOWS + 1);
  const found = windows.slice(0, CALENDAR_WINDOWS).flatMap((window) => shownBetween(window, from, to));
  found.sort((one, other) => one.startsAt.getTime() - other.startsAt.getTime());
  return {
    data: found.slice(0, CALENDAR_MAX),
    complete: windows.length <= CALENDAR_WINDOWS && found.length <= CALENDAR_MAX,
  };
}

function shownBetween(window: MaintenanceWindow, from: Date, to: Date) {
  const { id: windowId, orgId, name, suppressAlerts: alerts, suppressUpgrades: upgrades } = window;
  // At most one a day: the span of the query is the bound.
  return occurrencesBetween(window, { from, to }, CALENDAR_MAX).map((occurrence) => ({
    ...occurrence,
    windowId,
    orgId,
    name,
    suppress: { alerts, upgrades },
  }));
}

function toResponse(window: MaintenanceWindow): WindowResponse {
  const now = clock.date();
  const current = occurrenceAt(window, now) ?? null;
  const next = nextOccurrence(window, now) ?? null;
  const { id, orgId, partnerId, createdBy, createdAt, updatedAt } = window;
  return {
    id,
    orgId,
    partnerId,
    ...recorded(window),
    status: statusOf(current, next),
    current,
    next,
    createdBy,
    createdAt,
    updatedAt,
  };
}

function statusOf(current: Occurrence | null, next: Occurrence | null): WindowResponse['status'] {
  if (current !== null) return 'in_progress';
  return next === null ? 'over' : 'scheduled';
}

const named = <T>(query: PromiseLike<T>) =>
  namingConflict(query, 'maintenance_windows_name', 'body.name', NAME_TAKEN);
