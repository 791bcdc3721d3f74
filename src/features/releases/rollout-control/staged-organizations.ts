import type { Tx } from '../../../platform/db/transaction.ts';
import { effectiveSettings, parseStored } from '../targets/effective-settings.ts';
import type { EffectiveSettings, PinnedComponent } from '../targets/target.schema.ts';

/** Organizations whose devices are upgraded alike: they differ in nothing that decides about a component. */
export interface SettingsClass {
  settings: EffectiveSettings;
  orgIds: string[];
}

/**
 * The organizations that take part in rollouts, which are those with the policy `staged`. There are as many classes as
 * there are different pins and windows, so that devices can be counted by class instead of one by one.
 */
export async function stagedOrganizations(tx: Tx, component: PinnedComponent): Promise<SettingsClass[]> {
  const { rows } = await tx.raw<{ rows: StoredSettings[] }>(
    `select o.id as "orgId", o.settings -> 'agentUpdates' as organization, p.settings -> 'agentUpdates' as partner
    from organizations o join partners p on p.id = o.partner_id
    where o.deleted_at is null and p.deleted_at is null
      and 'staged' in (o.settings #>> '{agentUpdates,policy}', p.settings #>> '{agentUpdates,policy}')`,
  );
  const classes = new Map<string, SettingsClass>();
  for (const { orgId, organization, partner } of rows) {
    const settings = effectiveSettings({
      organization: parseStored(organization),
      partner: parseStored(partner),
    });
    if (settings.policy.value !== 'staged') continue;
    const key = JSON.stringify([settings.pins[component].value, settings.maintenanceWindow.value]);
    const alike = classes.get(key);
    if (alike === undefined) classes.set(key, { settings, orgIds: [orgId] });
    else alike.orgIds.push(orgId);
  }
  return [...classes.values()];
}

interface StoredSettings {
  orgId: string;
  organization: unknown;
  partner: unknown;
}
