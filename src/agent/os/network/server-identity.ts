import { X509Certificate } from 'node:crypto';
import { isIPv6 } from 'node:net';
import tls, { type PeerCertificate } from 'node:tls';

/**
 * Whether a certificate is for the host. Node 22.23 takes an IPv6 address for a name, which no certificate has; addresses in
 * a certificate are compared by OpenSSL here.
 */
export function checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined {
  if (isIPv6(host) && new X509Certificate(certificate.raw).checkIP(host) !== undefined) return undefined;
  return tls.checkServerIdentity(host, certificate);
}
