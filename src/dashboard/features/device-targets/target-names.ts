import { useQueries, useQuery } from '@tanstack/react-query';
import { apiQuery, type DeviceTarget } from '../../api/index.ts';
import { useSites } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import { NAMED_MAX, type TargetNames } from './target-form.ts';

const STALE_MS = 60_000;
/** Devices whose names are read for all targets of a list. */
const DEVICES_MAX = 30;

/** The names of what targets name, as far as the person may read them and they are few enough to be shown. */
export function useTargetNames(targets: readonly DeviceTarget[]): TargetNames {
  const sites = useSites();
  const mayReadFilters = useRefusal('filters:read') === undefined;
  const mayReadDevices = useRefusal('devices:read') === undefined;
  const filters = useQuery({
    ...apiQuery('GET /filters'),
    enabled: mayReadFilters && targets.some(({ filterId }) => filterId != null),
    staleTime: STALE_MS,
  });
  const groups = useQuery({
    ...apiQuery('GET /groups', { query: { limit: '100' } }),
    enabled: mayReadDevices && targets.some(({ groupIds }) => groupIds != null),
    staleTime: STALE_MS,
  });
  const shown = targets.flatMap(({ deviceIds }) =>
    deviceIds == null || deviceIds.length > NAMED_MAX ? [] : deviceIds,
  );
  const devices = useQueries({
    queries: [...new Set(shown)].slice(0, DEVICES_MAX).map((id) => ({
      ...apiQuery('GET /devices/{id}', { params: { id } }),
      enabled: mayReadDevices,
      staleTime: STALE_MS,
    })),
  });
  return {
    filter: namesIn(filters.data?.data ?? []),
    group: namesIn(groups.data?.data ?? []),
    site: namesIn(sites),
    device: namesIn(
      devices.flatMap(({ data }) =>
        data === undefined ? [] : [{ id: data.id, name: data.displayName ?? data.hostname }],
      ),
    ),
  };
}

function namesIn(things: readonly { id: string; name: string }[]): (id: string) => string | undefined {
  const names = new Map(things.map(({ id, name }) => [id, name]));
  return (id) => names.get(id);
}
