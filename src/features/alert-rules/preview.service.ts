import { clock, DAY_MS, HOUR_MS } from '../../clock.ts';
import { assertActsForWholePartner, type Context, type DetachedContext } from '../../platform/context.ts';
import { invalid } from '../../platform/errors.ts';
import { groupedBy } from '../../platform/grouped-by.ts';
import { assertTarget } from '../device-targets/index.ts';
import { fewestMinuteDays, type MetricName, minutesOfDevices, turnsOfDevices } from '../metrics/index.ts';
import { assertOrganizationAccess, readOrganization } from '../organizations/index.ts';
import type { Owner } from '../owners/index.ts';
import type { ConditionOf, RuleCondition, RulePreview, RulePreviewRequest } from './alert-rule.schema.ts';
import {
  alertsOfTurns,
  eventTurns,
  metricTurns,
  offlineTurns,
  type PastAlert,
  type Turn,
} from './past-alerts.ts';
import {
  devicesOfTarget,
  fittingEvents,
  fittingServices,
  fittingSoftwareChanges,
  pastReports,
  type PreviewedDevice,
} from './preview.queries.ts';
import { type Figures, figuresOf } from './rule-metrics.ts';

const PREVIEWED_DAYS = 7;
const PREVIEWED_MS = PREVIEWED_DAYS * DAY_MS;
/** What happened before is followed for this time, to know which alerts were already open when the seven days began. */
const BEFORE_MS = DAY_MS;
/** The most devices that a preview examines. Figures take a hundred times as long to read as anything else. */
const DEVICES_MAX = 5000;
const DEVICES_WITH_FIGURES_MAX = 300;
/** A preview ends after this time, and says so. */
const BUDGET_MS = 8000;
const DEVICES_AT_ONCE = { metric: 10, offline: 500, event: 100, software: 500, service: 500 };
const EVENTS_MAX = 20_000;
const REPORTS_MAX = 5000;
const SHOWN_MAX = 200;

interface Range {
  /** What happened from here on is followed. */
  since: Date;
  /** The alerts from here on count. */
  from: Date;
  to: Date;
}

interface FoundAlert extends PastAlert {
  device: PreviewedDevice;
}

interface Found {
  alerts: FoundAlert[];
  /** Devices with an alert that was open when the seven days began. */
  before: number;
  devices: number;
  examined: number;
  complete: boolean;
}

/** The alerts that a rule would have raised in the last seven days. Each batch of devices is a short transaction. */
export async function previewRule(
  ctx: DetachedContext,
  { orgId, target, condition, cooldownMinutes = 0 }: RulePreviewRequest,
): Promise<RulePreview> {
  const now = clock.date();
  const from = now.getTime() - PREVIEWED_MS;
  const range = { since: new Date(from - BEFORE_MS), from: new Date(from), to: now };
  const owner = await ctx.withTenant(async (tenant) => {
    const known = await previewedOwner(tenant, orgId);
    await assertTarget(tenant, known, target, 'body.target');
    return known;
  });
  const found =
    condition.kind === 'reported'
      ? await previewReports(ctx, owner, { target, condition, range })
      : await previewDevices(ctx, owner, { target, condition, cooldownMinutes, range });
  return answerOf(found, range);
}

async function previewedOwner(ctx: Context, orgId: string | undefined): Promise<Owner> {
  const { caller } = ctx;
  const own = orgId ?? caller.orgId;
  if (own !== null) {
    await assertOrganizationAccess(ctx, own);
    return { partnerId: (await readOrganization(ctx, own)).partnerId, orgId: own };
  }
  if (caller.partnerId === null) throw invalid('body.orgId', 'is required in system scope');
  assertActsForWholePartner(caller, 'preview alert rules of the partner');
  return { partnerId: caller.partnerId, orgId: null };
}

interface Previewed<C extends RuleCondition> extends Pick<RulePreviewRequest, 'target'> {
  condition: C;
  range: Range;
}

type DeviceCondition = Exclude<RuleCondition, { kind: 'reported' }>;

