import { createHash } from 'node:crypto';
import { AppError } from '../../platform/errors.ts';
import {
  DeviceEvent,
  EVENT_ID_MAX,
  EVENT_SOURCE_MAX,
  type EventReceipt,
  LOG_MESSAGE_MAX,
} from '../../protocol/index.ts';

/** What is read of the events that an agent sends in one request. */

type Faults = NonNullable<EventReceipt['refused']>;

const FAULTS_MAX = 100;

export interface ReadBatch {
  events: DeviceEvent[];
  refused: number;
  cut: number;
  faults: Faults;
}

/** Keeps whatever can be kept. Throws `validation_failed` for a batch of which that is nothing. */
export function readEvents(sent: readonly unknown[]): ReadBatch {
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
