import type {
  ShownProvider,
  NewProvider,
  ProviderChange,
  ProviderQuery,
  StatusChange,
} from './provider.schema.ts';
import { lockByName } from '../../platform/db/transaction.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Context, DetachedContext, Caller } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import type { Discovered } from './oidc-discovery.ts';
import type { ProviderFetch } from './provider-call.ts';
import { SsoProvider, type Owned } from './sso.model.ts';
import { DEFAULT_MAPPING } from './sso.schema.ts';
import { resolveAlertOf } from './health.work.ts';
import { visibleProviders, permissionsOfMembers } from './sso.queries.ts';
import {
  isAnotherIdentityProvider,
  assertAllowed,
  columnsOf,
  type Settings,
  assertEndpointsPermitted,
  discoverAgain,
  discoverNew,
  endpointsOf,
  needsDiscovery,
} from './provider-settings.ts';
import { DEFAULT_SCOPES, defaultsOf, findPreset, type PresetDefaults } from './provider-presets.ts';
import { EVERYTHING, exceeds } from '../roles/index.ts';

export interface ProviderParts {
  secrets: Encryptor;
  ssoFetch: ProviderFetch;
}

export async function listProviders(ctx: Context, query: ProviderQuery) {
  const { scope, partnerId } = ctx.caller;
  const providers = visibleProviders(ctx)
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  if (query.scope === 'partner') {
    if (scope !== 'partner') throw new AppError('forbidden', 'This needs partner scope.');
    void providers.where('partner_id', partnerId);
  }
  if (query.orgId !== undefined) {
    await assertOrganizationAccess(ctx, query.orgId);
    void providers.where('org_id', query.orgId);
  }
  return toPage(query, await providers);
}

export async function readProvider(ctx: Context, id: string): Promise<SsoProvider> {
  const provider = await visibleProviders(ctx).findById(id);
  if (provider === undefined) throw notFound('Provider');
  return provider;
}

export async function readProviderToChange(ctx: Context, id: string): Promise<SsoProvider> {
  const provider = await readProvider(ctx, id);
  await assertMayConfigure(ctx, provider);
  return provider;
}

/**
 * Reads and locks a provider. Of two changes at once, the second waits and is checked against the result of the first.
 */
export async function lockProvider(ctx: Context, id: string): Promise<SsoProvider> {
  const provider = await visibleProviders(ctx).findById(id).forUpdate();
  if (provider === undefined) throw notFound('Provider');
  await assertMayConfigure(ctx, provider);
  return provider;
}

/** Checks the endpoints of a new provider, and discovers missing ones. */
export async function prepareNew(
  ctx: DetachedContext,
  given: NewProvider,
  { ssoFetch }: Pick<ProviderParts, 'ssoFetch'>,
): Promise<Discovered | undefined> {
  await ctx.withTenant((inner) => ownerOfNew(inner, given));
  await assertEndpointsPermitted(ssoFetch, given);
  const { type, issuer = presetFor(given).issuer } = given;
  return type === 'oidc' && typeof issuer === 'string' ? discoverNew(ctx, ssoFetch, issuer) : undefined;
}

function presetFor({ preset: presetId, type }: NewProvider): PresetDefaults {
  const preset = presetId === undefined ? undefined : findPreset(presetId);
  if (preset !== undefined && preset.type !== type) {
    throw invalid('body.preset', `can only be used with providers of the type ${preset.type}`);
  }
  return preset === undefined ? {} : defaultsOf(preset);
}

/** Fields of the request have priority over those of discovery, and those of discovery over those of the preset. */
export async function createProvider(
  ctx: Context,
  given: NewProvider,
  discovered: Discovered | undefined,
  { secrets }: Pick<ProviderParts, 'secrets'>,
): Promise<SsoProvider> {
  const owned = await ownerOfNew(ctx, given);
  await assertBelowLimit(ctx, owned);
  const id = newId();
  const { type, preset, ownerScope: _scope, orgId: _org, ...byHand } = given;
  const provider = {
    ...UNSET,
    ...columnsOf(presetFor(given), { id, certificate: null }, secrets),
    ...discovered,
    ...columnsOf(byHand, { id, certificate: null }, secrets),
    ...(discovered === undefined ? {} : { issuer: discovered.issuer }),
    ...owned,
    id,
    type,
    name: given.name,
    preset: preset ?? null,
    configuredPermissions: [...ctx.caller.permissions],
    createdBy: ctx.caller.userId,
  };
  const vouched = await assertAllowed(ctx, provider, provider);
  return SsoProvider.query(ctx.tx).insertAndFetch({ ...provider, ...vouched });
}

