import { z } from 'zod';
import { type Api, apiOf, Refused } from './api.ts';
import { matchingDevices, pagesOf } from './devices.ts';
import { devicesNamed, filterIdOf, filtersNamed, groupsNamed, theOne } from './names.ts';
import { EXIT, type Profile, RemoteFailure } from './profiles.ts';

/** The devices that a command acts on. */

export interface Target {
  id: string;
  hostname: string;
  orgId: string;
  status: string;
}

/** What the user has named: devices, groups and filters, and conditions. A device that is meant twice is taken once. */
export async function targetsOf(
  profile: Profile,
  names: readonly string[],
  conditions: unknown,
): Promise<Target[]> {
  if (names.length === 0 && conditions === undefined) {
    throw new RemoteFailure(
      EXIT.failed,
      'Name devices, group:<name> or filter:<name>, or give conditions with --where or --conditions.',
    );
  }
  const api = apiOf(profile);
  const found = new Map<string, Target>();
  for (const name of names) {
    for (const target of await devicesOf(api, name)) found.set(target.id, target);
  }
  if (conditions !== undefined) {
    for (const target of await devicesByConditions(profile, conditions)) found.set(target.id, target);
  }
  if (found.size === 0) throw new RemoteFailure(EXIT.failed, 'No device matches.');
  return [...found.values()]
    .map(({ id, hostname, orgId, status }) => ({ id, hostname, orgId, status }))
    .sort((one, other) => (one.hostname < other.hostname ? -1 : 1));
}

async function devicesByConditions(profile: Profile, conditions: unknown): Promise<Target[]> {
  const { connectToHub } = await import('./hub-connection.ts');
  const hub = await connectToHub(profile);
  try {
    return await matchingDevices(hub, { conditions });
  } finally {
    hub.close();
  }
}

const KINDS = z.enum(['device', 'group', 'filter']);
type Kind = z.infer<typeof KINDS>;

/**
 * A name without a kind is a device if there is one of that name, which is the least that can be meant; a group or a
 * filter otherwise. What could be either is refused.
 */
async function devicesOf(api: Api, text: string): Promise<Target[]> {
  const colon = text.indexOf(':');
  const kind = KINDS.safeParse(text.slice(0, Math.max(0, colon)));
  if (kind.success) return devicesOfKind(api, kind.data, text.slice(colon + 1));
  const devices = await devicesNamed(api, text);
  if (devices.length > 0) return [theOne('device', text, devices)];
  const [groups, filters] = await Promise.all([
    unlessForbidden(groupsNamed(api, text)),
    unlessForbidden(filtersNamed(api, text)),
  ]);
  if (groups.length > 0 && filters.length > 0) {
    throw new RemoteFailure(
      EXIT.failed,
      `${text} is a group and a filter. Write group:${text} or filter:${text}.`,
    );
  }
  if (groups.length > 0) return membersOf(api, { group: theOne('group', text, groups).id });
  if (filters.length > 0) return membersOf(api, { filter: theOne('filter', text, filters).id });
  throw new RemoteFailure(EXIT.failed, `There is no device, group or filter ${text} that you may see.`);
}

async function devicesOfKind(api: Api, kind: Kind, name: string): Promise<Target[]> {
  switch (kind) {
    case 'device':
      return [theOne(kind, name, await devicesNamed(api, name))];
    case 'group':
      return membersOf(api, { group: theOne(kind, name, await groupsNamed(api, name)).id });
    case 'filter':
      return membersOf(api, { filter: await filterIdOf(api, name) });
    default:
      return kind satisfies never;
  }
}

async function membersOf(api: Api, narrowing: { group: string } | { filter: string }): Promise<Target[]> {
  const members: Target[] = [];
  for await (const page of pagesOf(api, narrowing)) members.push(...page);
  return members;
}

/** A key that may not read filters may still name devices and groups. */
async function unlessForbidden<T>(asked: Promise<T[]>): Promise<T[]> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && error.code === 'FORBIDDEN') return [];
    throw error;
  }
}
