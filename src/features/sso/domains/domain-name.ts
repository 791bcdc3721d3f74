import { parse } from 'tldts';

/** Rules for the names of mail domains. Nothing here queries the DNS. */

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
