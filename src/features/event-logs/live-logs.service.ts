import type { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  liveQueryError,
  type LiveQueryFailure,
  type DeviceHub,
  withinQueryTimeout,
  remainingQueryMs,
  type LogReads,
  type LiveQuery,
} from '../../hub/index.ts';
import { AgentErrorCode, type CommandOutput, type CommandType, type LogEntry } from '../../protocol/index.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { type AppError, notFound } from '../../platform/errors.ts';
import { findAskableDevice } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import type { EntriesQuery, EntryPage } from './event-logs.schema.ts';

/** Live questions about a device's own logs (SPEC 4.11). Nothing here holds a database connection while it waits. */
export type LiveLogs = ReturnType<typeof liveLogs>;

export function liveLogs({ hub, reads }: { hub: DeviceHub; reads: LogReads }) {
  async function ask<T extends CommandType>(
    ctx: DetachedContext,
    deviceId: string,
    question: LiveQuery<T>,
    { partial, conditions }: { partial?: () => unknown; conditions?: object } = {},
  ): Promise<CommandOutput<T>> {
    // One limit from the arrival of the request, which covers waiting for the database as well.
    await withinQueryTimeout(
      ctx.arrivedAt,
      ctx.withTenant(async (tenant) =>
        assertManageable(tenant, (await findAskableDevice(tenant, deviceId)).orgId),
      ),
    );
    if (conditions !== undefined) {
      reads.record({
        caller: ctx.caller,
        client: ctx.client,
        deviceIds: [deviceId],
        how: 'live',
        conditions,
      });
    }
    const outcome = await hub.query(deviceId, { ...question, timeoutMs: remainingQueryMs(ctx.arrivedAt) });
    if (outcome.ok) return outcome.output;
    throw failure(outcome, partial);
  }

  return {
    async list(ctx: DetachedContext, deviceId: string, signal: AbortSignal) {
      const { logs } = await ask(ctx, deviceId, { type: 'eventlogs.list', payload: {}, signal });
      return { data: logs };
    },

    async get(ctx: DetachedContext, deviceId: string, name: string, signal: AbortSignal) {
      const { log } = await ask(ctx, deviceId, { type: 'eventlogs.get', payload: { name }, signal });
      return { data: log };
    },

    async entries(
      ctx: DetachedContext,
      deviceId: string,
      name: string,
      query: EntriesQuery,
      signal: AbortSignal,
    ): Promise<z.infer<typeof EntryPage>> {
      const startedAt = clock.monotonic();
      const entries: LogEntry[] = [];
      const { scanned, truncated, total, note } = await ask(
        ctx,
        deviceId,
        {
          type: 'eventlogs.query',
          payload: { name, ...query },
          maxRows: query.limit,
          onRows: (rows) => void entries.push(...rows),
          signal,
        },
        { partial: () => ({ partial: entries }), conditions: { name, ...query } },
      );
      return {
        data: entries,
        pagination: { page: query.page, limit: query.limit, ...(total === undefined ? {} : { total }) },
        meta: {
          scanned,
          truncated,
          tookMs: Math.round(clock.monotonic() - startedAt),
          ...(note === undefined ? {} : { note }),
        },
      };
    },

    async entry(ctx: DetachedContext, deviceId: string, name: string, recordId: number, signal: AbortSignal) {
      const payload = { name, recordId };
      const { entry } = await ask(
        ctx,
        deviceId,
        { type: 'eventlogs.record', payload, signal },
        { conditions: payload },
      );
      return { data: entry };
    },
  };
}

function failure(ended: LiveQueryFailure, partial: (() => unknown) | undefined): AppError {
  if (ended.reason === 'agent') {
    if (ended.code === AgentErrorCode.logNotFound) return notFound('Event log');
    if (ended.code === AgentErrorCode.recordNotFound) return notFound('Event log record');
  }
  const cutShort =
    ended.reason === 'timeout' || ended.reason === 'disconnected' || ended.reason === 'node_lost';
  return liveQueryError(ended, cutShort ? partial?.() : undefined);
}
