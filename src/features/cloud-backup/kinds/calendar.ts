import { z } from 'zod';
import type { GraphClient } from '../graph/graph-client.ts';
import { GraphError } from '../graph/graph-error.ts';
import {
  dateOf,
  GraphId,
  type GraphUser,
  type Kind,
  listAll,
  oneLine,
  partOf,
  Person,
  removedItem,
  userPath,
} from './kind.ts';

const Calendar = z.object({ id: GraphId, name: z.string().nullish() });
const ListedEvent = z.looseObject({
  id: GraphId,
  changeKey: z.string().max(500).nullish(),
  subject: z.string().nullish(),
  type: z.string().max(50).nullish(),
  hasAttachments: z.boolean().nullish(),
  start: z.object({ dateTime: z.string().nullish() }).nullish(),
  organizer: Person.nullish().catch(null),
});
const Exceptions = z.looseObject({
  exceptionOccurrences: z.array(z.unknown()).optional(),
  cancelledOccurrences: z.array(z.unknown()).optional(),
});
const Attachments = z.object({ value: z.array(z.unknown()) });
/** Attachments come within JSON, and are in memory once. */
const ATTACHMENTS_MAX = 32 << 20;

/** The content of an event. */
export const EventContent = z.object({
  event: z.looseObject({}),
  exceptions: z.array(z.unknown()),
  cancelled: z.array(z.unknown()),
  attachments: z.array(z.unknown()),
});

/**
 * Events by their list. Graph lists the changes of a window of time only, and of whole calendars in its beta version;
 * single events and masters of series of all times are in the list, which also says what has changed since (`changeKey`).
 */
export const calendar: Kind = {
  name: 'calendar',
  hasDelta: false,

  async containers(graph, user) {
    const calendars = await listAll(graph, `${userPath(user)}/calendars?$select=id,name&$top=100`, Calendar);
    return calendars.map(({ id, name }) => ({ id, path: `/${oneLine(name, 200)}` }));
  },

  // In the order in which they were made: what is added or changed meanwhile moves nothing to a page that was read.
  firstPage: (user, { id }) =>
    `${userPath(user)}/calendars/${partOf(id)}/events?$top=100&$orderby=createdDateTime`,

  read(record, { path }) {
    const event = ListedEvent.parse(record);
    return {
      ...removedItem(event.id),
      isRemoved: false,
      etag: event.changeKey ?? undefined,
      name: oneLine(event.subject),
      parentPath: path,
      itemDate: dateOf(event.start?.dateTime),
      metadata: {
        type: event.type ?? 'singleInstance',
        organizer: oneLine(event.organizer?.emailAddress?.address, 320),
        organizerName: oneLine(event.organizer?.emailAddress?.name, 200),
      },
      record,
    };
  },

  async *content(graph, user, { id, record }) {
    const event = ListedEvent.parse(record);
    const place = `${userPath(user)}/events/${partOf(id)}`;
    const series = event.type === 'seriesMaster' ? await exceptionsOf(graph, place) : {};
    const content: z.input<typeof EventContent> = {
      event,
      exceptions: series.exceptionOccurrences ?? [],
      cancelled: series.cancelledOccurrences ?? [],
      attachments: event.hasAttachments === true ? await attachmentsOf(graph, user, id) : [],
    };
    yield Buffer.from(JSON.stringify(content));
  },
};

const exceptionsOf = (graph: GraphClient, place: string): Promise<z.output<typeof Exceptions>> =>
  graph
    .json(`${place}?$select=id,cancelledOccurrences&$expand=exceptionOccurrences`, Exceptions)
    // National clouds do not know this everywhere. The series itself is there.
    .catch((error: unknown) => {
      if (error instanceof GraphError && error.status === 400) return {};
      throw error;
    });

async function attachmentsOf(graph: GraphClient, user: GraphUser, id: string): Promise<unknown[]> {
  const place = `${userPath(user)}/events/${partOf(id)}/attachments`;
  return (await graph.json(place, Attachments, { maxBytes: ATTACHMENTS_MAX })).value;
}
