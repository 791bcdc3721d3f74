import { clock } from '../../../clock.ts';
import type { RateLimiter, RateLimits } from '../../../platform/cluster/rate-limits.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { newId } from '../../../platform/ids.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { PING } from '../events/catalogue.ts';
import { post } from '../requests/post.ts';
import { signingSecrets } from '../requests/signing-secret.ts';
import { findToChange } from './webhook.service.ts';

/** For each webhook, so that nobody makes this server knock at other people's doors all day. */
export const webhookTestLimit = (limits: RateLimits): RateLimiter =>
  limits.limiter('webhook-test', { points: 10, seconds: 60 });

export interface TestParts {
  webhookFetch: Pick<GuardedFetch, 'open'>;
  webhookTestLimit: Pick<RateLimiter, 'take'>;
  secrets: Sealer;
}

/** Sends a ping at once, also to a webhook that is disabled, and answers what came of it. */
export async function testWebhook(
  ctx: DetachedContext,
  id: string,
  { webhookFetch, webhookTestLimit: limit, secrets, signal }: TestParts & { signal: AbortSignal },
) {
  const webhook = await ctx.withTenant((inTenant) => findToChange(inTenant, id));
  await limit.take(id);
  const now = clock.date();
  const message = {
    id: newId(),
    type: PING,
    createdAt: now.toISOString(),
    orgId: webhook.orgId,
    data: { webhookId: id },
  };
  const destination = { url: webhook.url, secrets: signingSecrets(secrets, webhook, now) };
  const { retryAfterMs: _, ...outcome } = await post(webhookFetch, destination, message, signal);
  return { ...outcome, webhook };
}
