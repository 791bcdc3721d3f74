import { isDeepStrictEqual } from 'node:util';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { AppError, invalid, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { newId } from '../../../platform/ids.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import type { Discovered } from '../oidc/discovery.ts';
import type { ProviderFetch } from '../oidc/provider-call.ts';
import { DEFAULT_MAPPING } from '../providers/attribute-mapping.ts';
import { resolveAlertOf } from '../providers/provider-alert.ts';
import { SsoProvider } from '../providers/provider.model.ts';
import { visibleProviders } from '../providers/provider.queries.ts';
import { isAnotherIdentityProvider } from './configuration.ts';
import {
  assertEndpointsPermitted,
  discoverAgain,
  discoverNew,
  endpointsOf,
  needsDiscovery,
} from './endpoints.ts';
import { assertMayConfigure, assertRoom, ownerOfNew } from './owner.ts';
import { DEFAULT_SCOPES, defaultsOf, findPreset, type PresetDefaults } from './presets.ts';
import type { NewProvider, ProviderChange, ProviderQuery, StatusChange } from './provider.schema.ts';
import { assertAllowed, columnsOf, type Settings } from './settings.ts';

export interface ProviderParts {
  secrets: Sealer;
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
  await assertRoom(ctx, owned);
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
  new AppError('conflict', 'Somebody else has just changed this provider. Read it and try again.');

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
