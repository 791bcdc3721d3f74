import type { AgentContext, Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { runPrepared } from '../../platform/db/prepared.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { notFound } from '../../platform/errors.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import { newId } from '../../platform/ids.ts';
import type { DiagnosticLine } from '../../protocol/index.ts';
import type { RepeatedReads } from '../audit/index.ts';
import { readDevice } from '../devices/index.ts';
import type { DiagnosticLog, DiagnosticLogPage, DiagnosticLogQuery } from './diagnostic-log.schema.ts';

// The whole batch in one statement, with one plan a connection however large it is.
const STORE = {
  name: 'diagnostic-logs-store',
  text: `
    with device as (select id, org_id, agent_version from devices where org_id = $1 and id = $2),
    stored as (
      insert into agent_logs (id, device_id, org_id, "timestamp", level, component, message, fields, agent_version)
      select line.id, device.id, device.org_id, line."timestamp", line.level, line.component, line.message,
        line.fields::jsonb, coalesce(line.agent_version, device.agent_version)
      from device cross join unnest($3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[])
        as line (id, "timestamp", level, component, message, fields, agent_version)
    )
    select id from device`,
};

/** Keeps lines of the agent's own log: all of them or, where the device is gone, none. */
export async function storeDiagnosticLines(
  { tx, agent }: AgentContext,
  lines: readonly DiagnosticLine[],
): Promise<{ received: number }> {
  const [device] = await runPrepared<{ id: string }>(tx, STORE, [
    agent.orgId,
    agent.deviceId,
    lines.map(() => newId()),
    lines.map(({ timestamp }) => timestamp),
    lines.map(({ level }) => level),
    lines.map(({ component }) => component),
    lines.map(({ message }) => message),
    lines.map(({ fields }) => (fields === undefined ? null : JSON.stringify(fields))),
    lines.map(({ agentVersion }) => agentVersion ?? null),
  ]);
  if (device === undefined) throw notFound('Device');
  return { received: lines.length };
}

export async function listDiagnosticLogs(
  ctx: Context,
  deviceId: string,
  query: DiagnosticLogQuery,
  reads: RepeatedReads,
): Promise<DiagnosticLogPage & { noted: AuditNote[] }> {
  const device = await readDevice(ctx, deviceId);
  const matching = ctx
    .tx('agent_logs')
    .where({ device_id: device.id })
    .whereRaw(inTenant(ctx.caller, 'org_id'));
  if (query.level !== undefined) void matching.whereRaw('level = any(?::text[])', [query.level]);
  if (query.component !== undefined) void matching.where('component', query.component);
  if (query.since !== undefined) void matching.where('timestamp', '>=', query.since);
  if (query.until !== undefined) void matching.where('timestamp', '<=', query.until);
  if (query.search !== undefined) void matching.whereILike('message', containing(query.search));
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const offset = (query.page - 1) * query.limit;
  const logs = await matching
    .select<DiagnosticLog[]>(
      'id',
      'device_id as deviceId',
      'org_id as orgId',
      'timestamp',
      'level',
      'component',
      'message',
      'fields',
      'agent_version as agentVersion',
      'created_at as createdAt',
    )
    .orderBy([
      { column: 'timestamp', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .offset(offset)
    .limit(query.limit);
  const { page: _page, limit, ...conditions } = query;
  const noted = reads.noteOf(ctx, device, { how: 'diagnostic log', conditions });
  return { logs, total: Number(counted?.count ?? 0), limit, offset, noted };
}
