import type { DeviceTarget } from '../../api/routes.ts';

/** The devices that something is about, in the fields of a form and in words. Pure. */

export const TARGETS = [
  { value: 'all', label: 'All devices' },
  { value: 'filter', label: 'The devices that a filter finds' },
  { value: 'groups', label: 'The devices of groups' },
  { value: 'sites', label: 'The devices at sites' },
  { value: 'devices', label: 'Single devices' },
] as const;

export interface TargetForm {
  target: (typeof TARGETS)[number]['value'];
  filterId: string | undefined;
  groupIds: string[];
  siteIds: string[];
  deviceIds: string[];
}

/** What no longer fits when the form is about another organization. */
export const NO_TARGET = { filterId: undefined, groupIds: [], siteIds: [], deviceIds: [] };

export function targetFormOf(target: DeviceTarget | undefined): TargetForm {
  const { filterId, groupIds, siteIds, deviceIds } = target ?? {};
  const kind =
    filterId != null
      ? 'filter'
      : groupIds != null
        ? 'groups'
        : siteIds != null
          ? 'sites'
          : deviceIds != null
            ? 'devices'
            : 'all';
  return {
    target: kind,
    filterId: filterId ?? undefined,
    groupIds: [...(groupIds ?? [])],
    siteIds: [...(siteIds ?? [])],
    deviceIds: [...(deviceIds ?? [])],
  };
}

export function targetOf({ target, filterId = '', groupIds, siteIds, deviceIds }: TargetForm): DeviceTarget {
  switch (target) {
    case 'all':
      return { all: true };
    case 'filter':
      return { filterId };
    case 'groups':
      return { groupIds };
    case 'sites':
      return { siteIds };
    case 'devices':
      return { deviceIds };
    default:
      return target satisfies never;
  }
}

/** Names by id, as far as they are known. */
export type TargetNames = Record<'filter' | 'group' | 'site' | 'device', (id: string) => string | undefined>;

/** So many names are written out; of more, how many there are. */
export const NAMED_MAX = 3;

const and = new Intl.ListFormat('en-GB', { type: 'conjunction' });

/** "All devices", "Filter “Servers”", "Sites Graz and Vienna", "12 devices". */
export function targetText(
  { filterId, groupIds, siteIds, deviceIds }: DeviceTarget,
  names?: TargetNames,
): string {
  if (filterId != null) {
    const name = names?.filter(filterId);
    return name === undefined ? 'By a filter' : `Filter “${name}”`;
  }
  if (groupIds != null) return listText('group', groupIds, names?.group);
  if (siteIds != null) return listText('site', siteIds, names?.site);
  if (deviceIds != null) return listText('device', deviceIds, names?.device);
  return 'All devices';
}

function listText(
  noun: string,
  ids: readonly string[],
  nameOf: ((id: string) => string | undefined) | undefined,
): string {
  const plural = `${noun}${ids.length === 1 ? '' : 's'}`;
  const known = ids.length > NAMED_MAX ? [] : ids.flatMap((id) => nameOf?.(id) ?? []);
  return known.length < ids.length
    ? `${ids.length} ${plural}`
    : `${plural.charAt(0).toUpperCase()}${plural.slice(1)} ${and.format(known)}`;
}
