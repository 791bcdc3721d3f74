import { clock } from '../../clock.ts';
import { invalid } from '../../platform/errors.ts';
import {
  NAMESPACE,
  REDIRECT_BINDING,
  childrenOf,
  parseXml,
  withDescendants,
  type XmlElement,
  XmlFault,
} from './saml-xml.ts';
import { X509Certificate } from 'node:crypto';

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
 * @throws AppError `validation_failed`, which names the fault of the document
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

/**
 * The certificates of an identity provider, which has several while it changes its key. All functions here are pure.
 */

const PEM_BLOCK = /-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----/g;

const MIN_RSA_BITS = 2048;

/** Limited, because a response may be checked with each certificate. */
const MAX_CERTIFICATES = 10;

/** Converts PEM, or the base64 of one certificate, to normalized PEM. Other text is returned unchanged. */
export function normalizedCertificates(text: string): string {
  return readCertificates(text)?.map(String).join('') ?? text;
}

/** The rule that the certificates break, as the end of a sentence. Undefined if at least one can be used now. */
export function certificateFault(text: string, now: Date): string | undefined {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) {
    return 'contains a private key; send only the certificate, and replace that key at the identity provider';
  }
  const certificates = readCertificates(text);
  if (certificates === undefined) return 'must be a certificate in PEM form, or several one after the other';
  if (certificates.length > MAX_CERTIFICATES) return `must be at most ${MAX_CERTIFICATES} certificates`;
  const weak = certificates.map(keyFault).find((fault) => fault !== undefined);
  if (weak !== undefined) return weak;
  if (certificates.some((certificate) => isCurrent(certificate, now))) return undefined;
  const next = certificates.find((certificate) => now < new Date(certificate.validFrom));
  return next === undefined
    ? `has expired on ${day(lastEnd(certificates))}`
    : `is not valid before ${day(new Date(next.validFrom))}`;
}

/** The certificates that are valid now and have a strong key, as PEM. */
export function usableCertificates(text: string, now: Date): string[] {
  return (readCertificates(text) ?? [])
    .filter((certificate) => keyFault(certificate) === undefined && isCurrent(certificate, now))
    .slice(0, MAX_CERTIFICATES)
    .map(String);
}

/** The time at which the last certificate expires. Undefined if the text contains none. */
export function certificatesEnd(text: string): Date | undefined {
  const certificates = readCertificates(text);
  return certificates === undefined ? undefined : lastEnd(certificates);
}

/** Undefined if the text contains no certificate, or one that cannot be parsed. */
function readCertificates(text: string): X509Certificate[] | undefined {
  const blocks = [...text.matchAll(PEM_BLOCK)].map(([, base64 = '']) => base64);
  const encoded = (blocks.length === 0 ? [text] : blocks).map((block) => block.replace(/\s+/g, ''));
  if (!encoded.every((block) => /^[A-Za-z0-9+/]+={0,2}$/.test(block))) return undefined;
  try {
    return encoded.map((block) => new X509Certificate(Buffer.from(block, 'base64')));
  } catch {
    return undefined;
  }
}

function keyFault({ publicKey }: X509Certificate): string | undefined {
  // xml-crypto checks only RSA signatures, and identity providers use only RSA keys.
  if (publicKey.asymmetricKeyType !== 'rsa') return 'must have an RSA key';
  const bits = publicKey.asymmetricKeyDetails?.modulusLength ?? 0;
  return bits < MIN_RSA_BITS
    ? `must have a key of at least ${MIN_RSA_BITS} bits; this one has ${bits}`
    : undefined;
}

const isCurrent = ({ validFrom, validTo }: X509Certificate, now: Date): boolean =>
  new Date(validFrom) <= now && now < new Date(validTo);

const lastEnd = (certificates: readonly X509Certificate[]): Date =>
  new Date(Math.max(...certificates.map(({ validTo }) => Date.parse(validTo))));

const day = (at: Date): string => at.toISOString().slice(0, 10);
