import type { z } from 'zod';
import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import type { RepeatedReads } from '../audit/index.ts';
import { findDevice } from '../devices/index.ts';
import { DiagnosticLog } from './diagnostic-log.model.ts';
import type { DiagnosticLogPage, DiagnosticLogQuery } from './diagnostic-log.schema.ts';

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