/** Returns the owner of a new provider. Throws if the caller may not create providers of this owner. */
async function ownerOfNew(
  ctx: Context,
  { ownerScope, orgId }: Pick<NewProvider, 'ownerScope' | 'orgId'>,
): Promise<Owned> {
  const { caller } = ctx;
  const owned =
    ownerScope === 'partner'
      ? { orgId: null, partnerId: caller.partnerId }
      : { orgId: await organizationOfNew(ctx, orgId), partnerId: null };
  await assertMayConfigure(ctx, owned);
  return owned;
}

async function organizationOfNew(ctx: Context, orgId: string | undefined): Promise<string> {
  const { caller } = ctx;
  const wanted = orgId ?? caller.orgId;
  if (wanted === null) {
    throw invalid('body.orgId', 'is required', `orgId is required for ${caller.scope} scope`);
  }
  await assertOrganizationAccess(ctx, wanted);
  return wanted;
}

/**
 * Throws unless the caller has every right that a sign-in with a provider of this owner can give: a person who decides
 * how people sign in can sign in as any of them.
 */
async function assertMayConfigure({ tx, caller }: Context, owned: Owned): Promise<void> {
  assertActsForOwner(caller, owned);
  const given = owned.orgId === null ? [EVERYTHING] : await permissionsOfMembers(tx, owned.orgId);
  const beyond = exceeds(caller.permissions, given);
  if (beyond.length === 0) return;
  const missing = beyond.includes(EVERYTHING) ? [EVERYTHING] : beyond;
  const [whose, admin] =
    owned.orgId === null
      ? ['a partner', 'Partner Admin']
      : ['this organization', 'administrator of the organization or Partner Admin'];
  throw new AppError(
    'forbidden',
    `An identity provider of ${whose} decides which people sign in as its users, so configuring it needs every permission that these users have. You do not have: ${missing.join(', ')}. Ask a ${admin} to make this change.`,
    { details: { missingPermissions: missing } },
  );
}

/**
 * A partner's provider signs in its technicians, who may reach all its organizations, so the caller must reach all of
 * them too.
 */
function assertActsForOwner({ scope, partnerId, orgAccess }: Caller, owned: Owned): void {
  if (owned.orgId !== null) return;
  if (scope !== 'partner' || partnerId !== owned.partnerId || orgAccess !== 'all') {
    throw new AppError(
      'forbidden',
      'Only users of a partner who have access to all its organizations can change the identity providers of the partner.',
    );
  }
}

/** Limited, because each active provider is checked regularly. */
const MAX_OF_OWNER = 50;

/** Throws if the owner has the maximum number of providers. The lock makes other creations for this owner wait. */
async function assertBelowLimit({ tx }: Context, { orgId, partnerId }: Owned): Promise<void> {
  const lock = `identity providers of ${partnerId ?? orgId ?? ''}`;
  await lockByName(tx, lock);
  const owned = orgId === null ? { partner_id: partnerId } : { org_id: orgId };
  if ((await SsoProvider.query(tx).where(owned).resultSize()) >= MAX_OF_OWNER) {
    throw new AppError(
      'limit_reached',
      `An organization or a partner can have at most ${MAX_OF_OWNER} providers. Delete some first.`,
    );
  }
}

/** The settings of a provider without any fields in the request. */
const UNSET = {
  status: 'inactive',
  issuer: null,
  clientId: null,
  clientSecret: null,
  tokenAuthMethod: 'client_secret_basic',
  scopes: DEFAULT_SCOPES,
  authorizationUrl: null,
  tokenUrl: null,
  userinfoUrl: null,
  jwksUrl: null,
  sendsIssuer: false,
  entityId: null,
  ssoUrl: null,
  certificate: null,
  attributeMapping: DEFAULT_MAPPING,
  autoProvision: true,
  defaultRoleId: null,
  allowedDomains: '',
  enforceSso: false,
  trustsIdpMfa: false,
  breakGlassUserIds: [],
  lastSuccessAt: null,
} satisfies Partial<SsoProvider>;

