import type { AgentContext, Context } from '../../platform/context.ts';
import { inTenant, containing } from '../../platform/db/statement.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import type { RepeatedReads } from '../audit/index.ts';
import {
  DeviceEvent,
  type EventReceipt,
  EVENT_ID_MAX,
  EVENT_SOURCE_MAX,
  LOG_MESSAGE_MAX,
} from '../../protocol/index.ts';
import { findDevice } from '../devices/index.ts';
import { StoredEvent, DiagnosticLog } from './log.model.ts';
import { holdDevice, storeGroup } from './log.queries.ts';
import type { StoredEventQuery, DiagnosticLogPage, DiagnosticLogQuery } from './log.schema.ts';
import { createHash } from 'node:crypto';
import { AppError } from '../../platform/errors.ts';
import type { z } from 'zod';
import { bytesOf, type LogBudgets } from './log-budgets.ts';

/** Rows in one statement (SPEC 8). */
const GROUP = 100;

/** Stores the events that are valid and not known yet. Throws `not_found` if the device has been deleted. */
export async function storeEvents(
  ctx: AgentContext,
  sent: readonly unknown[],
  budgets: LogBudgets,
): Promise<EventReceipt & { audited: Record<string, unknown>; hostname: string }> {
  const { events, refused, cut, faults } = readEvents(sent);
  const { count, hostname } = await budgets.spend(ctx, async () => {
    const hostname = await holdDevice(ctx);
    let stored = 0;
    for (let from = 0; from < events.length; from += GROUP) {
      stored += await storeGroup(ctx, events.slice(from, from + GROUP));
    }
    const bytes = events.reduce(
      (sum, { source, message, details }) => sum + bytesOf([source, message], details),
      0,
    );
    // Which of them were known already is not told apart: each takes its share.
    const share = Math.ceil((bytes * stored) / Math.max(events.length, 1));
    return { answer: { count: stored, hostname }, stored: { entries: stored, bytes: share } };
  });
  return {
    success: true,
    count,
    ...(refused === 0 ? {} : { refused: faults, refusedCount: refused }),
    hostname,
    audited: {
      submitted: sent.length,
      inserted: count,
      ...(refused === 0 ? {} : { refused }),
      ...(cut === 0 ? {} : { truncated: cut }),
    },
  };
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

/** The events of one request of an agent, as they were read. */

type Faults = NonNullable<EventReceipt['refused']>;

const FAULTS_MAX = 100;

interface ReadBatch {
  events: DeviceEvent[];
  refused: number;
  cut: number;
  faults: Faults;
}

/** Keeps whatever can be kept. Throws `validation_failed` for a batch of which that is nothing. */
function readEvents(sent: readonly unknown[]): ReadBatch {
  const batch: ReadBatch = { events: [], refused: 0, cut: 0, faults: [] };
  for (const [index, entry] of sent.entries()) {
    const parsed = DeviceEvent.safeParse(entry);
    if (parsed.success) {
      const event = fitted(parsed.data);
      if (event !== parsed.data) batch.cut++;
      batch.events.push(event);
      continue;
    }
    batch.refused++;
    for (const { path, message } of parsed.error.issues) {
      if (batch.faults.length < FAULTS_MAX) {
        batch.faults.push({ path: ['body', 'events', index, ...path].join('.'), message });
      }
    }
  }
  const [first] = batch.faults;
  if (batch.events.length === 0 && first !== undefined) {
    throw new AppError('validation_failed', `${first.path}: ${first.message}`, { details: batch.faults });
  }
  return batch;
}

/** The event with texts no longer than are kept; its details say how long they were. */
function fitted(event: DeviceEvent): DeviceEvent {
  const { source, eventId, message } = event;
  const truncated = {
    ...(source.length > EVENT_SOURCE_MAX ? { source: source.length } : {}),
    ...(eventId !== undefined && eventId.length > EVENT_ID_MAX ? { eventId: eventId.length } : {}),
    ...(message.length > LOG_MESSAGE_MAX ? { message: message.length } : {}),
  };
  if (Object.keys(truncated).length === 0) return event;
  return {
    ...event,
    source: cut(source, EVENT_SOURCE_MAX),
    ...(eventId === undefined ? {} : { eventId: shortId(eventId) }),
    message: cut(message, LOG_MESSAGE_MAX),
    details: { ...event.details, truncated },
  };
}

/** The first characters; no half of a surrogate pair at the end. */
const cut = (text: string, max: number) =>
  text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '');

const HASH_LENGTH = 32;

/** Ids that begin alike stay different: a cut one ends with a hash of the whole. */
function shortId(id: string): string {
  if (id.length <= EVENT_ID_MAX) return id;
  const hash = createHash('sha256').update(id).digest('hex').slice(0, HASH_LENGTH);
  return `${cut(id, EVENT_ID_MAX - HASH_LENGTH - 1)}:${hash}`;
}

export async function listDiagnosticLogs(
  ctx: Context,
  deviceId: string,
  query: DiagnosticLogQuery,
  reads: RepeatedReads,
): Promise<z.input<typeof DiagnosticLogPage> & { noted: AuditNote[] }> {
  const device = await findDevice(ctx, deviceId);
  const { page, limit, ...conditions } = query;
  const lines = DiagnosticLog.query(ctx.tx)
    .where('device_id', device.id)
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .orderBy([
      { column: 'timestamp', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page - 1, limit);
  if (query.level !== undefined) void lines.whereRaw('level = any(?::text[])', [query.level]);
  if (query.component !== undefined) void lines.where('component', query.component);
  if (query.since !== undefined) void lines.where('timestamp', '>=', query.since);
  if (query.until !== undefined) void lines.where('timestamp', '<=', query.until);
  if (query.search !== undefined) void lines.whereILike('message', containing(query.search));
  const { results: logs, total } = await lines;
  const noted = reads.noteOf(ctx, device, { how: 'diagnostic log', conditions });
  return { logs, total, limit, offset: (page - 1) * limit, noted };
}
