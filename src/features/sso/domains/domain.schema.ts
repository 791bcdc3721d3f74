import { z } from 'zod';
import { Id, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { asciiDomain } from '../../../email-address.ts';
import { ownershipFault } from './domain-name.ts';
import { DOMAIN_MAX } from './ownership-record.ts';

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
