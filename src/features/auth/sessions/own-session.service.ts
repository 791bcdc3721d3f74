import type { Context } from '../../../platform/context.ts';
import { notFound } from '../../../platform/errors.ts';
import type { Page, PageQuery } from '../../../platform/http/pagination.ts';
import { endSessionsOf } from '../../users/index.ts';
import { endSession } from './session.service.ts';

interface OwnSession {
  id: string;
  createdAt: Date;
  lastUsedAt: Date;
  expiresAt: Date;
  ipAddress: string | null;
  userAgent: string | null;
}

type ShownSession = OwnSession & { current: boolean };

const live = ({ tx, caller }: Context) =>
  tx('sessions').where({ user_id: caller.userId }).whereNull('revoked_at').whereRaw('expires_at > now()');

export async function listOwnSessions(ctx: Context, { page, limit }: PageQuery): Promise<Page<ShownSession>> {
  const [counted] = await live(ctx).count<{ count: string }[]>('* as count');
  const sessions = await live(ctx)
    .orderBy([{ column: 'last_used_at', order: 'desc' }, 'id'])
    .offset((page - 1) * limit)
    .limit(limit)
    .select<OwnSession[]>({
      id: 'id',
      createdAt: 'created_at',
      lastUsedAt: 'last_used_at',
      expiresAt: 'expires_at',
      ipAddress: 'ip_address',
      userAgent: 'user_agent',
    });
  return {
    data: sessions.map((session) => ({ ...session, current: session.id === ctx.caller.sessionId })),
    pagination: { page, limit, total: Number(counted?.count ?? 0) },
  };
}

export async function endOwnSession(ctx: Context, id: string): Promise<{ success: true }> {
  const [own] = await live(ctx).where({ id }).pluck('id');
  if (own === undefined) throw notFound('Session');
  await endSession(ctx.tx, id, 'ended_by_owner');
  return { success: true };
}

export async function endOtherSessions(ctx: Context): Promise<{ success: true; ended: number }> {
  const ended = await endSessionsOf(
    ctx.tx,
    ctx.caller.userId,
    'ended_by_owner',
    ctx.caller.sessionId ?? undefined,
  );
  return { success: true, ended };
}
