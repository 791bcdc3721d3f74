import type { AgentContext, Context } from '../../platform/context.ts';
import { runPrepared } from '../../platform/db/prepared.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { notFound } from '../../platform/errors.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import type { RepeatedReads } from '../audit/index.ts';
import type { DeviceEvent, EventReceipt } from '../../protocol/index.ts';
import { readDevice } from '../devices/index.ts';
import { readEvents } from './event-batch.ts';
import type { StoredEvent, StoredEventQuery } from './stored-logs.schema.ts';

/** Rows in one statement (SPEC 8). */
const GROUP = 100;

// In the order in which the events are given: the same ones sent twice at once wait for each other, and never in a
// circle.
const STORE = {
  name: 'event-logs-store',
  text: `
    with device as (select id, org_id, hostname from devices where org_id = $1 and id = $2),
    stored as (
      insert into device_event_logs
        (id, device_id, org_id, "timestamp", level, category, source, event_id, message, details)
      select event.id, device.id, device.org_id, event."timestamp", event.level, event.category, event.source,
        event.event_id, event.message, event.details::jsonb
      from device cross join unnest($3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[]) with ordinality
        as event (id, "timestamp", level, category, source, event_id, message, details, place)
      order by event.place
      on conflict (device_id, source, event_id) do nothing
      returning 1
    )
    select hostname, (select count(*)::int from stored) as stored from device`,
};

/** Keeps events of a machine's logs that are not known yet, and can be kept; none where the device is gone. */
export async function storeEvents(
  ctx: AgentContext,
  sent: readonly unknown[],
): Promise<EventReceipt & { audited: Record<string, unknown>; hostname: string }> {
  const { events, refused, cut, faults } = readEvents(sent);
  events.sort(byKey);
  let count = 0;
  let hostname = '';
  // Of an empty batch, too, it is seen whether the device is there.
  for (let from = 0; from === 0 || from < events.length; from += GROUP) {
    const group = await storeGroup(ctx, events.slice(from, from + GROUP));
    count += group.stored;
    hostname = group.hostname;
  }
  return {
    success: true,
    count,
    ...(refused === 0 ? {} : { refused: faults }),
    hostname,
    audited: {
      submitted: sent.length,
      inserted: count,
      ...(refused === 0 ? {} : { refused }),
      ...(cut === 0 ? {} : { truncated: cut }),
    },
  };
}

/** In the order of the unique key. */
function byKey(a: DeviceEvent, b: DeviceEvent): number {
  const [first, second] = [a, b].map(({ source, eventId = '' }) => `${source}\0${eventId}`) as [
    string,
    string,
  ];
  if (first === second) return 0;
  return first < second ? -1 : 1;
}

async function storeGroup({ tx, agent }: AgentContext, events: readonly DeviceEvent[]) {
  const [group] = await runPrepared<{ hostname: string; stored: number }>(tx, STORE, [
    agent.orgId,
    agent.deviceId,
    events.map(() => newId()),
    events.map(({ timestamp }) => timestamp),
    events.map(({ level }) => level),
    events.map(({ category }) => category),
    events.map(({ source }) => source),
    events.map(({ eventId }) => eventId ?? null),
    events.map(({ message }) => message),
    events.map(({ details }) => (details === undefined ? null : JSON.stringify(details))),
  ]);
  if (group === undefined) throw notFound('Device');
  return group;
}

export async function listStoredEvents(
  ctx: Context,
  deviceId: string,
  query: StoredEventQuery,
  reads: RepeatedReads,
): Promise<Page<StoredEvent> & { noted: AuditNote[] }> {
  const device = await readDevice(ctx, deviceId);
  const matching = ctx
    .tx('device_event_logs')
    .where({ device_id: device.id })
    .whereRaw(inTenant(ctx.caller, 'org_id'));
  if (query.category !== undefined) void matching.whereRaw('category = any(?::text[])', [query.category]);
  if (query.level !== undefined) void matching.whereRaw('level = any(?::text[])', [query.level]);
  if (query.source !== undefined) void matching.where('source', query.source);
  if (query.startDate !== undefined) void matching.where('timestamp', '>=', query.startDate);
  if (query.endDate !== undefined) void matching.where('timestamp', '<=', query.endDate);
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const data = await matching
    .select<StoredEvent[]>(
      'id',
      'device_id as deviceId',
      'org_id as orgId',
      'timestamp',
      'level',
      'category',
      'source',
      'event_id as eventId',
      'message',
      'details',
      'created_at as createdAt',
    )
    .orderBy([
      { column: 'timestamp', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .offset((query.page - 1) * query.limit)
    .limit(query.limit);
  const { page, limit, ...conditions } = query;
  return {
    data,
    pagination: { page, limit, total: Number(counted?.count ?? 0) },
    noted: reads.noteOf(ctx, device, { how: 'stored events', conditions }),
  };
}
