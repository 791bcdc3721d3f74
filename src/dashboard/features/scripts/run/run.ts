import { call } from '../../../api/index.ts';
import { outcomesOfCommands, type Run, startedOrRefused } from './outcome.ts';
import type { Given } from './variable.ts';

export interface Target {
  id: string;
  name: string;
}

export const DEVICES_MAX = 500;
const PAGE = 100;

const named = ({
  id,
  hostname,
  displayName,
}: {
  id: string;
  hostname: string;
  displayName: string | null;
}): Target => ({
  id,
  name: displayName ?? hostname,
});

interface List {
  data: { id: string; hostname: string; displayName: string | null }[];
  pagination: { total: number };
}

/** All devices of a list, or an error where a script cannot be run on so many at once. */
async function all(read: (query: { page: string; limit: string }) => Promise<List>): Promise<Target[]> {
  const found: Target[] = [];
  for (let page = 1; ; page++) {
    // The next page is needed only if this one is not the last.
    // oxlint-disable-next-line no-await-in-loop
    const { data, pagination } = await read({ page: String(page), limit: String(PAGE) });
    if (pagination.total > DEVICES_MAX) {
      throw new Error(
        `These are ${pagination.total} devices; a script runs on at most ${DEVICES_MAX} at once.`,
      );
    }
    found.push(...data.map(named));
    if (data.length === 0 || found.length >= pagination.total) return found;
  }
}

export const devicesOfGroup = (id: string): Promise<Target[]> =>
  all((query) => call('GET /groups/{id}/devices', { params: { id }, query: { ...query, sort: 'hostname' } }));

export const devicesOfFilter = (filterId: string): Promise<Target[]> =>
  all((query) => call('GET /devices', { query: { ...query, filterId, sort: 'hostname' } }));

/** Starts the script. The key makes a repeated click start it once. */
export async function start(
  script: { id: string; name: string },
  targets: readonly Target[],
  given: Given,
  idempotencyKey: string,
): Promise<Run> {
  const body = { deviceIds: targets.map(({ id }) => id), ...given };
  const started = await startedOrRefused(
    call('POST /scripts/{id}/execute', { params: { id: script.id }, body }, { idempotencyKey }),
  );
  const names = new Map(targets.map(({ id, name }) => [id, name]));
  return { title: script.name, outcomes: outcomesOfCommands(started, names) };
}
