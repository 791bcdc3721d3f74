import type { AgentContext, Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import type { RepeatedReads } from '../audit/index.ts';
import type { DeviceEvent, EventReceipt } from '../../protocol/index.ts';
import { findDevice } from '../devices/index.ts';
import { bytesOf, type LogBudgets } from '../log-budgets/index.ts';
import { readEvents } from './event-batch.ts';
import { StoredEvent } from './stored-event.model.ts';
import { storeGroup } from './stored-event.queries.ts';
import type { StoredEventQuery } from './stored-logs.schema.ts';

/** Rows in one statement (SPEC 8). */
const GROUP = 100;

/** Stores the events that are valid and not known yet. Throws `not_found` where the device has been deleted. */
export async function storeEvents(
  ctx: AgentContext,
  sent: readonly unknown[],
  budgets: LogBudgets,
): Promise<EventReceipt & { audited: Record<string, unknown>; hostname: string }> {
  const { events, refused, cut, faults } = readEvents(sent);
  events.sort(byKey);
  const { count, hostname } = await budgets.spend(ctx, async () => {
    let [stored, name] = [0, ''];
    // An empty batch runs once as well, to check that the device exists.
    for (let from = 0; from === 0 || from < events.length; from += GROUP) {
      const group = await storeGroup(ctx, events.slice(from, from + GROUP));
      stored += group.stored;
      name = group.hostname;
    }
    const bytes = events.reduce(
      (sum, { source, message, details }) => sum + bytesOf([source, message], details),
      0,
    );
    // Which of them were known already is not told apart: each takes its share.
    const share = Math.ceil((bytes * stored) / Math.max(events.length, 1));
    return { answer: { count: stored, hostname: name }, stored: { entries: stored, bytes: share } };
  });
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

export async function listStoredEvents(
  ctx: Context,
  deviceId: string,
  query: StoredEventQuery,
  reads: RepeatedReads,
): Promise<Page<StoredEvent> & { noted: AuditNote[] }> {
  const device = await findDevice(ctx, deviceId);
  const events = StoredEvent.query(ctx.tx)
    .where('device_id', device.id)
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .orderBy([
      { column: 'timestamp', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.category !== undefined) void events.whereRaw('category = any(?::text[])', [query.category]);
  if (query.level !== undefined) void events.whereRaw('level = any(?::text[])', [query.level]);
  if (query.source !== undefined) void events.where('source', query.source);
  if (query.startDate !== undefined) void events.where('timestamp', '>=', query.startDate);
  if (query.endDate !== undefined) void events.where('timestamp', '<=', query.endDate);
  const { page: _page, limit: _limit, ...conditions } = query;
  return {
    ...toPage(query, await events),
    noted: reads.noteOf(ctx, device, { how: 'stored events', conditions }),
  };
}
