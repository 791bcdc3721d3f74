import { z } from 'zod';

/** The channel on which the database announces what decides about upgrades (migrations 0062 and 0063). */
export const UPGRADES_CHANNEL = 'muster_upgrades';

const Notice = z.object({
  kind: z.enum(['organization', 'partner', 'releases', 'rollout', 'device']),
  id: z.uuid().nullable(),
});

/** What has to be read again. */
export interface Outdated {
  everything: boolean;
  organizations: Set<string>;
  partners: Set<string>;
  releases: boolean;
  rollouts: boolean;
  devices: Set<string>;
}

export const nothingOutdated = (): Outdated => ({
  everything: false,
  organizations: new Set(),
  partners: new Set(),
  releases: false,
  rollouts: false,
  devices: new Set(),
});

/** A notice that cannot be understood, such as one of a later release, may be about anything. */
export function note(outdated: Outdated, payload: string): void {
  const notice = parse(payload);
  if (notice === undefined) {
    outdated.everything = true;
    return;
  }
  const { kind, id } = notice;
  if (kind === 'releases') outdated.releases = true;
  else if (kind === 'rollout') outdated.rollouts = true;
  else if (id === null) outdated.everything = true;
  else if (kind === 'organization') outdated.organizations.add(id);
  else if (kind === 'partner') outdated.partners.add(id);
  else outdated.devices.add(id);
}

function parse(payload: string): z.infer<typeof Notice> | undefined {
  try {
    return Notice.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}