async function previewDevices(
  ctx: DetachedContext,
  owner: Owner,
  { target, condition, cooldownMinutes, range }: Previewed<DeviceCondition> & { cooldownMinutes: number },
): Promise<Found> {
  const atMost = condition.kind === 'metric' ? DEVICES_WITH_FIGURES_MAX : DEVICES_MAX;
  const { devices, total } = await ctx.withTenant((tenant) => devicesOfTarget(tenant, owner, target, atMost));
  const isKept =
    condition.kind !== 'metric' || (await ctx.withTenant((tenant) => keepsFigures(tenant, devices)));
  const found: Found = {
    alerts: [],
    before: 0,
    devices: total,
    examined: 0,
    complete: devices.length === total && isKept,
  };
  const startedAt = clock.monotonic();
  const size = DEVICES_AT_ONCE[condition.kind];
  for (let from = 0; from < devices.length; from += size) {
    if (clock.monotonic() - startedAt > BUDGET_MS) return { ...found, complete: false };
    const batch = devices.slice(from, from + size);
    const { turns, isCut } = await ctx.withTenant((tenant) => turnsOf(tenant, batch, condition, range));
    for (const device of batch) {
      const alerts = alertsOfTurns(turns.get(device.id) ?? [], { cooldownMinutes, to: range.to.getTime() });
      const from = range.from.getTime();
      for (const alert of alerts) if (alert.raisedAt >= from) found.alerts.push({ ...alert, device });
      if (alerts.some((alert) => wasOpenAt(alert, from))) found.before += 1;
    }
    found.examined += batch.length;
    if (isCut) found.complete = false;
  }
  return found;
}

const wasOpenAt = ({ raisedAt, resolvedAt }: PastAlert, at: number) =>
  raisedAt < at && (resolvedAt === null || resolvedAt >= at);

/** Whether the organizations of the devices keep the figures of each minute for as long as a preview looks back. */
async function keepsFigures(ctx: Context, devices: readonly PreviewedDevice[]): Promise<boolean> {
  const days = await fewestMinuteDays(ctx, [...new Set(devices.map(({ orgId }) => orgId))]);
  return days === undefined || days >= PREVIEWED_DAYS;
}

/** The changes of the condition on devices. `isCut`: more happened than a preview reads. */
async function turnsOf(
  ctx: Context,
  devices: readonly PreviewedDevice[],
  condition: DeviceCondition,
  { since: from, to }: Range,
): Promise<{ turns: Map<string, Turn[]>; isCut: boolean }> {
  const ids = devices.map(({ id }) => id);
  const range = { from, to };
  switch (condition.kind) {
    case 'metric':
      return { turns: await turnsOfFigures(ctx, ids, condition, range), isCut: false };
    case 'offline': {
      const span = { from: from.getTime(), to: to.getTime() };
      const presence = await turnsOfDevices(ctx, ids, span);
      return { turns: mapped(presence, (turns) => offlineTurns(condition, turns, span)), isCut: false };
    }
    case 'event': {
      const events = await fittingEvents(ctx, ids, condition, { ...range, atMost: EVENTS_MAX });
      const byDevice = groupedBy(events, ({ deviceId }) => deviceId);
      const turns = mapped(byDevice, (all) =>
        eventTurns(
          condition,
          all.map(({ at, what }) => ({ at: at.getTime(), what })),
        ),
      );
      return { turns, isCut: events.length === EVENTS_MAX };
    }
    case 'software': {
      const changes = await fittingSoftwareChanges(ctx, ids, condition, { ...range, atMost: EVENTS_MAX });
      const byDevice = groupedBy(changes, ({ deviceId }) => deviceId);
      const turns = mapped(byDevice, (all) =>
        all.map(({ at, name, isMet, what }) => ({ at: at.getTime(), key: name, isMet, what })),
      );
      return { turns, isCut: changes.length === EVENTS_MAX };
    }
    case 'service': {
      // Only since when services are in their present state is known, so there may have been more.
      const services = await fittingServices(ctx, ids, condition, range);
      const byDevice = groupedBy(services, ({ deviceId }) => deviceId);
      const turns = mapped(byDevice, (all) =>
        all.map(({ at, what }) => ({ at: at.getTime(), key: what, isMet: true, what })),
      );
      return { turns, isCut: true };
    }
    default:
      return condition satisfies never;
  }
}

