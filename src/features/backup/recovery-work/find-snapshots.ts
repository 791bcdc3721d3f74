import type { Tx } from '../../../platform/db/transaction.ts';

export interface WantedSnapshot {
  deviceId: string;
  kind: 'files' | 'machine';
  configId: string | null;
}

export interface FoundSnapshot {
  id: string;
  configId: string | null;
  paths: string[];
  /** When the data was read: by the clock of the device, and never later than it arrived. */
  takenAt: Date;
}

/** The newest snapshot for each, which the store of this server holds; `undefined` where there is none. */
export async function newestSnapshots(
  tx: Tx,
  orgId: string,
  wanted: readonly WantedSnapshot[],
): Promise<(FoundSnapshot | undefined)[]> {
  const { rows } = await tx.raw<{ rows: (FoundSnapshot & { position: number })[] }>(
    `select w.position::int - 1 as position, s.id, s.config_id as "configId", s.paths, s.taken_at as "takenAt"
    from unnest(?::uuid[], ?::text[], ?::uuid[]) with ordinality as w (device_id, kind, config_id, position)
    cross join lateral (
      select s.id, s.config_id, s.paths, least(s.taken_at, s.received_at) as taken_at
      from backup_snapshots s join backup_repositories r on r.id = s.repository_id and r.org_id = s.org_id
      where s.org_id = ? and s.device_id = w.device_id and s.removed_at is null and s.copy_of is null
        and r.provider = 'server' and (w.config_id is null or s.config_id = w.config_id)
        and case w.kind when 'files' then s.backup_type = 'file'
          else s.backup_type = 'system_image' and s.details ->> 'kind' = 'image' end
      order by s.received_at desc, s.id desc limit 1) s`,
    [
      wanted.map(({ deviceId }) => deviceId),
      wanted.map(({ kind }) => kind),
      wanted.map(({ configId }) => configId),
      orgId,
    ] as never,
  );
  const found = new Map(rows.map(({ position, ...snapshot }) => [position, snapshot]));
  return wanted.map((_, position) => found.get(position));
}
