import { domainToASCII } from 'node:url';
import { parse } from 'tldts';

/** Rules for the names of mail domains. Nothing here queries the DNS. */

/** Labels of letters, digits and inner hyphens (RFC 1123), in lower case. */
const ASCII_NAME = /^(?=.{1,253}$)[a-z\d]([a-z\d-]{0,61}[a-z\d])?(\.[a-z\d]([a-z\d-]{0,61}[a-z\d])?)*$/;
/**
 * ASCII characters that no domain name has. `domainToASCII` would accept some: it reads the host of a URL, so it stops
 * at a slash and decodes `%41`.
 */
const FOREIGN_ASCII = /[\0-,/:-@[-`{-\x7f]/;

/**
 * Converts a domain name, which may be internationalized, to lower-case ASCII. Undefined if the text is no domain name.
 */
export function asciiDomain(text: string): string | undefined {
  if (text.length > 253 || FOREIGN_ASCII.test(text.toLowerCase())) return undefined;
  const ascii = domainToASCII(text);
  return ASCII_NAME.test(ascii) ? ascii : undefined;
}

/** Includes private public suffixes such as github.io, because the names below them belong to different people. */
const registered = (domain: string) => parse(domain, { allowPrivateDomains: true });

/**
 * The rule that the domain breaks, if nobody can own it; otherwise undefined. The name of a field goes in front of the
 * text.
 */
export function ownershipFault(domain: string): string | undefined {
  const { domain: registrable, isIp } = registered(domain);
  if (isIp === true) return 'must be a domain, not an IP address';
  if (domain === 'localhost' || domain.endsWith('.localhost')) return 'must not be localhost';
  if (!domain.includes('.')) return 'must have at least two labels, such as example.com';
  if (registrable !== null) return undefined;
  return 'must not be a public suffix, under which anybody can register names';
}

/**
 * The domains whose owners own this domain as well: the domain itself and its parents, up to the registered domain, the
 * longest first. Empty for a name that nobody can own.
 */
export function owningDomains(domain: string): string[] {
  const { domain: registrable } = registered(domain);
  if (registrable === null || ownershipFault(domain) !== undefined) return [];
  const labels = domain.split('.');
  const parents = labels.length - registrable.split('.').length;
  return Array.from({ length: parents + 1 }, (_, i) => labels.slice(i).join('.'));
}
