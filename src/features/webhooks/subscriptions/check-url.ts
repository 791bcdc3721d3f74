import { invalid } from '../../../platform/errors.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';

/** Refuses a URL to which nothing would be sent. It is checked again before each request. */
export async function checkUrl(
  outbound: Pick<GuardedFetch, 'assertPermitted'>,
  url: string | undefined,
): Promise<void> {
  if (url === undefined) return;
  try {
    await outbound.assertPermitted(url);
  } catch (error) {
    if (error instanceof OutboundError) throw invalid('body.url', error.message);
    throw error;
  }
}
