import { clock } from '../../../clock.ts';
import { invalid } from '../../../platform/errors.ts';
import { certificateFault, normalizedCertificates } from './certificate.ts';
import { NAMESPACE, REDIRECT_BINDING } from './names.ts';
import { childrenOf, parseXml, withDescendants, type XmlElement, XmlFault } from './xml.ts';

/** The settings that are imported from an identity provider's metadata. */
export interface IdpMetadata {
  entityId: string;
  /** The URL to which sign-ins are redirected (HTTP-Redirect binding). */
  ssoUrl: string;
  /** All signing certificates as PEM, one after the other. */
  certificate: string;
}

const MAX_BYTES = 512 << 10;
/** The maximum length of the columns. */
const MAX_LENGTH = 500;

/**
 * Reads the metadata document of an identity provider. Its signature is not checked, because an administrator has
 * supplied the document or its HTTPS address.
 * @throws AppError `validation_failed`, which says what is wrong with the document
 */
export function readIdpMetadata(xml: string, now = clock.date()): IdpMetadata {
  const entity = identityProviderOf(parsed(xml));
  const entityId = entity.attributes.get('entityID') ?? '';
  if (entityId === '' || entityId.length > MAX_LENGTH) {
    throw refused(`its entityID must have 1 to ${MAX_LENGTH} characters`);
  }
  const validUntil = entity.attributes.get('validUntil');
  // Written with `!`, so that a time that cannot be parsed (NaN) is refused as well.
  if (validUntil !== undefined && !(Date.parse(validUntil) > now.getTime())) throw refused('it has expired');
  const roles = rolesOf(entity);
  return { entityId, ssoUrl: ssoUrlOf(roles), certificate: certificatesOf(roles, now) };
}

function parsed(xml: string): XmlElement {
  try {
    return parseXml(xml.trim(), { maxBytes: MAX_BYTES });
  } catch (error) {
    if (error instanceof XmlFault) throw refused(`it ${error.message}`);
    throw error;
  }
}

/** Finds the only identity provider. The documents of federations contain thousands, and are refused. */
function identityProviderOf(root: XmlElement): XmlElement {
  const providers = [...withDescendants(root)].filter(
    (element) =>
      element.namespace === NAMESPACE.metadata &&
      element.name === 'EntityDescriptor' &&
      rolesOf(element).length > 0,
  );
  const [provider] = providers;
  if (provider === undefined) throw refused('it describes no identity provider of SAML 2.0');
  if (providers.length > 1) {
    throw refused('it describes several identity providers; send the metadata of one');
  }
  return provider;
}

function rolesOf(entity: XmlElement): XmlElement[] {
  return childrenOf(entity, NAMESPACE.metadata, 'IDPSSODescriptor').filter((role) =>
    role.attributes.get('protocolSupportEnumeration')?.split(/\s+/).includes(NAMESPACE.protocol),
  );
}

function ssoUrlOf(roles: readonly XmlElement[]): string {
  const service = roles
    .flatMap((role) => childrenOf(role, NAMESPACE.metadata, 'SingleSignOnService'))
    .find(({ attributes }) => attributes.get('Binding') === REDIRECT_BINDING);
  const url = service?.attributes.get('Location');
  if (url === undefined) throw refused('it names no SingleSignOnService with the HTTP-Redirect binding');
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:' || url.length > MAX_LENGTH) {
    throw refused(
      `the Location of its SingleSignOnService must be an https URL with at most ${MAX_LENGTH} characters`,
    );
  }
  return url;
}

function certificatesOf(roles: readonly XmlElement[], now: Date): string {
  const written = roles
    .flatMap((role) => childrenOf(role, NAMESPACE.metadata, 'KeyDescriptor'))
    .filter(({ attributes }) => (attributes.get('use') ?? 'signing') === 'signing')
    .flatMap((key) => [...withDescendants(key)])
    .filter(({ namespace, name }) => namespace === NAMESPACE.signature && name === 'X509Certificate')
    .map(({ text }) => normalizedCertificates(text));
  const certificate = [...new Set(written)].join('');
  if (certificate === '') throw refused('it contains no signing certificate');
  const fault = certificateFault(certificate, now);
  if (fault !== undefined) throw refused(`its certificate ${fault}`);
  return certificate;
}

const refused = (reason: string) =>
  invalid('metadata', reason, `The metadata of the identity provider cannot be used: ${reason}.`);
