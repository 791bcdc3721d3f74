import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  type Owner,
  ownerOf,
  administratorsOf,
  lockPasswordSignIn,
  enforcing,
  type GovernedPerson,
  peopleGovernedBy,
  providersGoverning,
} from './sso.queries.ts';
import { SsoProvider, loginUrlOf, type Owned } from './sso.model.ts';
import type { PublicContext } from '../../platform/context.ts';
import type { Mailer } from '../../platform/mail.ts';
import { raiseAlert } from '../alerts/index.ts';
import type { SessionCaller, PasswordPolicy } from '../auth/index.ts';
import { AppError } from '../../platform/errors.ts';
import { type BreakGlassGuard, membersAmong, type SignInFacts } from '../users/index.ts';
import { EVERYTHING } from '../roles/index.ts';

/**
 * Refuses passwords and passkeys of people whom an enforced identity provider governs, except its break-glass people. If
 * several enforced providers govern a person, one of them has to name the person.
 */
export function createPasswordPolicy({
  baseUrl,
  ...parts
}: BreakGlassParts & {
  /** The public address of this server, without a slash at the end. */
  baseUrl: () => string;
}): PasswordPolicy {
  return {
    async decide(tx, userId) {
      const governing = await providersGoverning(tx, userId);
      const [first] = governing;
      if (first === undefined) return { allowed: true };
      const naming = governing.find(({ breakGlassUserIds }) => breakGlassUserIds.includes(userId));
      if (naming === undefined) {
        const refusal = new AppError(
          'sso_required',
          `Your account requires single sign-on. Sign in with ${first.name}.`,
          { details: { loginUrl: `${baseUrl()}${loginUrlOf(first)}` } },
        );
        return { allowed: false, refusal };
      }
      return {
        allowed: true,
        recordUse: (ctx, caller) => recordBreakGlassUse(tx, ctx, caller, naming, parts),
      };
    },
  };
}

/** The sign-in with a password that remains possible while single sign-on is enforced (SHAPES 9). */

/** Whether a break-glass person can sign in without the provider, and has the permissions to repair its settings. */
export function canSignInWithPassword(
  { partnerId }: Owned,
  { status, permissions, hasPassword, mfaEnabled }: SignInFacts,
): boolean {
  const isEnough = partnerId === null || mfaEnabled;
  return status === 'active' && permissions.includes(EVERYTHING) && hasPassword && isEnough;
}

/** Refuses changes of a person after which an enforced provider would have no usable break-glass person. */
export const breakGlassGuard: BreakGlassGuard = {
  async assertRemains(tx, { id, orgId, partnerId }) {
    if (orgId === null && partnerId === null) return;
    const owner = { orgId, partnerId };
    await lockPasswordSignIn(tx, owner);
    const naming = await enforcing(tx)
      .where(partnerId === null ? { org_id: orgId } : { partner_id: partnerId })
      .whereRaw('? = any(break_glass_user_ids)', [id]);
    for (const { name, breakGlassUserIds } of naming) {
      const named = await membersAmong(tx, owner, breakGlassUserIds);
      if (named.some((facts) => canSignInWithPassword(owner, facts))) continue;
      throw new AppError(
        'conflict',
        `This is the last person who can sign in if ${name} fails. Add another break-glass person to that identity provider first.`,
      );
    }
  },
};

export interface BreakGlassParts {
  audit: Pick<AuditTrail, 'record'>;
  mailer: Mailer;
}

/**
 * Audits that a break-glass person signed in with a password or a passkey, and notifies the owner of the provider: an
 * organization by an alert, a partner by a mail to each active administrator, because partners have no alerts.
 */
export async function recordBreakGlassUse(
  tx: Tx,
  ctx: PublicContext,
  caller: SessionCaller,
  provider: SsoProvider,
  { audit, mailer }: BreakGlassParts,
): Promise<void> {
  const { sessionId, mfa, email } = caller;
  await audit.record(tx, {
    action: 'sso.break_glass',
    resourceType: 'sso_provider',
    resourceId: provider.id,
    resourceName: provider.name,
    details: { sessionId, mfa },
    actor: caller,
    state: ctx,
  });
  const title = `${email} signed in without ${provider.name}`;
  const message = `${caller.name} (${email}) signed in from ${ctx.client.ip} as a break-glass person of ${provider.name}, although single sign-on is enforced. If this was not planned, end this person's sessions, change the password and remove their passkeys.`;
  if (provider.orgId !== null) {
    await raiseAlert(tx, {
      orgId: provider.orgId,
      kind: 'sso_break_glass',
      severity: 'high',
      title,
      message,
      details: { providerId: provider.id, userId: caller.userId, sessionId },
    });
    return;
  }
  for (const to of await administratorsOf(tx, provider.partnerId)) {
    await mailer.send(tx, { to, subject: title, text: message }, { partnerId: provider.partnerId });
  }
}

/** Commands of the operator about enforcement. They work across tenants and without a sign-in. */

export interface EnforcedProvider {
  provider: SsoProvider;
  owner: Owner;
  people: GovernedPerson[];
}

export function listEnforced(db: Db): Promise<EnforcedProvider[]> {
  return withSystem(db, 'list the identity providers that are enforced', async (tx) => {
    const found: EnforcedProvider[] = [];
    for (const provider of await enforcing(tx)) found.push(await described(tx, provider));
    return found;
  });
}

/**
 * Switches the enforcement of a provider off, and ends the sign-ins with it that are in progress.
 * @returns undefined if the provider does not exist; `wasEnforced` is false if enforcement was off already
 */
export function unlockProvider(
  { db, log, audit }: { db: Db; log: Logger; audit: Pick<AuditTrail, 'record'> },
  providerId: string,
): Promise<(EnforcedProvider & { wasEnforced: boolean }) | undefined> {
  return withSystem(db, 'switch the enforcement of an identity provider off', async (tx) => {
    const provider = await SsoProvider.query(tx).findById(providerId).forUpdate();
    if (provider === undefined) return undefined;
    const enforced = await described(tx, provider);
    if (!provider.enforceSso) return { ...enforced, wasEnforced: false };
    await provider.$query(tx).patch({ enforceSso: false, configVersion: provider.configVersion + 1 });
    const { orgId, partnerId } = enforced.owner;
    await audit.record(tx, {
      action: 'sso.enforcement.unlock',
      resourceType: 'sso_provider',
      resourceId: provider.id,
      resourceName: provider.name,
      details: {
        before: { enforceSSO: true },
        after: { enforceSSO: false },
        people: enforced.people.length,
      },
      actor: { kind: 'system', orgId, partnerId },
      state: { client: { ip: null, userAgent: null }, log },
    });
    return { ...enforced, wasEnforced: true };
  });
}

async function described(tx: Tx, provider: SsoProvider): Promise<EnforcedProvider> {
  return { provider, owner: await ownerOf(tx, provider), people: await peopleGovernedBy(tx, provider) };
}
