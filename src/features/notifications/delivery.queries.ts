import type { Tx } from '../../platform/db/transaction.ts';
import { shortened } from '../../protocol/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import type { ChannelDetails, ChannelType } from './channel.schema.ts';
import type { GroupState } from './escalation.ts';
import type { NotificationReason, NotificationStatus } from './notification.schema.ts';
import { ERROR_MAX } from './send.ts';

/** A notification that is to be sent, with what decides whether it still is. */
export interface DueNotification {
  id: string;
  partnerId: string;
  orgId: string;
  reason: NotificationReason;
  status: NotificationStatus;
  content: unknown;
  channelId: string | null;
  userId: string | null;
  /** Null: the channel was deleted. */
  type: ChannelType | null;
  details: ChannelDetails | null;
  sealedSecret: string | null;
  /** For so long the receiver wants to be left alone. */
  pausedMs: number | null;
  groupState: GroupState | null;
  isManageable: boolean;
  /** The recipient was told of the conversation before, or may have been. */
  wasTold: boolean;
  /** An earlier message to the recipient is still to be sent. */
  hasEarlier: boolean;
}

export async function readDue(tx: Tx, id: string): Promise<DueNotification | undefined> {
  const { rows } = await tx.raw<{ rows: DueNotification[] }>(
    `select n.id, n.partner_id as "partnerId", n.org_id as "orgId", n.reason, n.status, n.content,
      n.channel_id as "channelId", n.user_id as "userId", c.type, c.details, c.sealed_secret as "sealedSecret",
      (extract(epoch from c.paused_until - now()) * 1000)::float8 as "pausedMs", g.state as "groupState",
      o.deleted_at is null and ${isManageableSql('o')} as "isManageable",
      coalesce(bool_or(e.status = 'sent' or e.is_in_doubt), false) as "wasTold",
      coalesce(bool_or(e.status = 'pending'), false) as "hasEarlier"
    from notifications n join organizations o on o.id = n.org_id
    left join notification_groups g on g.id = n.group_id
    left join notification_channels c on c.partner_id = n.partner_id and c.id = n.channel_id
    left join notifications e on e.group_id = n.group_id and e.id < n.id
      and e.channel_id is not distinct from n.channel_id and e.user_id is not distinct from n.user_id
    where n.id = ? group by n.id, o.id, g.id, c.id`,
    [id],
  );
  return rows[0];
}

/** Where a person is told: at an address that they have verified, or that of the account. `undefined` if it is gone or disabled. */
export async function addressOf(tx: Tx, userId: string): Promise<string | undefined> {
  const { rows } = await tx.raw<{ rows: { address: string }[] }>(
    `select case when s.address = s.verified_address then s.address else u.email end as address from users u
    left join notification_settings s on s.user_id = u.id where u.id = ? and u.status = 'active'`,
    [userId],
  );
  return rows[0]?.address;
}

/** Notes before a request is sent that its message may arrive. */
export async function noteAttempt(tx: Tx, id: string): Promise<void> {
  await tx.raw(
    `update notifications set attempts = attempts + 1, is_in_doubt = true where id = ? and status = 'pending'`,
    [id],
  );
}

/** Notes that an attempt has failed, and that another one follows. */
export async function noteFailure(
  tx: Tx,
  id: string,
  { error, isInDoubt }: { error: string; isInDoubt: boolean },
): Promise<void> {
  await tx.raw(
    `update notifications set error = :error, is_in_doubt = :isInDoubt where id = :id and status = 'pending'`,
    { id, error: shortened(error, ERROR_MAX), isInDoubt },
  );
}

/** Ends a notification. What an earlier attempt has failed of stays, if nothing is said. */
export async function endNotification(
  tx: Tx,
  id: string,
  {
    status,
    error,
    isInDoubt,
  }: { status: 'sent' | 'failed' | 'suppressed'; error: string | null; isInDoubt: boolean },
): Promise<void> {
  await tx.raw(
    `update notifications set status = :status, sent_at = case when :status = 'sent' then now() end,
      error = case when :status = 'sent' then null else coalesce(:error, error) end,
      is_in_doubt = is_in_doubt and :isInDoubt
    where id = :id and status = 'pending'`,
    { id, status, error: error === null ? null : shortened(error, ERROR_MAX), isInDoubt },
  );
}
