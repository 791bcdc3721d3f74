import { clock } from '../../../clock.ts';
import { COMMANDS } from '../../../protocol/index.ts';
import { betweenOf, type DatabaseSources } from '../configs/sources.schema.ts';
import { readChainState } from '../databases/chain-state.ts';
import { decideType } from '../databases/decide-type.ts';
import { defineSource } from './source-work.ts';

const Named = COMMANDS['backup.database'].payload.pick({ engine: true, instance: true, databases: true });

/** As snapshots show what was backed up, for all engines. */
export function pathsOfDatabase(payload: unknown): string[] {
  const { engine, instance, databases = [] } = Named.catch({ engine: 'postgresql' }).parse(payload);
  return [[engine, instance, ...databases].filter((word) => word !== undefined).join(' ')];
}

const typed = (sources: DatabaseSources) => ({ ...sources, between: betweenOf(sources) });

/** Backups of the servers of databases (docs/decisions/backup-databases.md). */
export const database = defineSource('database', {
  command: 'backup.database',
  backupType: 'database',
  systems: () => ['linux'],
  refusal: (osType) => `Databases of this engine are not backed up on ${osType}.`,
  async toCommand(tx, { sources, repositoryId, wantedType, shared }) {
    const state = await readChainState(tx, repositoryId);
    const wanted = { ...state, wanted: wantedType, now: clock.date() };
    const decided = decideType(typed(sources), wanted);
    if ('refusal' in decided) return { refusal: { code: 'BACKUP_TYPE_REFUSED', message: decided.refusal } };
    const { backupType, reason, full, previous } = decided;
    // A log continues the instance that it is of, also where the configuration names none.
    const instance = sources.instance ?? full?.instance;
    return {
      type: 'backup.database',
      payload: {
        ...shared,
        engine: sources.engine,
        ...(instance === undefined ? {} : { instance }),
        backupType,
        chainId: repositoryId,
        full,
        previous,
      },
      chosen: { backupType, typeReason: reason },
    };
  },
  async typeRefusal(tx, { sources, repositoryId, wanted }) {
    const state =
      repositoryId === undefined
        ? { snapshots: [], isChainBroken: false }
        : await readChainState(tx, repositoryId);
    const decided = decideType(typed(sources), { ...state, wanted, now: clock.date() });
    return 'refusal' in decided ? decided.refusal : undefined;
  },
  pathsOf: pathsOfDatabase,
});
