import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import type { TxtLookup } from '../../../platform/outbound/txt-records.ts';
import type { SsoDomain } from './domain.model.ts';

const LABEL = '_muster-verification.';
/** A DNS name has at most 253 characters, including the label of the record. */
export const DOMAIN_MAX = 253 - LABEL.length;

/** The TXT record by which an organization proves that it owns a domain. */
export const ownershipRecord = ({ domain, token }: Pick<SsoDomain, 'domain' | 'token'>) => ({
  type: 'TXT' as const,
  name: `${LABEL}${domain}`,
  value: `muster-verification=${token}`,
});

/** `unanswered`: the name servers did not answer, or answered with an error. */
export type RecordState = 'present' | 'absent' | 'unanswered';

export async function recordState(
  lookup: TxtLookup,
  domain: Pick<SsoDomain, 'domain' | 'token'>,
): Promise<RecordState> {
  const { name, value } = ownershipRecord(domain);
  try {
    const texts = await lookup(name);
    return texts.some((text) => text.trim() === value) ? 'present' : 'absent';
  } catch (error) {
    if (error instanceof OutboundError) return 'unanswered';
    throw error;
  }
}
