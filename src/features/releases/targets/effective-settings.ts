import { AgentUpdateSettings } from '../../partners/index.ts';
import type { EffectiveSettings, Level, PinnedComponent } from './target.schema.ts';

/** Which settings count for the devices of an organization, and which level each of them came from (SPEC 9.8, 9.9). */

interface OwnSettings {
  organization: AgentUpdateSettings;
  partner: AgentUpdateSettings;
}

export function effectiveSettings({ organization, partner }: OwnSettings): EffectiveSettings {
  // The organization's pin comes first, the partner's policy and window do.
  const pin = (component: PinnedComponent) =>
    firstSet(
      [
        { value: organization.pins?.[component], level: 'organization' },
        { value: partner.pins?.[component], level: 'partner' },
      ],
      'latest',
    );
  const locked = <K extends 'policy' | 'maintenanceWindow'>(field: K) => [
    { value: partner[field], level: 'partner' as const },
    { value: organization[field], level: 'organization' as const },
  ];
  return {
    pins: { agent: pin('agent'), watchdog: pin('watchdog') },
    policy: firstSet(locked('policy'), 'auto'),
    maintenanceWindow: firstSet(locked('maintenanceWindow'), null),
  };
}

function firstSet<T, D>(
  candidates: readonly { value: T | null | undefined; level: Level }[],
  byDefault: D,
): { value: T | D; level: Level } {
  for (const { value, level } of candidates) {
    if (value !== undefined && value !== null) return { value, level };
  }
  return { value: byDefault, level: 'default' };
}

/**
 * Reads `agentUpdates` as it is stored. An organization's settings were free-form JSON before this schema; a value from
 * then that the schema refuses counts as the policy `manual`, so that nothing is upgraded on a guess.
 */
export function parseStored(stored: unknown): AgentUpdateSettings {
  if (stored === undefined || stored === null) return {};
  const parsed = AgentUpdateSettings.safeParse(stored);
  return parsed.success ? parsed.data : { policy: 'manual' };
}
