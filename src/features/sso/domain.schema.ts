import { z } from 'zod';
import { Id, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { asciiDomain } from '../../email-address.ts';
import { parse } from 'tldts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import type { TxtLookup } from '../../platform/outbound/txt-records.ts';

const LABEL = '_muster-verification.';
/** A DNS name has at most 253 characters, including the label of the record. */
const DOMAIN_MAX = 253 - LABEL.length;

interface ClaimedDomain {
  domain: string;
  token: string;
}

/** The TXT record by which an organization proves that it owns a domain. */
export const ownershipRecord = ({ domain, token }: ClaimedDomain) => ({
  type: 'TXT' as const,
  name: `${LABEL}${domain}`,
  value: `muster-verification=${token}`,
});

/** `unanswered`: the name servers did not answer, or answered with an error. */
export type RecordState = 'present' | 'absent' | 'unanswered';

export async function recordState(lookup: TxtLookup, domain: ClaimedDomain): Promise<RecordState> {
  const { name, value } = ownershipRecord(domain);
  try {
    const texts = await lookup(name);
    return texts.some((text) => text.trim() === value) ? 'present' : 'absent';
  } catch (error) {
    if (error instanceof OutboundError) return 'unanswered';
    throw error;
  }
}

/** Rules for the names of mail domains. Nothing here queries the DNS. */

/** Includes private public suffixes such as github.io, because the names below them belong to different people. */
const registered = (domain: string) => parse(domain, { allowPrivateDomains: true });

/**
 * The rule by which no organization can own the domain; `undefined` if it can be owned. The name of a field goes in
 * front of the text.
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
 * longest first. Empty for a name that cannot be owned.
 */
export function owningDomains(domain: string): string[] {
  const { domain: registrable } = registered(domain);
  if (registrable === null || ownershipFault(domain) !== undefined) return [];
  const labels = domain.split('.');
  const parents = labels.length - registrable.split('.').length;
  return Array.from({ length: parents + 1 }, (_, i) => labels.slice(i).join('.'));
}

export const SsoDomain = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    domain: z.string(),
    status: z.enum(['pending', 'verified']),
    record: z
      .object({ type: z.literal('TXT'), name: z.string(), value: z.string() })
      .describe('The DNS record that proves the domain. It has to remain in the DNS.'),
    verifiedAt: Timestamp.nullable(),
    failingSince: Timestamp.nullable().describe(
      'The time since which the daily check has not found the record of a verified domain.',
    ),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'SsoDomain' });

/** Converts a domain to its ASCII form, which the DNS uses. */
const OwnableDomain = z
  .string()
  .max(253, 'must have at most 253 characters')
  .transform((sent, context) => {
    const domain = asciiDomain(sent);
    if (domain === undefined) {
      context.addIssue({ code: 'custom', message: 'must be a domain, such as example.com' });
      return z.NEVER;
    }
    const fault =
      domain.length > DOMAIN_MAX
        ? `must have at most ${DOMAIN_MAX} characters in its ASCII form`
        : ownershipFault(domain);
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
    return domain;
  });

export const NewSsoDomain = z.strictObject({
  orgId: Id.optional().describe(
    'Required in partner and system scope. In organization scope, the default is the caller’s organization.',
  ),
  domain: OwnableDomain,
});
export type NewSsoDomain = z.infer<typeof NewSsoDomain>;

export const SsoDomainQuery = PageQuery.extend({ orgId: Id.optional() });
export type SsoDomainQuery = z.infer<typeof SsoDomainQuery>;
