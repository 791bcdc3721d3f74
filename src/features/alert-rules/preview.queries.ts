import { z } from 'zod';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { withDevicesOfTarget, type DeviceTarget } from '../device-targets/index.ts';
import type { Owner } from '../owners/index.ts';
import type { ConditionOf } from './alert-rule.schema.ts';

/** What a preview of a rule reads of the past. */

type Reader = Pick<Context, 'tx' | 'caller'>;

export interface PreviewedDevice {
  id: string;
  orgId: string;
  name: string;
}

/** The first devices of a target by their ids, and how many the target has. */
export async function devicesOfTarget(
  { tx, caller }: Reader,
  owner: Owner,
  target: DeviceTarget,
  atMost: number,
): Promise<{ devices: PreviewedDevice[]; total: number }> {
  const rows = await withDevicesOfTarget(tx, owner, target, (devices) =>
    devices
      .whereRaw(inTenant(caller, 'd.org_id'))
      .orderBy('d.id')
      .limit(atMost)
      .select<(PreviewedDevice & { total: string })[]>(
        'd.id',
        'd.org_id as orgId',
        tx.raw(`coalesce(nullif(d.display_name, ''), d.hostname) as name`),
        tx.raw('count(*) over () as total'),
      ),
  );
  return {
    devices: rows.map(({ id, orgId, name }) => ({ id, orgId, name })),
    total: Number(rows[0]?.total ?? 0),
  };
}

export interface PastEvent {
  deviceId: string;
  at: Date;
  what: string;
}

/** The events of devices that fit a condition, by device and time. */
export async function fittingEvents(
  { tx, caller }: Reader,
  deviceIds: readonly string[],
  condition: ConditionOf<'event'>,
  { from, to, atMost }: { from: Date; to: Date; atMost: number },
): Promise<PastEvent[]> {
  const { rows } = await tx.raw<{ rows: PastEvent[] }>(
    `select e.device_id as "deviceId", e."timestamp" as at, left(e.source || ': ' || e.message, 200) as what
    from event_logs e
    where e.device_id = any(?::uuid[]) and ${inTenant(caller, 'e.org_id')}
      and e."timestamp" >= ?::timestamptz and e."timestamp" < ?::timestamptz
      and event_fits(?::jsonb, e.level, e.category, e.source, e.event_id, e.message, e.details)
    order by e.device_id, e."timestamp" limit ?`,
    [[...deviceIds], from, to, JSON.stringify(condition), atMost],
  );
  return rows;
}

/** Changes of software whose name fits a condition. @returns `isMet` for those that the condition is about */
export async function fittingSoftwareChanges(
  { tx, caller }: Reader,
  deviceIds: readonly string[],
  { name, change }: ConditionOf<'software'>,
  { from, to, atMost }: { from: Date; to: Date; atMost: number },
): Promise<(PastEvent & { name: string; isMet: boolean })[]> {
  const { rows } = await tx.raw<{ rows: (PastEvent & { name: string; isMet: boolean })[] }>(
    `select c.device_id as "deviceId", c.at, c.name, c.change = ? as "isMet",
      c.name || coalesce(' ' || nullif(c.version, ''), ' ' || nullif(c.previous_version, ''), '') as what
    from software_changes c
    where c.device_id = any(?::uuid[]) and ${inTenant(caller, 'c.org_id')} and c.change in ('installed', 'removed')
      and c.at >= ?::timestamptz and c.at < ?::timestamptz and position(lower(?) in lower(c.name)) > 0
    order by c.device_id, c.at limit ?`,
    [change, [...deviceIds], from, to, name, atMost],
  );
  return rows;
}

/** The services of devices that have been in the state of a condition for long enough. @returns since when they have */
export async function fittingServices(
  { tx, caller }: Reader,
  deviceIds: readonly string[],
  condition: ConditionOf<'service'>,
  { from, to }: { from: Date; to: Date },
): Promise<PastEvent[]> {
  const { rows } = await tx.raw<{ rows: PastEvent[] }>(
    `select * from (
      select s.device_id as "deviceId", s.since + make_interval(mins => ?::integer) as at,
        coalesce(nullif(s.display_name, ''), s.name) || ' is ' || s.state as what
      from devices d join device_services s on s.org_id = d.org_id and s.device_id = d.id
      where d.id = any(?::uuid[]) and ${inTenant(caller, 'd.org_id')}
        and service_fits(?::jsonb, s.name, s.display_name, s.state)
    ) fitting where at >= ?::timestamptz and at < ?::timestamptz order by "deviceId", at`,
    [condition.forMinutes ?? 0, [...deviceIds], JSON.stringify(condition), from, to],
  );
  return rows;
}

const PastReport = z.object({
  deviceId: z.string(),
  orgId: z.string(),
  name: z.string(),
  raisedAt: z.date(),
  resolvedAt: z.date().nullable(),
  what: z.string(),
});

/** The alerts of a kind about devices that were raised in a stretch of time. */
export async function pastReports(
  { tx, caller }: Reader,
  owner: Owner,
  target: DeviceTarget,
  { alertKind, from, to, atMost }: { alertKind: string; from: Date; to: Date; atMost: number },
): Promise<z.infer<typeof PastReport>[]> {
  const rows = await withDevicesOfTarget(tx, owner, target, (devices) =>
    devices
      .joinRaw('join alerts a on a.subject_id = d.id and a.org_id = d.org_id')
      .whereRaw(inTenant(caller, 'a.org_id'))
      .whereRaw('a.kind = ? and a.raised_at >= ?::timestamptz and a.raised_at < ?::timestamptz', [
        alertKind,
        from,
        to,
      ])
      .orderBy('a.raised_at', 'desc')
      .limit(atMost)
      .select<unknown[]>(
        'd.id as deviceId',
        'd.org_id as orgId',
        tx.raw(`coalesce(nullif(d.display_name, ''), d.hostname) as name`),
        'a.raised_at as raisedAt',
        'a.resolved_at as resolvedAt',
        'a.title as what',
      ),
  );
  return z.array(PastReport).parse(rows);
}
