import { type Context, assertActsForWholePartner, type PublicContext } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError } from '../../platform/errors.ts';
import { PartnerLoginBranding, loginUrlOf } from './sso.model.ts';
import type { LoginBrandingInput, LoginContext } from './branding.schema.ts';
import { clock } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { Partner } from '../partners/index.ts';
import { activeProviderOf } from './sso.queries.ts';

export async function readBranding(ctx: Context) {
  const branding = await PartnerLoginBranding.query(ctx.tx).findById(ownPartnerId(ctx));
  return branding ?? { logoUrl: null, accentColor: null, headline: null, updatedAt: null };
}

export async function replaceBranding(
  ctx: Context,
  input: LoginBrandingInput,
  { changed }: { changed: () => void },
): Promise<PartnerLoginBranding> {
  const partnerId = ownPartnerId(ctx);
  assertActsForWholePartner(ctx.caller, 'change the login page of the partner');
  await PartnerLoginBranding.query(ctx.tx).insert({ partnerId }).onConflict('partner_id').ignore();
  const branding = await PartnerLoginBranding.query(ctx.tx)
    .findById(partnerId)
    .forNoKeyUpdate()
    .throwIfNotFound();
  ctx.afterCommit(changed);
  const { logoUrl = null, accentColor = null, headline = null } = input;
  return patchRecorded(ctx, branding, { logoUrl, accentColor, headline });
}

function ownPartnerId({ caller: { partnerId } }: Context): string {
  if (partnerId === null) throw new AppError('forbidden', 'This needs partner scope.');
  return partnerId;
}

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
