import type { Tx } from '../../../platform/db/transaction.ts';

export interface WantedSnapshot {
  deviceId: string;
  kind: 'files' | 'machine';
  configId: string | null;
  /** Of a host of KVM: the id or the name of one of its guests. Null: the machine of the device itself, or its only guest. */
  machine: string | null;
}

export interface FoundSnapshot {
  id: string;
  configId: string | null;
  paths: string[];
  /** When the data was read: by the clock of the device, and never later than it arrived. */
  takenAt: Date;
  /** Of a snapshot of guests: those that are meant, at most `NAMED_MACHINES`. Null: it is of the device itself. */
  machines: { id: string; name: string }[] | null;
}

/** Of the machines of a snapshot that are named where one has to be chosen. */
const NAMED_MACHINES = 20;

const IS_MEANT = `lower(w.machine) in (lower(m ->> 'id'), lower(m ->> 'name'))`;

/**
 * The newest snapshot for each, which the store of this server holds; `undefined` where there is none. Where no guest is
 * named, the machine of the device itself comes first, however old it is.
 */
export async function newestSnapshots(
  tx: Tx,
  orgId: string,
  wanted: readonly WantedSnapshot[],
): Promise<(FoundSnapshot | undefined)[]> {
  const { rows } = await tx.raw<{ rows: (FoundSnapshot & { position: number })[] }>(
    `select w.position::int - 1 as position, s.id, s.config_id as "configId", s.paths, s.taken_at as "takenAt",
      case when s.details ->> 'kind' = 'machines' then (
        select jsonb_agg(g) from (
          select m ->> 'id' as id, m ->> 'name' as name from jsonb_array_elements(s.details -> 'machines') m
          where w.machine is null or ${IS_MEANT} limit ${NAMED_MACHINES}) g) end as machines
    from unnest(?::uuid[], ?::text[], ?::uuid[], ?::text[]) with ordinality
      as w (device_id, kind, config_id, machine, position)
    cross join lateral (
      select s.id, s.config_id, s.paths, s.details, least(s.taken_at, s.received_at) as taken_at
      from backup_snapshots s join backup_repositories r on r.id = s.repository_id and r.org_id = s.org_id
      where s.org_id = ? and s.device_id = w.device_id and s.removed_at is null and s.copy_of is null
        and r.provider = 'server' and (w.config_id is null or s.config_id = w.config_id)
        and case w.kind when 'files' then s.backup_type = 'file'
          else s.backup_type = 'system_image' and case s.details ->> 'kind'
            when 'image' then w.machine is null and coalesce(s.details ->> 'source', 'disk') = 'disk'
            when 'machines' then s.details ->> 'hypervisor' = 'kvm' and (w.machine is null or exists (
              select from jsonb_array_elements(s.details -> 'machines') m where ${IS_MEANT}))
            else false end end
      order by w.kind = 'machine' and s.details ->> 'kind' = 'image' desc, s.received_at desc, s.id desc limit 1) s`,
    [
      wanted.map(({ deviceId }) => deviceId),
      wanted.map(({ kind }) => kind),
      wanted.map(({ configId }) => configId),
      wanted.map(({ machine }) => machine),
      orgId,
    ] as never,
  );
  const found = new Map(rows.map(({ position, ...snapshot }) => [position, snapshot]));
  return wanted.map((_, position) => found.get(position));
}