/** What the metrics of rules are computed from. */
const sourcesOf = ({ metric }: ConditionOf<'metric'>): readonly MetricName[] =>
  metric === 'diskPercent' || metric === 'diskFreeBytes' ? ['volumeUsedBytes', 'volumeTotalBytes'] : [metric];

async function turnsOfFigures(
  ctx: Context,
  deviceIds: readonly string[],
  condition: ConditionOf<'metric'>,
  { from, to }: Pick<Range, 'from' | 'to'>,
): Promise<Map<string, Turn[]>> {
  const sources = new Set(sourcesOf(condition));
  // The hour of the beginning is read whole.
  const begin = new Date(Math.floor(from.getTime() / HOUR_MS) * HOUR_MS);
  const hours = await minutesOfDevices(ctx, deviceIds, { from: begin, to }, (metric) => sources.has(metric));
  return mapped(hours, (stretches) => {
    const figures = new Map<string, Figures['points'][number][]>();
    for (const { label, points } of stretches.flatMap((stretch) => figuresOf(condition.metric, stretch))) {
      const known = figures.get(label) ?? [];
      figures.set(label, known);
      known.push(...points.filter(({ at }) => at >= from.getTime() && at < to.getTime()));
    }
    return metricTurns(
      condition,
      [...figures].map(([label, points]) => ({ label, points })),
    );
  });
}

const mapped = <T, R>(all: ReadonlyMap<string, T>, change: (one: T) => R): Map<string, R> =>
  new Map([...all].map(([key, one]) => [key, change(one)]));

async function previewReports(
  ctx: DetachedContext,
  owner: Owner,
  { target, condition, range }: Previewed<ConditionOf<'reported'>>,
): Promise<Found> {
  return ctx.withTenant(async (tenant) => {
    const { total } = await devicesOfTarget(tenant, owner, target, 1);
    const reports = await pastReports(tenant, owner, target, {
      alertKind: condition.alertKind,
      from: range.from,
      to: range.to,
      atMost: REPORTS_MAX,
    });
    const complete = reports.length < REPORTS_MAX;
    const alerts = reports.map(({ deviceId, orgId, name, raisedAt, resolvedAt, what }) => ({
      device: { id: deviceId, orgId, name },
      raisedAt: raisedAt.getTime(),
      resolvedAt: resolvedAt?.getTime() ?? null,
      what,
    }));
    return { alerts, before: 0, devices: total, examined: total, complete };
  });
}

function answerOf({ alerts, before, devices, examined, complete }: Found, { from, to }: Range): RulePreview {
  const days = new Map<string, number>();
  for (let at = from.getTime(); at < to.getTime() + DAY_MS; at += DAY_MS) {
    const day = dayOf(Math.min(at, to.getTime()));
    days.set(day, 0);
  }
  for (const { raisedAt } of alerts) days.set(dayOf(raisedAt), (days.get(dayOf(raisedAt)) ?? 0) + 1);
  return {
    from,
    to,
    devices,
    examined,
    complete,
    count: alerts.length,
    affected: new Set(alerts.map(({ device }) => device.id)).size,
    before,
    byDay: [...days].map(([day, count]) => ({ day, count })),
    alerts: alerts
      .toSorted((a, b) => b.raisedAt - a.raisedAt)
      .slice(0, SHOWN_MAX)
      .map(({ device, raisedAt, resolvedAt, what }) => ({
        deviceId: device.id,
        orgId: device.orgId,
        deviceName: device.name,
        raisedAt: new Date(raisedAt),
        resolvedAt: resolvedAt === null ? null : new Date(resolvedAt),
        what,
      })),
  };
}

const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
