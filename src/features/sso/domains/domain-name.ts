import { domainToASCII } from 'node:url';
import { parse } from 'tldts';

/** Rules for the names of mail domains, without DNS. */

/** Labels of letters, digits and inner hyphens (RFC 1123), in lower case. */
const ASCII_NAME = /^(?=.{1,253}$)[a-z\d]([a-z\d-]{0,61}[a-z\d])?(\.[a-z\d]([a-z\d-]{0,61}[a-z\d])?)*$/;
/** `domainToASCII` takes its input for the host of a URL: it would end it at a slash, and decode `%41`. */
const FOREIGN_ASCII = /[\0-,/:-@[-`{-\x7f]/;

/** The lower-case ASCII form of a domain name, of which IDNs have another; `undefined` for text that is no domain name. */
export function asciiDomain(text: string): string | undefined {
  if (text.length > 253 || FOREIGN_ASCII.test(text.toLowerCase())) return undefined;
  const ascii = domainToASCII(text);
  return ASCII_NAME.test(ascii) ? ascii : undefined;
}

/** Names below a public suffix, such as example.github.io, belong to people who do not know each other. */
const registered = (domain: string) => parse(domain, { allowPrivateDomains: true });

/** Why nobody can prove to own the domain, as the end of a sentence about it; `undefined` where somebody can. */
export function ownershipFault(domain: string): string | undefined {
  const { domain: registrable, isIp } = registered(domain);
  if (isIp === true) return 'must be a domain, not an IP address';
  if (domain === 'localhost' || domain.endsWith('.localhost')) return 'must not be localhost';
  if (!domain.includes('.')) return 'must have at least two labels, such as example.com';
  if (registrable !== null) return undefined;
  return 'must not be a public suffix, under which anybody can register names';
}

/**
 * The domains whose owner owns this one: itself and its parents, down to the one that was registered. The longest comes
 * first. None for a name that nobody can own.
 */
export function owningDomains(domain: string): string[] {
  const { domain: registrable } = registered(domain);
  if (registrable === null || ownershipFault(domain) !== undefined) return [];
  const labels = domain.split('.');
  const parents = labels.length - registrable.split('.').length;
  return Array.from({ length: parents + 1 }, (_, i) => labels.slice(i).join('.'));
}