/** The result of discovery for a change, and the version of the provider for which it was made. */
export interface PreparedChange {
  discovered: Discovered;
  configVersion: number;
}

export async function prepareChange(
  ctx: DetachedContext,
  id: string,
  change: ProviderChange,
  { ssoFetch }: Pick<ProviderParts, 'ssoFetch'>,
): Promise<PreparedChange | undefined> {
  const provider = await ctx.withTenant((inner) => readProviderToChange(inner, id));
  await assertEndpointsPermitted(ssoFetch, change, endpointsOf(provider));
  const { issuer } = change;
  if (typeof issuer !== 'string' || !needsDiscovery(provider, change)) return undefined;
  const discovered = await discoverAgain(ctx, ssoFetch, issuer);
  return { discovered, configVersion: provider.configVersion };
}

export async function updateProvider(
  ctx: Context,
  id: string,
  change: ProviderChange,
  prepared: PreparedChange | undefined,
  { secrets }: Pick<ProviderParts, 'secrets'>,
): Promise<SsoProvider> {
  const provider = await lockProvider(ctx, id);
  if (prepared !== undefined) assertVersion(provider, prepared.configVersion);
  // Discovery was not needed for the earlier version, and another change has made it necessary.
  else if (needsDiscovery(provider, change)) throw changedMeanwhile();
  // A form sends all fields back. Unchanged endpoints were not set by hand, so those of the new issuer replace them.
  const byHand = withoutUnchanged(columnsOf(change, provider, secrets), provider);
  const endpoints = byHand.issuer === null ? NO_ENDPOINTS : prepared?.discovered;
  const issuer = prepared === undefined ? {} : { issuer: prepared.discovered.issuer };
  return saveSettings(ctx, provider, { ...endpoints, ...byHand, ...issuer });
}

const NO_ENDPOINTS = {
  authorizationUrl: null,
  tokenUrl: null,
  userinfoUrl: null,
  jwksUrl: null,
  sendsIssuer: false,
};

function withoutUnchanged(wanted: Partial<Settings>, provider: SsoProvider): Partial<Settings> {
  const stored = new Map<string, unknown>(Object.entries(provider));
  return Object.fromEntries(
    Object.entries(wanted).filter(([name, value]) => !isDeepStrictEqual(stored.get(name), value)),
  );
}

/** Throws if the provider was changed during the network requests. */
export function assertVersion(provider: SsoProvider, expected: number): void {
  if (provider.configVersion !== expected) throw changedMeanwhile();
}

const changedMeanwhile = () =>
  new AppError('conflict', 'Another person has just changed this provider. Read it and try again.');

export async function changeStatus(ctx: Context, id: string, change: StatusChange): Promise<SsoProvider> {
  const provider = await lockProvider(ctx, id);
  return saveSettings(ctx, provider, change);
}

/** Stores a change, which ends the sign-ins in progress and resets the count of failed checks. */
export async function saveSettings(
  ctx: Context,
  provider: SsoProvider,
  changes: Partial<Settings>,
): Promise<SsoProvider> {
  const after: SsoProvider = Object.assign(provider.$clone(), changes);
  if (isAnotherIdentityProvider(provider, after)) after.lastSuccessAt = null;
  const vouched = await assertAllowed(ctx, after, changes);
  const saved = await patchRecorded(ctx, provider, {
    ...changes,
    ...vouched,
    configuredPermissions: [...ctx.caller.permissions],
    lastSuccessAt: after.lastSuccessAt,
    configVersion: provider.configVersion + 1,
    discoveryFailures: 0,
  });
  await resolveAlertOf(ctx.tx, provider, 'The provider was changed.');
  return saved;
}

/** The database deletes the sign-ins in progress and the links of the provider with it. */
export async function deleteProvider(ctx: Context, id: string) {
  const provider = await lockProvider(ctx, id);
  await provider.$query(ctx.tx).delete();
  await resolveAlertOf(ctx.tx, provider, 'The provider was deleted.');
  return { success: true as const, provider };
}

/** A provider as responses show it. */
export function toProviderResponse({
  userinfoUrl,
  enforceSso,
  clientSecret,
  ...provider
}: SsoProvider): ShownProvider {
  return {
    ...provider,
    ownerScope: provider.orgId === null ? 'partner' : 'organization',
    userInfoUrl: userinfoUrl,
    enforceSSO: enforceSso,
    hasClientSecret: clientSecret !== null,
  };
}
