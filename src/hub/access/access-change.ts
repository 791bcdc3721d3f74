import { z } from 'zod';
import type { Caller } from '../../platform/context.ts';

/** The channel on which the database announces them (migration 0037). */
export const ACCESS_CHANNEL = 'muster_access';

/** A row that decides who may do what has changed, as the database announces it. */
export const AccessChange = z.object({
  kind: z.enum(['person', 'session', 'role', 'api_key', 'partner', 'organization', 'agent']),
  id: z.uuid(),
  /** Of an organization: whose it is. */
  partnerId: z.uuid().nullable(),
});
export type AccessChange = z.infer<typeof AccessChange>;

/** The change in a payload; `undefined` where it is none that this version knows. */
export function readAccessChange(payload: string): AccessChange | undefined {
  try {
    return AccessChange.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}

/** What a change may mean for somebody: other rights, or other devices within the same rights. */
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
      // Of somebody of an organization it is not known here whose organization that is.
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
