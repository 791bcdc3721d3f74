import type { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import {
  liveQueryError,
  type LiveQueryFailure,
  type DeviceHub,
  remainingQueryMs,
  type LogReads,
  type LiveQuery,
  type LogRead,
} from '../../hub/index.ts';
import { AgentErrorCode, type CommandOutput, type CommandType, type LogEntry } from '../../protocol/index.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { type AppError, notFound } from '../../platform/errors.ts';
import { askableDevice, DeviceModel } from '../devices/index.ts';
import type { EntriesQuery, EntryPage } from './log.schema.ts';
import type { Db } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { withTenant } from '../../platform/db/transaction.ts';
import { writeInParts } from '../../platform/db/write-in-parts.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';

/** Live questions about a device's own logs (SPEC 4.11). Nothing here holds a database connection while it waits. */
export type LiveLogs = ReturnType<typeof liveLogs>;

export function liveLogs({ hub, reads }: { hub: DeviceHub; reads: LogReads }) {
  async function ask<T extends CommandType>(
    ctx: DetachedContext,
    deviceId: string,
    question: LiveQuery<T>,
    { partial, conditions }: { partial?: () => unknown; conditions?: object } = {},
  ): Promise<CommandOutput<T>> {
    await askableDevice(ctx, deviceId);
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
      const { scanned, truncated, total, note, lookedBackTo } = await ask(
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
          ...omitUndefined({ note, lookedBackTo }),
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

/** Devices named in the entry of a query to many of them. */
const NAMED_DEVICES = 100;

type ReadRow = Pick<DeviceModel, 'id' | 'hostname' | 'orgId'> & { partnerId: string };

/** Reads within this time are written together. */
const FLUSH_MS = 200;
/** More are not held while the database is away: what each costs in memory is bounded, and live reads need the database. */
const MAX_PENDING = 10_000;
const BATCH_SIZE = 500;

/**
 * Records who reads the logs of which devices, and by what conditions, never what they found. Each organization gets an
 * entry in its own chain, so that it also sees the reads of others, such as a system administrator.
 *
 * Entries are written behind, as SPEC 6 says, so that a person who waits for a device does not wait for the audit trail
 * as well. An entry that cannot be written because the database is away is kept and written later.
 */
export class LogReadRecorder implements LogReads {
  readonly #parts: { db: Db; audit: AuditTrail; log: Logger; flushMs: number };
  #pending: LogRead[] = [];
  #timer: Timer | undefined;
  #flushing = Promise.resolve();

  constructor(parts: { db: Db; audit: AuditTrail; log: Logger; flushMs?: number }) {
    this.#parts = { flushMs: FLUSH_MS, ...parts };
  }

  record(read: LogRead): void {
    this.#pending.push(read);
    this.#flushSoon();
  }

  /** Writes now what is pending. */
  settle(): Promise<void> {
    return this.#flush();
  }

  /** Writes what is pending. The recorder must not be given more. */
  async close(): Promise<void> {
    await this.#flush();
    clock.clear(this.#timer);
  }

  #flushSoon(): void {
    this.#timer ??= clock.setTimeout(() => void this.#flush(), this.#parts.flushMs).unref();
  }

  #flush(): Promise<void> {
    clock.clear(this.#timer);
    this.#timer = undefined;
    // One at a time, so that the entries of one organization keep their order.
    return (this.#flushing = this.#flushing.then(() => this.#writePending()));
  }

  async #writePending(): Promise<void> {
    const { log } = this.#parts;
    const reads = this.#pending;
    this.#pending = [];
    const kept: LogRead[] = [];
    for (const batch of byCaller(reads)) {
      const { refused, unwritten, failure } = await writeInParts(batch, (part) => this.#write(part));
      for (const { record, error } of refused) {
        log.error({ err: error, deviceIds: record.deviceIds }, 'event_logs.read_not_recorded');
      }
      if (failure !== undefined) log.warn({ err: failure, reads: unwritten.length }, 'event_logs.reads_kept');
      kept.push(...unwritten);
    }
    if (kept.length === 0) return;
    this.#pending = [...kept, ...this.#pending];
    const lost = this.#pending.splice(MAX_PENDING).length;
    if (lost > 0) log.error({ reads: lost }, 'event_logs.reads_not_recorded');
    this.#flushSoon();
  }

  /** Writes the entries of reads by one caller, in one transaction with what that caller may see. */
  async #write(reads: readonly LogRead[]): Promise<void> {
    const [first] = reads;
    if (first === undefined) return;
    const { db, audit, log } = this.#parts;
    const { caller } = first;
    const isWritten = await withTenant(db, caller, async (tx) => {
      const rows = await DeviceModel.query(tx)
        .joinRelated('organization')
        .whereRaw('devices.id = any(?::uuid[])', [reads.flatMap(({ deviceIds }) => deviceIds)])
        .whereRaw(inTenant(caller, 'devices.org_id'))
        .orderBy('devices.id')
        .select('devices.id', 'devices.hostname', 'devices.org_id', 'organization.partner_id')
        .castTo<ReadRow[]>();
      const entries = reads.flatMap((read) => {
        const ids = new Set(read.deviceIds);
        const devices = rows.filter(({ id }) => ids.has(id));
        const state = { client: read.client, log };
        return entriesOf(devices, read).map((entry) => ({ ...entry, actor: caller, state }));
      });
      await audit.recordAll(tx, entries);
      return entries.length > 0;
    });
    if (isWritten) audit.committed();
  }
}

/** Batches of reads by the same caller, in their order. */
function byCaller(reads: readonly LogRead[]): LogRead[][] {
  const open = new Map<string, LogRead[]>();
  const batches: LogRead[][] = [];
  for (const read of reads) {
    const { scope, partnerId, orgId, userId, apiKeyId } = read.caller;
    const key = JSON.stringify([scope, partnerId, orgId, userId, apiKeyId]);
    const batch = open.get(key);
    if (batch !== undefined && batch.length < BATCH_SIZE) batch.push(read);
    else {
      const next = [read];
      open.set(key, next);
      batches.push(next);
    }
  }
  return batches;
}

function entriesOf(devices: readonly ReadRow[], { how, conditions }: Pick<LogRead, 'how' | 'conditions'>) {
  const byOrganization = new Map<string, ReadRow[]>();
  for (const device of devices) {
    const others = byOrganization.get(device.orgId);
    if (others === undefined) byOrganization.set(device.orgId, [device]);
    else others.push(device);
  }
  return [...byOrganization.values()].flatMap((some) => {
    const [first] = some;
    if (first === undefined) return [];
    const { orgId, partnerId } = first;
    const about =
      some.length === 1
        ? { resourceId: first.id, resourceName: first.hostname, details: { how, conditions } }
        : {
            details: {
              how,
              conditions,
              devices: some.length,
              deviceIds: some.slice(0, NAMED_DEVICES).map(({ id }) => id),
            },
          };
    return [{ action: 'data.access', resourceType: 'device', orgId, partnerId, ...about }];
  });
}
