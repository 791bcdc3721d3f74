import { clock } from '../../clock.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { membersAmong } from '../users/index.ts';
import { canSignInWithPassword } from './enforcement.ts';
import { lockPasswordSignIn } from './sso.queries.ts';
import { type Owned, type SsoProvider, clientSecretContext } from './sso.model.ts';
import { certificateFault, normalizedCertificates } from './saml-metadata.ts';
import type { ProviderChange } from './provider.schema.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { type Discovered, discover } from './oidc-discovery.ts';
import type { ProviderFetch } from './provider-call.ts';
import { SsoFailure } from './sso-failure.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { Organization } from '../organizations/index.ts';
import {
  assertHolds,
  findRoleToAssign,
  isRoleFor,
  Role,
  type RoleTenant,
  stillHolds,
} from '../roles/index.ts';

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
  encryptor: Encryptor,
): Partial<Settings> {
  return omitUndefined({
    ...same,
    userinfoUrl: userInfoUrl,
    enforceSso: enforceSSO,
    clientSecret:
      typeof clientSecret === 'string'
        ? encryptor.seal(clientSecret, clientSecretContext(stored.id))
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
  await lockPasswordSignIn(ctx.tx, provider);
  const named = await membersAmong(ctx.tx, provider, provider.breakGlassUserIds);
  if (named.some((facts) => canSignInWithPassword(provider, facts))) return;
  const rule =
    provider.orgId === null
      ? 'must name at least one active Partner Admin who has a password and a second factor'
      : 'must name at least one active Organization Admin who has a password';
  throw invalid('body.breakGlassUserIds', rule);
}

/**
 * Throws unless the default role (SPEC 4.8) is a role for members of the owner, and the caller has all its permissions.
 */
async function assertDefaultRole(ctx: Context, owned: Owned, roleId: string): Promise<void> {
  const [role, tenant] = [await findRoleToAssign(ctx, roleId), await ownerOf(ctx.tx, owned)];
  if (role === undefined || tenant === undefined || !isRoleFor(tenant, role)) {
    const rule = `must be a role for users of this ${owned.orgId === null ? 'partner' : 'organization'}`;
    throw invalid('body.defaultRoleId', rule);
  }
  assertHolds(ctx.caller, role.permissions);
}

/** The network requests of a change. They are made before its transaction, so that no transaction waits for them. */

const ENDPOINTS = ['authorizationUrl', 'tokenUrl', 'userInfoUrl', 'jwksUrl'] as const;

type Endpoints = Pick<ProviderChange, (typeof ENDPOINTS)[number]>;

export const endpointsOf = ({
  authorizationUrl,
  tokenUrl,
  userinfoUrl,
  jwksUrl,
}: SsoProvider): Endpoints => ({
  authorizationUrl,
  tokenUrl,
  userInfoUrl: userinfoUrl,
  jwksUrl,
});

/**
 * Throws if this server must not connect to an endpoint that is set by hand.
 * @param stored  the stored endpoints, which are not checked again: an unreachable one must not block other changes
 */
export async function assertEndpointsPermitted(
  outbound: ProviderFetch,
  endpoints: Endpoints,
  stored: Endpoints = {},
): Promise<void> {
  await Promise.all(
    ENDPOINTS.map(async (name) => {
      const url = endpoints[name];
      if (typeof url === 'string' && url !== stored[name]) await assertPermitted(outbound, name, url);
    }),
  );
}

async function assertPermitted(outbound: ProviderFetch, name: string, url: string): Promise<void> {
  try {
    await outbound.assertPermitted(url);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw invalid(`body.${name}`, error.message);
  }
}

/** Discovers the endpoints of a new provider. If that fails, logs a warning and returns undefined (SPEC 4.8). */
export async function discoverNew(
  { log }: Pick<DetachedContext, 'log'>,
  outbound: ProviderFetch,
  issuer: string,
): Promise<Discovered | undefined> {
  try {
    return await discover(outbound, issuer);
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    // A URL of a form that is never allowed is a mistake in the request.
    await outbound.assertPermitted(issuer).catch((refusal: unknown) => {
      if (refusal instanceof OutboundError && refusal.reason === 'url_refused') {
        throw invalid('body.issuer', refusal.message);
      }
    });
    log.warn({ err: error, host: new URL(issuer).host }, 'sso.discovery_failed');
    return undefined;
  }
}

/** Whether a change needs discovery, because the issuer changes or an endpoint would be missing. */
export function needsDiscovery(provider: SsoProvider, change: ProviderChange): boolean {
  if (provider.type !== 'oidc' || typeof change.issuer !== 'string') return false;
  const isComplete = (['authorizationUrl', 'tokenUrl', 'jwksUrl'] as const).every(
    (name) => (change[name] === undefined ? provider[name] : change[name]) !== null,
  );
  return change.issuer !== provider.issuer || !isComplete;
}

export async function discoverAgain(
  { log }: Pick<DetachedContext, 'log'>,
  outbound: ProviderFetch,
  issuer: string,
): Promise<Discovered> {
  try {
    return await discover(outbound, issuer);
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    log.warn({ err: error, host: new URL(issuer).host }, 'sso.discovery_failed');
    throw invalid('body.issuer', failureSentence(error), 'OIDC discovery failed');
  }
}

/** Describes a failure for an administrator, without data that the identity provider has sent. */
export function failureSentence({ reason }: SsoFailure): string {
  switch (reason) {
    case 'provider_unreachable':
      return 'The identity provider could not be reached.';
    case 'issuer_mismatch':
      return 'The discovery document of the identity provider names another issuer.';
    default:
      return 'The identity provider’s answer could not be used.';
  }
}

interface Fault {
  /** The name of the field in the API. */
  path: string;
  message: string;
}

const NEEDED = {
  oidc: ['issuer', 'clientId', 'clientSecret', 'authorizationUrl', 'tokenUrl', 'jwksUrl'],
  saml: ['entityId', 'ssoUrl', 'certificate'],
} as const satisfies Record<SsoProvider['type'], readonly (keyof SsoProvider)[]>;

type Needed = (typeof NEEDED)[SsoProvider['type']][number];

type Configured = Pick<SsoProvider, 'type' | Needed>;

/** The settings that are missing or invalid, so that people cannot sign in with a provider. */
export function configurationFaults(provider: Configured, now: Date): Fault[] {
  const missing = NEEDED[provider.type]
    .filter((name) => provider[name] === null)
    .map((path): Fault => ({ path, message: 'is required' }));
  const { type, certificate } = provider;
  const message = type === 'saml' && certificate !== null ? certificateFault(certificate, now) : undefined;
  return message === undefined ? missing : [...missing, { path: 'certificate', message }];
}

/**
 * Throws if a setting that sign-ins need is missing or invalid.
 * @param among  if given, only the faults of these fields count: an expired certificate must not block other changes
 */
function assertConfigured(provider: Configured, now: Date, among?: object): void {
  const faults = configurationFaults(provider, now).filter(
    ({ path }) => among === undefined || path in among,
  );
  if (faults.length > 0) {
    throw new AppError('validation_failed', 'Provider is not fully configured', { details: faults });
  }
}

const IDENTIFYING = {
  oidc: ['issuer', 'clientId', 'authorizationUrl', 'tokenUrl', 'userinfoUrl', 'jwksUrl'],
  saml: ['entityId', 'ssoUrl'],
} as const satisfies Record<SsoProvider['type'], readonly (keyof SsoProvider)[]>;

type Identity = Pick<SsoProvider, 'type' | (typeof IDENTIFYING)[SsoProvider['type']][number]>;

/** Whether a change selects another identity provider, so that an earlier sign-in no longer proves that it works. */
export const isAnotherIdentityProvider = (before: Identity, after: Identity): boolean =>
  IDENTIFYING[before.type].some((name) => before[name] !== after[name]);

/**
 * Whether a new account may get the provider's default role now: the role is still one for members of the owner, and
 * the person who configured it is still active, can still access the owner and still has all permissions of the role.
 * Locks the role until the transaction ends. Needs a transaction across tenants.
 */
export async function isDefaultRoleValid(
  tx: Tx,
  provider: Pick<SsoProvider, 'orgId' | 'partnerId' | 'defaultRoleId' | 'defaultRoleConfiguredBy'>,
): Promise<boolean> {
  const { defaultRoleId, defaultRoleConfiguredBy } = provider;
  if (defaultRoleId === null) return false;
  const tenant = await ownerOf(tx, provider);
  const role = await Role.query(tx).findById(defaultRoleId).forShare();
  if (tenant === undefined || role === undefined || !isRoleFor(tenant, role)) return false;
  const { partnerId, orgId } = tenant;
  const orgIds = orgId === null ? ('all' as const) : [orgId];
  return stillHolds(tx, defaultRoleConfiguredBy, { partnerId, orgIds }, role.permissions);
}

/** Undefined if the organization is deleted. */
async function ownerOf(tx: Tx, { orgId, partnerId }: Owned): Promise<RoleTenant | undefined> {
  if (orgId === null) return { scope: 'partner', partnerId, orgId };
  const organization = await Organization.query(tx).findById(orgId).whereNull('deleted_at');
  return organization && { scope: 'organization', partnerId: organization.partnerId, orgId };
}
