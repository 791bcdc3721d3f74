import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Mailer } from '../../../platform/mail/mailer.ts';
import { raiseAlert } from '../../alerts/index.ts';
import type { SessionCaller } from '../../auth/index.ts';
import { EVERYTHING } from '../../roles/index.ts';
import type { SsoProvider } from '../providers/provider.model.ts';

export interface BreakGlassParts {
  audit: Pick<AuditTrail, 'record'>;
  mailer: Mailer;
}

/**
 * Audits that a break-glass person signed in with a password, and notifies the owner of the provider: an organization
 * by an alert, a partner by a mail to each active administrator, because partners have no alerts.
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
  const message = `${caller.name} (${email}) signed in with a password from ${ctx.client.ip} as a break-glass person of ${provider.name}, although single sign-on is enforced. If nobody knows why, end this person's sessions and change the password.`;
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

/** The addresses of a partner's active administrators. */
async function administratorsOf(tx: Tx, partnerId: string | null): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { email: string }[] }>(
    `select u.email from partner_users p join users u on u.id = p.user_id join roles r on r.id = p.role_id
    where p.partner_id = :partnerId and u.status = 'active' and r.permissions @> array[:everything]`,
    { partnerId, everything: EVERYTHING },
  );
  return rows.map(({ email }) => email);
}
