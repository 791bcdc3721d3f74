import { useQuery } from '@tanstack/react-query';
import { apiQuery, type BackupDatabaseInstance } from '../../../../api/index.ts';

const NONE: never[] = [];

/** The database servers of an engine that devices of an organization have named, to choose from. */
export function useInstances(
  orgId: string | undefined,
  engine: BackupDatabaseInstance['engine'],
): readonly BackupDatabaseInstance[] {
  const found = useQuery({
    ...apiQuery('GET /backup/databases/instances', { query: { orgId, engine, limit: '100' } }),
    enabled: orgId !== undefined,
  });
  return found.data?.data ?? NONE;
}
