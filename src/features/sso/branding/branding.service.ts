import type { Context } from '../../../platform/context.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { AppError } from '../../../platform/errors.ts';
import { assertActsForWholePartner } from '../../../platform/context.ts';
import { PartnerLoginBranding } from './branding.model.ts';
import type { LoginBrandingInput } from './branding.schema.ts';

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
