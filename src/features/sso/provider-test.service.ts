import { clock } from '../../clock.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { invalid } from '../../platform/errors.ts';
import type { SsoProvider } from './sso.model.ts';
import {
  assertVersion,
  lockProvider,
  type ProviderParts,
  readProviderToChange,
  saveSettings,
} from './provider.service.ts';
import { type IdpMetadata, readIdpMetadata } from './saml-metadata.ts';
import { checkProvider } from './provider-checks.ts';
import { type Check, type ProviderTest, METADATA_MAX } from './provider.schema.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import type { ProviderFetch } from './provider-call.ts';

const XML_TYPES = ['application/samlmetadata+xml', 'application/xml', 'text/xml'];

/** Reads the metadata in a request, or from the URL in it. Undefined if the request contains neither. */
async function describedProvider(
  outbound: Pick<ProviderFetch, 'fetch'>,
  { metadataUrl, metadataXml }: ProviderTest,
): Promise<IdpMetadata | undefined> {
  if (metadataXml !== undefined) return readIdpMetadata(metadataXml);
  return metadataUrl === undefined ? undefined : readIdpMetadata(await fetchMetadata(outbound, metadataUrl));
}

async function fetchMetadata(outbound: Pick<ProviderFetch, 'fetch'>, url: string): Promise<string> {
  try {
    const answer = await outbound.fetch(url, { accept: XML_TYPES, maxBytes: METADATA_MAX });
    if (answer.ok) return await answer.text();
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw invalid('body.metadataUrl', error.message);
  }
  throw invalid('body.metadataUrl', 'The server at this URL did not answer with metadata.');
}

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
