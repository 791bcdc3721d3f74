import { fieldsOf } from '../../../platform/db/bulk/copy-line.ts';
import type { SealedEntry } from '../chain/chain.ts';

/** SQL: the columns of `audit_logs` that `entryFromCopyRow` reads, in order. */
export const COPY_COLUMNS = `id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
  resource_id, resource_name, details, ip_address, user_agent, result, error_message, seq, checksum, prev_checksum`;

/** Parses an entry, in the form in which it was sealed, from a row of COPY output with these columns. */
export function entryFromCopyRow(line: Buffer): SealedEntry {
  const f = fieldsOf(line);
  return {
    id: f[0] ?? '',
    orgId: f[1] ?? null,
    partnerId: f[2] ?? null,
    timestamp: isoTime(f[3] ?? ''),
    actorType: f[4] ?? '',
    actorId: f[5] ?? '',
    actorEmail: f[6] ?? null,
    action: f[7] ?? '',
    resourceType: f[8] ?? '',
    resourceId: f[9] ?? null,
    resourceName: f[10] ?? null,
    details: f[11] === '{}' ? {} : JSON.parse(f[11] ?? 'null'),
    ipAddress: f[12] ?? null,
    userAgent: f[13] ?? null,
    result: f[14] ?? '',
    errorMessage: f[15] ?? null,
    seq: Number(f[16] ?? 0),
    checksum: f[17] ?? '',
    prevChecksum: f[18] ?? null,
  };
}

/** From `2026-11-21 08:44:23.4+00`, as Postgres writes it, to `2026-11-21T08:44:23.400Z`. */
export function isoTime(text: string): string {
  const fraction = text.slice(20, -3).padEnd(3, '0');
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text[19] === '.' ? fraction : '000'}Z`;
}
