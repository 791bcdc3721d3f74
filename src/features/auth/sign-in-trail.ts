import type { Caller, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditActor, AuditTrail } from '../../platform/http/audit.ts';
import { loadCaller, type SessionCaller } from './sessions/session.service.ts';

export type SignInFailure = 'password' | 'second_factor' | 'address' | 'partner_inactive' | 'membership';

/** Sign-ins and their ends in the audit trail: their routes have no caller yet of whom the route table could tell. */
export class SignInTrail {
  readonly #audit: AuditTrail;
  readonly #writing = new Set<Promise<void>>();

  constructor(audit: AuditTrail) {
    this.#audit = audit;
  }

  /** In the transaction that opens the session. */
  async opened(tx: Tx, ctx: PublicContext, caller: SessionCaller): Promise<void> {
    const { sessionId, mfa } = caller;
    await this.#record(tx, ctx, caller, { action: 'user.login', details: { sessionId, mfa } });
  }

  /** In the transaction that ends the session, before it does. */
  async ending(tx: Tx, ctx: PublicContext, sessionId: string): Promise<void> {
    const caller = await loadCaller(tx, sessionId).catch((error: unknown) => {
      // It has ended before, or its partner is shut: nobody is signed out by this.
      if (error instanceof AppError) return undefined;
      throw error;
    });
    if (caller === undefined) return;
    await this.#record(tx, ctx, caller, { action: 'user.logout', details: { sessionId } });
  }

  /** In the transaction that changes it. */
  async passwordChanged(
    tx: Tx,
    ctx: Pick<PublicContext, 'client' | 'log'> & { caller?: Caller },
    userId: string,
    by: 'password' | 'mail',
  ): Promise<void> {
    // A transaction of a tenant, where the caller is known, must not look across.
    const actor = ctx.caller ?? (await whoIs(tx, userId));
    if (actor === undefined) return;
    await this.#record(tx, ctx, actor, { action: 'user.password.change', details: { provedBy: by } });
  }

  /** In the transaction that takes a member out, because somebody else has proved to own the address. */
  async noteDisplaced(tx: Tx, ctx: Pick<PublicContext, 'client' | 'log'>, userId: string): Promise<void> {
    const actor = await whoIs(tx, userId);
    if (actor === undefined) return;
    await this.#record(tx, ctx, actor, { action: 'user.delete', details: { reason: 'address_claimed' } });
  }

  /** After the commit of any of them. */
  committed(): void {
    this.#audit.committed();
  }

  /**
   * A refused sign-in of somebody who is known; of an address that nobody has there is no trail to write to. Written
   * after the answer: the time it takes must not tell the two apart.
   */
  refused(ctx: PublicContext, userId: string, failure: SignInFailure, error: unknown): void {
    if (!(error instanceof AppError)) return;
    const { message } = error;
    const reason = BY_CODE[error.code] ?? failure;
    const writing = this.#writeRefusal(ctx, userId, reason, message)
      .catch((fault: unknown) => {
        ctx.log.error({ err: fault, requestId: ctx.requestId }, 'audit.refused_sign_in_not_written');
      })
      .finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  /** What was refused is written. */
  async close(): Promise<void> {
    await Promise.all(this.#writing);
  }

  async #writeRefusal(ctx: PublicContext, userId: string, reason: SignInFailure, errorMessage: string) {
    await ctx.withSystem('note a refused sign-in', async (tx) => {
      const actor = await whoIs(tx, userId);
      if (actor === undefined) return;
      await this.#record(tx, ctx, actor, {
        action: 'user.login.failed',
        details: { reason },
        result: 'failure',
        errorMessage,
      });
    });
    this.#audit.committed();
  }

  async #record(
    tx: Tx,
    ctx: Pick<PublicContext, 'client' | 'log'>,
    actor: PersonActor,
    about: { action: string; details: object; result?: 'failure'; errorMessage?: string },
  ): Promise<void> {
    await this.#audit.record(tx, {
      ...about,
      details: { ...about.details },
      resourceType: 'user',
      resourceId: actor.userId,
      resourceName: actor.email,
      actor,
      state: ctx,
    });
  }
}

const BY_CODE: Partial<Record<AppError['code'], SignInFailure>> = {
  ip_not_allowed_at_sign_in: 'address',
  partner_inactive: 'partner_inactive',
  // Of an invitation that has gone meanwhile, or leads away from where the person is.
  not_found: 'membership',
  conflict: 'membership',
};

type PersonActor = Extract<AuditActor, { userId: string }>;

/** Also somebody who may not sign in at all: `loadHolder` would refuse to tell of them. */
async function whoIs(tx: Tx, userId: string): Promise<PersonActor | undefined> {
  const { rows } = await tx.raw(
    `select u.email, p.partner_id, o.org_id, s.user_id is not null as of_system from users u
    left join partner_users p on p.user_id = u.id left join organization_users o on o.user_id = u.id
    left join system_users s on s.user_id = u.id
    where u.id = ?`,
    [userId],
  );
  const row = rows[0] as
    | { email: string; partner_id: string | null; org_id: string | null; of_system: boolean }
    | undefined;
  if (row === undefined) return undefined;
  const { email, partner_id: partnerId, org_id: orgId, of_system: isOfSystem } = row;
  const person = { kind: 'user' as const, userId, apiKeyId: null, email, partnerId, orgId };
  return isOfSystem ? { ...person, scope: 'system' } : person;
}
