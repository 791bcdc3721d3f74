import type { Context } from '../../../platform/context.ts';
import { readOrganization } from '../../organizations/index.ts';
import { effectiveSettings, parseStored } from './effective-settings.ts';
import type { EffectiveSettings } from './target.schema.ts';

/** The settings that count for an organization that the caller can see. */
export async function readAgentUpdates(ctx: Context, orgId: string): Promise<EffectiveSettings> {
  const organization = await readOrganization(ctx, orgId);
  return effectiveSettings({
    organization: parseStored(organization.settings.agentUpdates),
    partner: parseStored(await ofPartner(ctx, organization.partnerId)),
  });
}

/** Members of an organization cannot read its partner's record, so a function of the database hands out this part of it. */
async function ofPartner({ tx }: Context, partnerId: string): Promise<unknown> {
  const row = await tx
    .select<{ settings: unknown }[]>(
      tx.raw(
        `coalesce(
          (select p.settings -> 'agentUpdates' from partners p where p.id = :partnerId),
          partner_agent_updates(:partnerId)) as settings`,
        { partnerId },
      ),
    )
    .first();
  return row?.settings;
}
