import { clock } from '../../../clock.ts';
import { readChainState } from '../databases/chain-state.ts';
import { decideType } from '../databases/decide-type.ts';
import { pathsOfDatabase } from './database.ts';
import { defineSource } from './source-work.ts';

const NOTHING = { snapshots: [], isChainBroken: false };

/** Backups of single databases of SQL Server into the repository (docs/decisions/windows-backups.md). */
export const mssql = defineSource('mssql', {
  command: 'backup.database',
  backupType: 'database',
  systems: () => ['windows'],
  refusal: (osType) => `SQL Server is backed up on Windows, and not on ${osType}.`,
  async toCommand(tx, { sources, repositoryId, wantedType, shared }) {
    const state = await readChainState(tx, repositoryId);
    const wanted = { ...state, wanted: wantedType, now: clock.date() };
    const decided = decideType({ ...sources, engine: 'mssql' }, wanted);
    if ('refusal' in decided) return { refusal: { code: 'BACKUP_TYPE_REFUSED', message: decided.refusal } };
    const { backupType, reason, full, previous } = decided;
    const { instance, database, spoolPath } = sources;
    return {
      type: 'backup.database',
      payload: {
        ...shared,
        engine: 'mssql',
        instance,
        databases: [database],
        spoolPath,
        backupType,
        chainId: repositoryId,
        full,
        previous,
      },
      chosen: { backupType, typeReason: reason },
    };
  },
  async typeRefusal(tx, { sources, repositoryId, wanted }) {
    const state = repositoryId === undefined ? NOTHING : await readChainState(tx, repositoryId);
    const decided = decideType({ ...sources, engine: 'mssql' }, { ...state, wanted, now: clock.date() });
    return 'refusal' in decided ? decided.refusal : undefined;
  },
  pathsOf: pathsOfDatabase,
});
