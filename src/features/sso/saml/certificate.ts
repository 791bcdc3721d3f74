import { X509Certificate } from 'node:crypto';

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
