import { everyScope } from '../../platform/http/access.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  DiagnosticBatch,
  DiagnosticReceipt,
  LOG_BATCH_MAX,
  LOG_BATCH_MAX_BYTES,
} from '../../protocol/index.ts';
import type { RepeatedReads } from '../audit/index.ts';
import { bytesOf, type LogBudgets } from '../log-budgets/index.ts';
import { DiagnosticLogPage, DiagnosticLogQuery } from './diagnostic-log.schema.ts';
import { storeDiagnosticLines } from './diagnostic-log.queries.ts';
import { listDiagnosticLogs } from './diagnostic-log.service.ts';

export const diagnosticLogRoutes = ({
  reads,
  logBudgets,
}: {
  reads: RepeatedReads;
  logBudgets: LogBudgets;
}): RouteGroup => ({
  name: 'Diagnostic logs',
  description: 'The agents’ own logs, for diagnosing problems with an agent.',
  routes: [
    route({
      method: 'post',
      path: '/agents/:id/logs',
      summary: 'Store lines of the agent’s own log',
      description: `At most ${LOG_BATCH_MAX} lines at once. All of them are stored, or none: a 400 names the invalid line by its index. They count in the budgets of PUT /agents/{id}/eventlogs.`,
      access: 'agent',
      params: IdParams,
      body: DiagnosticBatch,
      bodyLimit: LOG_BATCH_MAX_BYTES,
      response: DiagnosticReceipt,
      status: 201,
      errors: ['rate_limited'],
      handler: ({ ctx, body: { logs } }) =>
        logBudgets.spend(ctx, async () => {
          const bytes = logs.reduce(
            (sum, { component, message, fields }) => sum + bytesOf([component, message], fields),
            0,
          );
          const answer = await storeDiagnosticLines(ctx, logs);
          return { answer, stored: { entries: logs.length, bytes } };
        }),
      unaudited: 'lines of a log, many times an hour',
    }),
    route({
      method: 'get',
      path: '/devices/:id/diagnostic-logs',
      summary: 'List the log of a device’s agent, newest first',
      access: everyScope('devices:read'),
      cost: 'expensive',
      params: IdParams,
      query: DiagnosticLogQuery,
      response: DiagnosticLogPage,
      handler: ({ ctx, params, query }) => listDiagnosticLogs(ctx, params.id, query, reads),
      audit: { action: 'data.access', resource: 'device', note: ({ noted }) => noted },
    }),
  ],
});
