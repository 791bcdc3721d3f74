import { z } from 'zod';
import type { Caller } from '../../platform/context.ts';

/** The channel on which the database announces changes of rights and tenants (migration 0037). */
export const ACCESS_CHANNEL = 'muster_access';

/** The announcement that a row has changed which decides about access. */
export const AccessChange = z.object({
  kind: z.enum(['person', 'session', 'role', 'api_key', 'partner', 'organization', 'agent']),
  id: z.uuid(),
  /** For an organization, the partner it belongs to. */
  partnerId: z.uuid().nullable(),
});
export type AccessChange = z.infer<typeof AccessChange>;

/** Parses an announcement. Returns `undefined` for one that this version does not know. */
export function readAccessChange(payload: string): AccessChange | undefined {
  try {
    return AccessChange.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}

/** What may change for a caller: the rights, or the devices within the same rights. */
export interface Concern {
  rights: boolean;
  devices: boolean;
}

const NONE: Concern = { rights: false, devices: false };
const RIGHTS: Concern = { rights: true, devices: false };
const DEVICES: Concern = { rights: true, devices: true };

export function concernOf({ kind, id, partnerId }: AccessChange, caller: Caller): Concern {
  switch (kind) {
    case 'person':
      return caller.userId === id ? RIGHTS : NONE;
    case 'session':
      return caller.sessionId === id ? RIGHTS : NONE;
    case 'role':
      return caller.roleId === id ? RIGHTS : NONE;
    case 'api_key':
      return caller.apiKeyId === id ? RIGHTS : NONE;
    case 'partner':
      if (caller.scope === 'partner') return caller.partnerId === id ? RIGHTS : NONE;
      // A caller of an organization does not say which partner that organization belongs to.
      return caller.scope === 'organization' ? RIGHTS : DEVICES;
    case 'organization':
      if (caller.scope === 'system' || caller.orgIds.includes(id)) return DEVICES;
      return caller.orgAccess === 'all' && caller.partnerId === partnerId ? DEVICES : NONE;
    case 'agent':
      return NONE;
    default:
      return kind satisfies never;
  }
}
