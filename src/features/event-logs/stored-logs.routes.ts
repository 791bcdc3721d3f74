import { everyScope } from '../../platform/http/access.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { RepeatedReads } from '../audit/index.ts';
import type { LogBudgets } from '../log-budgets/index.ts';
import { EventBatch, EventReceipt, LOG_BATCH_MAX_BYTES } from '../../protocol/index.ts';
import { StoredEventPage, StoredEventQuery } from './stored-logs.schema.ts';
import { listStoredEvents, storeEvents } from './stored-logs.service.ts';

export const storedLogRoutes = ({
  reads,
  logBudgets,
}: {
  reads: RepeatedReads;
  logBudgets: LogBudgets;
}): RouteGroup => ({
  name: 'Stored event logs',
  description: 'Events that devices have sent, which can be read while they are offline.',
  routes: [
    route({
      method: 'put',
      path: '/agents/:id/eventlogs',
      summary: 'Store events of the device',
      description:
        'Any number of events that fits into a body of 2 MB. Known events, by source and event id, are skipped. Texts that are too long are cut, which `truncated` in the details shows. Invalid events are skipped and listed in `refused`; the response is 400 if no event is valid. Where the device or its organization has stored as much as it may in a day or in total, the response is 429 with the seconds until the next day (UTC).',
      access: 'agent',
      params: IdParams,
      body: EventBatch,
      bodyLimit: LOG_BATCH_MAX_BYTES,
      response: EventReceipt,
      errors: ['rate_limited'],
      handler: ({ ctx, body }) => storeEvents(ctx, body.events, logBudgets),
      audit: {
        action: 'agent.eventlogs.submit',
        resource: 'device',
        note: ({ hostname, audited }, { params }) => ({
          resourceId: params.id,
          resourceName: hostname,
          details: audited,
        }),
      },
    }),
    route({
      method: 'get',
      path: '/devices/:id/eventlogs',
      summary: 'List the stored events of a device, newest first',
      access: everyScope('devices:read'),
      cost: 'expensive',
      params: IdParams,
      query: StoredEventQuery,
      response: StoredEventPage,
      handler: ({ ctx, params, query }) => listStoredEvents(ctx, params.id, query, reads),
      audit: { action: 'data.access', resource: 'device', note: ({ noted }) => noted },
    }),
  ],
});
