import type { Tx } from '../../platform/db/transaction.ts';
import type { TimelineSource } from '../timeline-source.ts';
import type { TimelinePlace } from './timeline.schema.ts';

/** An entry as it is stored; `fields` are those of its kind. */
export interface StoredEntry {
  kind: string;
  id: string;
  at: Date;
  endedAt: Date | null;
  userId: string | null;
  userName: string | null;
  fields: Record<string, unknown>;
}

/** The newest entries of all sources before a place, in one statement: each source adds no more than could be shown. */
export async function newestEntries(
  tx: Tx,
  sources: readonly TimelineSource[],
  {
    before,
    ...values
  }: { deviceId: string; orgId: string; before: TimelinePlace | undefined; limit: number },
): Promise<StoredEntry[]> {
  if (sources.length === 0) return [];
  const { rows } = await tx.raw<{ rows: StoredEntry[] }>(
    `select * from (${sources.map((source) => newestOf(source, before !== undefined)).join(' union all ')}) entries
    order by at desc, kind collate "C" desc, id collate "C" desc limit :limit`,
    { ...values, ...(before === undefined ? {} : { at: before.at, kind: before.kind, id: before.id }) },
  );
  return rows;
}

function newestOf(
  { kind, from, id, at, endedAt = 'null', by = 'null', byName = 'null', fields }: TimelineSource,
  hasPlace: boolean,
): string {
  const place = hasPlace
    ? `and ${at} <= :at and (${at} < :at or ('${kind}' collate "C", (${id}) collate "C") < (:kind, :id))`
    : '';
  const pairs = Object.entries(fields).map(([name, value]) => `'${name}', ${value}`);
  return `(select '${kind}' as kind, ${id} as id, ${at} as at, (${endedAt})::timestamptz as "endedAt",
      (${by})::uuid as "userId", (${byName})::text as "userName", jsonb_build_object(${pairs.join(', ')}) as fields
    from ${from} ${place} order by ${at} desc, (${id}) collate "C" desc limit :limit)`;
}
