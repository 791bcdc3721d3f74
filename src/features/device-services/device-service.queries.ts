import type { Context } from '../../platform/context.ts';
import {
  arrayLiteral,
  containing,
  inTenant,
  nameOrder,
  type Statement,
} from '../../platform/db/statement.ts';
import { DeviceServiceReportRow, DeviceServiceRow } from './device-service.model.ts';
import { SERVICES_MAX } from '../../protocol/index.ts';
import type { DeviceServiceQuery } from './device-service.schema.ts';
import type { DeviceChanges } from './merge-reports.ts';

interface DeviceRef {
  id: string;
  orgId: string;
}

export function servicesOf(ctx: Context, { id, orgId }: DeviceRef, { search, state }: DeviceServiceQuery) {
  const services = DeviceServiceRow.query(ctx.tx)
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .orderByRaw(nameOrder('name'));
  if (search !== undefined) {
    const pattern = containing(search);
    void services.whereRaw('(name ilike ? or display_name ilike ?)', [pattern, pattern]);
  }
  if (state !== undefined) void services.whereRaw('state = any(?::text[])', [state]);
  return services;
}

/** What the device reported last; undefined if it never did. */
export async function lastReport(ctx: Context, { id, orgId }: DeviceRef) {
  const report = await DeviceServiceReportRow.query(ctx.tx)
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .first();
  if (report === undefined) return undefined;
  const { manager, reportedAt, total } = report;
  const kept = total === null ? 0 : await keptOf(ctx, { id, orgId });
  return { manager, reportedAt, unlisted: total === null ? 0 : Math.max(0, total - kept) };
}

const keptOf = (ctx: Context, { id, orgId }: DeviceRef) =>
  DeviceServiceRow.query(ctx.tx)
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .resultSize();

/**
 * Writes what devices reported, those of many devices in one statement, and returns the devices of which it is stored. Rows
 * that are the same are not written. A device that is being moved is passed over: its rows have to get its organization.
 * A state without a time began before the agent looked: the time that is stored for it stays, or is now. No time is later
 * than now, because machines have clocks of their own. A device has at most `SERVICES_MAX`, however many reports bring
 * new ones; those beyond are not stored.
 */
export const WRITE_SERVICES: Statement = {
  name: 'device-services-write',
  text: `
    with sent as materialized (
      select * from unnest($1::uuid[], $2::text[], $3::integer[], $4::boolean[])
        as s (device_id, manager, total, is_complete)
    ), held as materialized (
      select id, org_id from devices where id = any($1::uuid[]) order by id for key share skip locked
    ), listed as materialized (
      select h.org_id, l.* from unnest($5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[])
        as l (device_id, name, display_name, state, start_mode, since)
      join held h on h.id = l.device_id
    ), gone as (
      delete from device_services d using held h join sent s on s.device_id = h.id
      where d.org_id = h.org_id and d.device_id = h.id and s.is_complete
        -- In this form, the names are hashed whatever the planner expects.
        and (d.device_id, d.name) not in (select device_id, name from listed)
    ), removed as (
      delete from device_services d
      using held h join unnest($11::uuid[], $12::text[]) as r (device_id, name) on r.device_id = h.id
      where d.org_id = h.org_id and d.device_id = h.id and d.name = r.name
    ), compared as materialized (
      select l.org_id, l.device_id, l.name, l.display_name, l.state, l.start_mode,
        least(coalesce(l.since, case when k.state = l.state then k.since end, now()), now()) as since, k as known,
        k.name is null as is_new, row_number() over (partition by l.device_id, k.name is null order by l.name) as place
      from listed l left join device_services k
        on k.org_id = l.org_id and k.device_id = l.device_id and k.name = l.name
    ), kept as materialized (
      select d.device_id, count(*) as services
      from held h join sent s on s.device_id = h.id
        join device_services d on d.org_id = h.org_id and d.device_id = h.id
      where h.id in (select device_id from compared where is_new) and case when s.is_complete
        then (d.device_id, d.name) in (select device_id, name from listed)
        else (d.device_id, d.name) not in (select r.device_id, r.name from unnest($11::uuid[], $12::text[]) as r (device_id, name))
        end
      group by d.device_id
    ), put as (
      insert into device_services (org_id, device_id, name, display_name, state, start_mode, since)
      select org_id, device_id, name, display_name, state, start_mode, since
      from compared c left join kept using (device_id)
      where ((c.known).display_name, (c.known).state, (c.known).start_mode, (c.known).since)
        is distinct from (c.display_name, c.state, c.start_mode, c.since)
        and (not c.is_new or c.place <= ${SERVICES_MAX} - coalesce(kept.services, 0))
      order by device_id, name
      on conflict (org_id, device_id, name) do update set display_name = excluded.display_name, state = excluded.state,
        start_mode = excluded.start_mode, since = excluded.since
    ), noted as (
      insert into device_service_reports as r (org_id, device_id, manager, total, reported_at)
      select h.org_id, h.id, s.manager, s.total, now() from sent s join held h on h.id = s.device_id order by h.id
      on conflict (org_id, device_id) do update set manager = excluded.manager, total = excluded.total,
        reported_at = excluded.reported_at
    )
    select id as "deviceId" from held`,
};

/** The parameters of `WRITE_SERVICES`. */
export function serviceValues(changes: readonly DeviceChanges[]): string[] {
  const services = changes.flatMap(({ deviceId, services: listed }) =>
    listed.map((service) => ({ deviceId, ...service })),
  );
  const removed = changes.flatMap(({ deviceId, removed: names }) =>
    names.map((name) => ({ deviceId, name })),
  );
  return [
    arrayLiteral(changes.map(({ deviceId }) => deviceId)),
    arrayLiteral(changes.map(({ manager }) => manager)),
    arrayLiteral(changes.map(({ total }) => total ?? null)),
    arrayLiteral(changes.map(({ isComplete }) => String(isComplete))),
    arrayLiteral(services.map(({ deviceId }) => deviceId)),
    arrayLiteral(services.map(({ name }) => name)),
    arrayLiteral(services.map(({ displayName = '' }) => displayName)),
    arrayLiteral(services.map(({ state }) => state)),
    arrayLiteral(services.map(({ startMode }) => startMode ?? null)),
    arrayLiteral(services.map(({ since }) => since ?? null)),
    arrayLiteral(removed.map(({ deviceId }) => deviceId)),
    arrayLiteral(removed.map(({ name }) => name)),
  ];
}
