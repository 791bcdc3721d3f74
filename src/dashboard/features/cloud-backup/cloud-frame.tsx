import { useQuery } from '@tanstack/react-query';
import { apiQuery, type CloudBackupConfig, type CloudConnection } from '../../../api/index.ts';

/** Names beside the ids that the API gives. An organization has at most 100 configurations and 20 connections. */

const limit = '100';
const STALE_MS = 30_000;
const NONE: never[] = [];

export const useCloudConfigs = (orgId: string | undefined) =>
  useQuery({ ...apiQuery('GET /c2c/configs', { query: { orgId, limit } }), staleTime: STALE_MS });

export const useCloudConnections = (orgId: string | undefined) =>
  useQuery({ ...apiQuery('GET /c2c/connections', { query: { orgId, limit } }), staleTime: STALE_MS });

/** The name of a configuration; one that was deleted has none. */
export function useConfigName(orgId: string | undefined): (id: string) => string {
  const { data } = useCloudConfigs(orgId);
  return nameIn<CloudBackupConfig>(data?.data, ({ name }) => name, 'Deleted configuration');
}

export function useConnectionName(orgId: string | undefined): (id: string) => string {
  const { data } = useCloudConnections(orgId);
  return nameIn<CloudConnection>(data?.data, ({ displayName }) => displayName, 'Deleted connection');
}

function nameIn<T extends { id: string }>(
  all: readonly T[] | undefined,
  nameOf: (one: T) => string,
  missing: string,
): (id: string) => string {
  const names = new Map((all ?? NONE).map((one) => [one.id, nameOf(one)]));
  return (id) => names.get(id) ?? (all === undefined ? '…' : missing);
}
