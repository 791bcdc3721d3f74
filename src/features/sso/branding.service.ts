import { clock } from '../../../clock.ts';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { Partner } from '../../partners/index.ts';
import { loginUrlOf } from '../providers/login-url.ts';
import { activeProviderOf } from '../providers/provider.queries.ts';
import { PartnerLoginBranding } from './branding.model.ts';
import type { LoginContext } from './branding.schema.ts';

const NOTHING: LoginContext = { branding: null, partnerSso: null };
const CACHED_MS = 60_000;

export interface LoginContexts {
  read(ctx: PublicContext): Promise<LoginContext>;
  /** Empties the cache of this server after a change. Other servers show the change within a minute. */
  forget(): void;
}

/**
 * Reads the content of the login page before a person has signed in. Only a self-hosted server with one partner shows
 * any (SPEC 4.8). Every visitor requests it, so it is cached for a minute.
 */
export function createLoginContexts({
  isSelfHosted,
  baseUrl,
  cachedMs = CACHED_MS,
}: {
  isSelfHosted: boolean;
  baseUrl: () => string;
  cachedMs?: number;
}): LoginContexts {
  let cached: { since: number; context: Promise<LoginContext> } | undefined;
  return {
    async read(ctx) {
      if (!isSelfHosted) return NOTHING;
      if (cached !== undefined && clock.monotonic() - cached.since < cachedMs) return cached.context;
      const entry = {
        since: clock.monotonic(),
        context: ctx.withSystem('read what the login page shows', (tx) => loginContext(tx, baseUrl())),
      };
      cached = entry;
      // A failure is not cached.
      entry.context.catch(() => {
        if (cached === entry) cached = undefined;
      });
      return entry.context;
    },
    forget() {
      cached = undefined;
    },
  };
}

async function loginContext(tx: Tx, baseUrl: string): Promise<LoginContext> {
  const [partner, ...others] = await Partner.query(tx)
    .where('status', 'active')
    .whereNull('deleted_at')
    .select('id')
    .limit(2);
  if (partner === undefined || others.length > 0) return NOTHING;
  const branding = await PartnerLoginBranding.query(tx).findById(partner.id);
  const provider = await activeProviderOf(tx, { partnerId: partner.id });
  return {
    branding: branding === undefined || isEmpty(branding) ? null : branding,
    partnerSso:
      provider === undefined
        ? null
        : {
            providerName: provider.name,
            loginUrl: `${baseUrl}${loginUrlOf(provider)}`,
            enforceSSO: provider.enforceSso,
          },
  };
}

const isEmpty = ({ logoUrl, accentColor, headline }: PartnerLoginBranding) =>
  logoUrl === null && accentColor === null && headline === null;
