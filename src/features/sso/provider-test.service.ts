import { clock } from '../../../clock.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { invalid } from '../../../platform/errors.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import {
  assertVersion,
  lockProvider,
  type ProviderParts,
  readProviderToChange,
  saveSettings,
} from '../administration/provider.service.ts';
import type { IdpMetadata } from '../saml/idp-metadata.ts';
import { checkProvider } from './checks.ts';
import { describedProvider } from './metadata-import.ts';
import type { Check, ProviderTest } from './provider-test.schema.ts';

interface Tested {
  configVersion: number;
  described: IdpMetadata | undefined;
  checks: Check[];
}

/** Makes the checks before the transaction, so that no transaction waits for the identity provider. */
export async function prepareTest(
  ctx: DetachedContext,
  id: string,
  input: ProviderTest,
  { ssoFetch }: Pick<ProviderParts, 'ssoFetch'>,
): Promise<Tested> {
  const provider = await ctx.withTenant((inner) => readProviderToChange(inner, id));
  if (provider.type !== 'saml' && (input.metadataUrl ?? input.metadataXml) !== undefined) {
    const field = input.metadataUrl === undefined ? 'metadataXml' : 'metadataUrl';
    throw invalid(`body.${field}`, 'can only be used with providers of the type saml');
  }
  const described = await describedProvider(ssoFetch, input);
  const tested: SsoProvider = Object.assign(provider.$clone(), described);
  return {
    configVersion: provider.configVersion,
    described,
    checks: await checkProvider(ssoFetch, tested, clock.date()),
  };
}

/** Stores imported metadata, and returns the checks, which were made with that metadata. */
export async function testProvider(
  ctx: Context,
  id: string,
  { configVersion, described, checks }: Tested,
): Promise<{ success: boolean; checks: Check[]; provider: SsoProvider }> {
  const success = checks.every(({ ok }) => ok);
  if (described === undefined) return { success, checks, provider: await readProviderToChange(ctx, id) };
  const provider = await lockProvider(ctx, id);
  assertVersion(provider, configVersion);
  return { success, checks, provider: await saveSettings(ctx, provider, { ...described }) };
}
