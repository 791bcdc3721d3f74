import type { Context } from '../../../platform/context.ts';
import { notFound } from '../../../platform/errors.ts';
import { type PageQuery, toPage } from '../../../platform/http/pagination.ts';
import { endSessionsOf } from '../../users/index.ts';
import { Session } from './session.model.ts';
import { endSession } from './session.service.ts';

const openSessions = ({ tx, caller }: Context) =>
  Session.query(tx).where('user_id', caller.userId).whereNull('revoked_at').whereRaw('expires_at > now()');

export async function listOwnSessions(ctx: Context, query: PageQuery) {
  const sessions = await openSessions(ctx)
    .orderBy([{ column: 'last_used_at', order: 'desc' }, 'id'])
    .page(query.page - 1, query.limit);
  const { data, pagination } = toPage(query, sessions);
  return {
    data: data.map((session) => Object.assign(session, { current: session.id === ctx.caller.sessionId })),
    pagination,
  };
}

export async function endOwnSession(ctx: Context, id: string): Promise<{ success: true }> {
  if ((await openSessions(ctx).findById(id)) === undefined) throw notFound('Session');
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
