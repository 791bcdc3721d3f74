import { X509Certificate } from 'node:crypto';

/** The certificates of an identity provider: several while it changes its key. All functions here are pure. */

const PEM_BLOCK = /-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----/g;
const MIN_RSA_BITS = 2048;
/** Each costs a check of the signature. */
const MAX_CERTIFICATES = 10;

/** As PEM, one after the other: from PEM or from the base64 of one certificate. Other text stays what it is. */
export function normalizedCertificates(text: string): string {
  return readCertificates(text)?.map(String).join('') ?? text;
}

/** What makes a text useless as certificates of a provider; undefined where at least one of them can be used now. */
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

/** Those whose time it is and whose key is strong enough, as PEM. */
export function usableCertificates(text: string, now: Date): string[] {
  return (readCertificates(text) ?? [])
    .filter((certificate) => keyFault(certificate) === undefined && isCurrent(certificate, now))
    .slice(0, MAX_CERTIFICATES)
    .map(String);
}

/** When the last of them ends; undefined where the text holds none. */
export function certificatesEnd(text: string): Date | undefined {
  const certificates = readCertificates(text);
  return certificates === undefined ? undefined : lastEnd(certificates);
}

/** Undefined where any of it cannot be read, or it holds none. */
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
  // The only kind whose signatures xml-crypto checks, and the only kind that identity providers use.
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
