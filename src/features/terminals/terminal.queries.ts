import type { Caller } from '../../platform/context.ts';
import { inTenant, type Statement } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { TERMINAL_LONGEST_MS, type TerminalEnd } from '../../protocol/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { TerminalModel } from './terminal.model.ts';
import type { TimelineSource } from '../timeline-source.ts';

/** How many open terminals a person and a device have. One that no server has seen for a while is over. */
export async function openTerminals(
  tx: Tx,
  { userId, deviceId, seenMinutes }: { userId: string; deviceId: string; seenMinutes: number },
): Promise<{ ofPerson: number; ofDevice: number }> {
  const { rows } = await tx.raw<{ rows: { person: string; device: string }[] }>(
    `select count(*) filter (where user_id = ?) as person, count(*) filter (where device_id = ?) as device
    from terminals where ended_at is null and seen_at > now() - make_interval(mins => ?)`,
    [userId, deviceId, seenMinutes],
  );
  return { ofPerson: Number(rows[0]?.person ?? 0), ofDevice: Number(rows[0]?.device ?? 0) };
}

interface ViewedRow {
  id: string;
  isEnded: boolean;
  hasMoved: boolean;
  isInService: boolean;
  isManageable: boolean;
  isEnabled: boolean;
  isTooLong: boolean;
}

/** What decides whether terminals may still be viewed. One that the caller does not see is missing. */
export async function viewedTerminals(tx: Tx, caller: Caller, ids: readonly string[]): Promise<ViewedRow[]> {
  const { rows } = await tx.raw<{ rows: ViewedRow[] }>(
    `select t.id, t.ended_at is not null as "isEnded", t.org_id <> t.opened_in as "hasMoved",
      d.condition not in ('decommissioned', 'pending') as "isInService", ${isManageableSql('o')} as "isManageable",
      coalesce(s.enabled, false) as "isEnabled",
      t.opened_at <= now() - make_interval(secs => ?) as "isTooLong"
    from terminals t
      join devices d on d.org_id = t.org_id and d.id = t.device_id
      join organizations o on o.id = t.org_id and o.deleted_at is null
      left join terminal_settings s on s.org_id = t.org_id
    where t.id = any(?::uuid[]) and ${inTenant(caller, 't.org_id')}`,
    [TERMINAL_LONGEST_MS / 1000, [...ids]],
  );
  return rows;
}

export async function noteSeen(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.raw('update terminals set seen_at = now() where id = any(?::uuid[]) and ended_at is null', [
    [...ids],
  ]);
}

/** Stores a part, unless the recording has reached its size. Parameters: terminal, offset, content, largest sizes. */
export const STORE_PART: Statement = {
  name: 'terminal-part-store',
  text: `
    with t as (
      update terminals set recorded_to = greatest(recorded_to, $2::bigint), part_count = part_count + 1,
        stored_bytes = stored_bytes + length($3::bytea), seen_at = now()
      where id = $1 and stored_bytes < $4 and recorded_to < $5
      returning id, org_id, part_count
    )
    insert into terminal_parts (terminal_id, org_id, seq, content) select id, org_id, part_count, $3 from t
    returning seq`,
};

export interface EndedRow {
  id: string;
  orgId: string;
  partnerId: string;
  deviceId: string;
  hostname: string;
  userId: string | null;
  userEmail: string;
  seconds: number;
  endReason: TerminalEnd;
}

const ENDED = `
  select e.id, e.org_id as "orgId", o.partner_id as "partnerId", e.device_id as "deviceId", d.hostname,
    e.user_id as "userId", e.user_email as "userEmail", e.end_reason as "endReason",
    round(extract(epoch from e.ended_at - e.opened_at))::int as seconds
  from ended e join organizations o on o.id = e.org_id join devices d on d.org_id = e.org_id and d.id = e.device_id`;

/** Ends a terminal that has not ended. Returns nothing for one that has. */
export async function endTerminal(
  tx: Tx,
  id: string,
  { reason, exitCode }: { reason: TerminalEnd; exitCode: number | null },
): Promise<EndedRow[]> {
  const { rows } = await tx.raw<{ rows: EndedRow[] }>(
    `with ended as (
      update terminals set ended_at = now(), end_reason = ?, exit_code = ? where id = ? and ended_at is null returning *
    ) ${ENDED}`,
    [reason, exitCode, id],
  );
  return rows;
}

/** Ends the terminals that no server has seen for a while. */
export async function endUnseen(tx: Tx, seenMinutes: number): Promise<EndedRow[]> {
  const { rows } = await tx.raw<{ rows: EndedRow[] }>(
    `with ended as (
      update terminals set ended_at = seen_at, end_reason = case when org_id <> opened_in then 'device_moved'
        else 'unattended' end
      where id in (
        select id from terminals where ended_at is null and seen_at <= now() - make_interval(mins => ?)
        order by id limit 1000 for update skip locked)
      returning *
    ) ${ENDED}`,
    [seenMinutes],
  );
  return rows;
}

export const recordingsOf = (
  { tx, caller }: { tx: Tx; caller: Caller },
  { id, orgId }: { id: string; orgId: string },
) =>
  TerminalModel.query(tx)
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(caller, 'terminals.org_id'))
    .orderByRaw('opened_at desc, id desc');

export const terminalTimeline: TimelineSource = {
  kind: 'terminal',
  permission: 'devices:terminal',
  from: 'terminals t where t.org_id = :orgId and t.device_id = :deviceId',
  id: 't.id::text',
  at: 't.opened_at',
  endedAt: 't.ended_at',
  by: 't.user_id',
  byName: 't.user_name',
  fields: { reason: 't.end_reason' },
};
