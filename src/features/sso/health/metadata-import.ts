import { invalid } from '../../../platform/errors.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import type { ProviderFetch } from '../oidc/provider-call.ts';
import { type IdpMetadata, readIdpMetadata } from '../saml/idp-metadata.ts';
import { METADATA_MAX, type ProviderTest } from './provider-test.schema.ts';

const XML_TYPES = ['application/samlmetadata+xml', 'application/xml', 'text/xml'];

/** Reads the metadata in a request, or from the URL in it. Undefined if the request contains neither. */
export async function describedProvider(
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
