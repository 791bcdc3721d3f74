import type { Caller, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { loadCaller, type SessionCaller, type SessionProvider } from './session.service.ts';
import { type PersonActor, actorOfUser } from './auth.queries.ts';

export type SignInFailure =
  | 'password'
  | 'passkey'
  | 'second_factor'
  | 'address'
  | 'partner_inactive'
  | 'membership'
  | 'sso_required';

/** Audits sign-ins and sign-outs, whose routes have no caller yet, so the route table cannot audit them. */
export class SignInTrail {
  readonly #audit: AuditTrail;
  readonly #writing = new Set<Promise<void>>();

  constructor(audit: AuditTrail) {
    this.#audit = audit;
  }

  /** Call it in the transaction that opens the session. */
  async opened(tx: Tx, ctx: PublicContext, caller: SessionCaller, provider?: SessionProvider): Promise<void> {
    const { sessionId, mfa } = caller;
    const details = {
      sessionId,
      mfa,
      ...(provider === undefined ? {} : { provider: { id: provider.id, name: provider.name } }),
    };
    await this.#record(tx, ctx, caller, { action: 'user.login', details });
  }

  /** Call it in the transaction that ends the session, before the session ends. */
  async ending(tx: Tx, ctx: PublicContext, sessionId: string): Promise<void> {
    const caller = await loadCaller(tx, sessionId).catch((error: unknown) => {
      // The session has already ended, or its partner is not active: no session ends.
      if (error instanceof AppError) return undefined;
      throw error;
    });
    if (caller === undefined) return;
    await this.#record(tx, ctx, caller, { action: 'user.logout', details: { sessionId } });
  }

  /** Call it in the transaction that changes the password. */
  async passwordChanged(
    tx: Tx,
    ctx: Pick<PublicContext, 'client' | 'log'> & { caller?: Caller },
    userId: string,
    by: 'password' | 'mail',
  ): Promise<void> {
    // In a tenant's transaction, where the caller is known, other tenants must not be read.
    const actor = ctx.caller ?? (await actorOfUser(tx, userId));
    if (actor === undefined) return;
    await this.#record(tx, ctx, actor, { action: 'user.password.change', details: { provedBy: by } });
  }

  /** Call it in the transaction that marks a passkey as suspect, because its count of signatures has gone back. */
  async passkeySuspected(
    tx: Tx,
    ctx: Pick<PublicContext, 'client' | 'log'>,
    userId: string,
    { id, name }: { id: string; name: string },
  ): Promise<void> {
    const actor = await actorOfUser(tx, userId);
    if (actor === undefined) return;
    await this.#record(tx, ctx, actor, {
      action: 'user.passkey_suspect',
      details: { passkeyId: id, name },
      result: 'failure',
      errorMessage: 'The count of signatures has gone back: the passkey may have been copied.',
    });
  }

  /** Call it before the membership of an account is removed, because another person has proved that they own the address. */
  async noteDisplaced(tx: Tx, ctx: Pick<PublicContext, 'client' | 'log'>, userId: string): Promise<void> {
    const actor = await actorOfUser(tx, userId);
    if (actor === undefined) return;
    await this.#record(tx, ctx, actor, { action: 'user.delete', details: { reason: 'address_claimed' } });
  }

  /** Audits that a user has left a tenant that was deleted, never approved or has churned, in the trail of that tenant. */
  async noteLeft(
    tx: Tx,
    ctx: Pick<PublicContext, 'client' | 'log'>,
    { id: userId, email }: { id: string; email: string },
    tenant: { partnerId: string; orgId: string | null },
  ): Promise<void> {
    const actor = { kind: 'user' as const, userId, apiKeyId: null, email, ...tenant };
    await this.#record(tx, ctx, actor, { action: 'user.delete', details: { reason: 'unusable_tenant' } });
  }

  /** Call it after the commit of any of them. */
  committed(): void {
    this.#audit.committed();
  }

  /**
   * Audits a refused sign-in of a known user; for an unknown address there is no trail to write to. It is written after the
   * response, so that its duration does not reveal which of the two it was.
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

  /** Waits until every refusal is written. */
  async close(): Promise<void> {
    await this.settle();
  }

  /** Resolves when everything noted is written. */
  async settle(): Promise<void> {
    await Promise.all(this.#writing);
  }

  async #writeRefusal(ctx: PublicContext, userId: string, reason: SignInFailure, errorMessage: string) {
    await ctx.withSystem('audit a refused sign-in', async (tx) => {
      const actor = await actorOfUser(tx, userId);
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
  sso_required: 'sso_required',
  // The invitation was withdrawn meanwhile, or the user is already a member of another tenant.
  not_found: 'membership',
  conflict: 'membership',
};
