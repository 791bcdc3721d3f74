import type { AgentContext } from '../../platform/context.ts';
import { runPrepared } from '../../platform/db/prepared.ts';
import { notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { DeviceEvent } from '../../protocol/index.ts';

// Inserted in the order of the events, so that two requests with the same events wait for each other without a deadlock.
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

/** Stores a group of events; those that are known already are skipped. */
export async function storeGroup({ tx, agent }: AgentContext, events: readonly DeviceEvent[]) {
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
