import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { membersAmong } from '../../users/index.ts';
import { assertDefaultRole } from '../providers/default-role.ts';
import { hasPasswordWay, lockPasswordWay } from '../providers/password-way.ts';
import type { Owned, SsoProvider } from '../providers/provider.model.ts';
import { certificateFault, normalizedCertificates } from '../saml/certificate.ts';
import { clientSecretContext } from '../sealed-columns.ts';
import { assertConfigured } from './configuration.ts';
import type { ProviderChange } from './provider.schema.ts';

/** The columns that an administrator can set. */
export type Settings = Pick<
  SsoProvider,
  | Exclude<keyof ProviderChange, 'userInfoUrl' | 'enforceSSO'>
  | 'userinfoUrl'
  | 'enforceSso'
  | 'sendsIssuer'
  | 'status'
>;

/** The fields of a request as columns of the provider. */
export function columnsOf(
  { userInfoUrl, enforceSSO, clientSecret, certificate, ...same }: ProviderChange,
  stored: Pick<SsoProvider, 'id' | 'certificate'>,
  sealer: Sealer,
): Partial<Settings> {
  return omitUndefined({
    ...same,
    userinfoUrl: userInfoUrl,
    enforceSso: enforceSSO,
    clientSecret:
      typeof clientSecret === 'string'
        ? sealer.seal(clientSecret, clientSecretContext(stored.id))
        : clientSecret,
    // A form sends the stored certificate back, even if it has expired since then.
    certificate:
      typeof certificate === 'string' && certificate !== stored.certificate
        ? readCertificates(certificate)
        : certificate,
  });
}

function readCertificates(certificate: string): string {
  const fault = certificateFault(certificate, clock.date());
  if (fault !== undefined) throw invalid('body.certificate', fault);
  return normalizedCertificates(certificate);
}

/** Settings that do not affect who gets the default role. */
const ROLE_NEUTRAL: ReadonlySet<string> = new Set(['name', 'enforceSso', 'breakGlassUserIds', 'status']);

/** The settings of a provider after a change. */
type Changed = Settings & Owned & Pick<SsoProvider, 'type' | 'lastSuccessAt'>;

/**
 * Throws if the caller may not give a provider these settings.
 * @returns the caller as the person who configured the default role, if the change affects who gets that role
 */
export async function assertAllowed(
  ctx: Context,
  provider: Changed,
  changes: Partial<Settings>,
): Promise<Partial<Pick<SsoProvider, 'defaultRoleConfiguredBy'>>> {
  if (changes.breakGlassUserIds !== undefined) await assertMembers(ctx, provider);
  if (provider.enforceSso) await assertEnforceable(ctx, provider);
  if (provider.status === 'active') {
    // If the provider was active before, only the changed fields are checked.
    assertConfigured(provider, clock.date(), changes.status === undefined ? changes : undefined);
  }
  // A person who decides how people sign in also decides who gets the default role, and needs its permissions.
  const isNeutral = Object.keys(changes).every((name) => ROLE_NEUTRAL.has(name));
  if (provider.defaultRoleId === null || isNeutral) return {};
  await assertDefaultRole(ctx, provider, provider.defaultRoleId);
  return { defaultRoleConfiguredBy: ctx.caller.userId };
}

async function assertMembers(ctx: Context, { breakGlassUserIds, ...owned }: Changed): Promise<void> {
  const members = new Set((await membersAmong(ctx.tx, owned, breakGlassUserIds)).map(({ userId }) => userId));
  const strangers = breakGlassUserIds.filter((id) => !members.has(id));
  if (strangers.length > 0) {
    const noun = owned.orgId === null ? 'partner' : 'organization';
    throw invalid(
      'body.breakGlassUserIds',
      `must be users of this ${noun}; these are not: ${strangers.join(', ')}`,
    );
  }
}

/**
 * Enforcement needs a sign-in that has worked, and a break-glass person who can sign in if the provider fails (SHAPES
 * 9).
 */
async function assertEnforceable(ctx: Context, provider: Changed): Promise<void> {
  if (provider.lastSuccessAt === null) {
    throw new AppError(
      'sso_not_proven',
      'Single sign-on can be enforced only after one successful sign-in with this identity provider.',
    );
  }
  await lockPasswordWay(ctx.tx, provider);
  const named = await membersAmong(ctx.tx, provider, provider.breakGlassUserIds);
  if (named.some((facts) => hasPasswordWay(provider, facts))) return;
  const rule =
    provider.orgId === null
      ? 'must name at least one active Partner Admin who has a password and a second factor'
      : 'must name at least one active Organization Admin who has a password';
  throw invalid('body.breakGlassUserIds', rule);
}
