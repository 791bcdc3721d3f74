import {
  CHAIN_PARTS_MAX,
  type DatabaseBackupType,
  type DatabaseDetails,
  type DatabaseEngine,
} from '../../../protocol/index.ts';
import { type ChainSnapshot, linkUp, pathTo } from './chains.ts';

/** What the next backup of a database has to be. */

const DAY_MS = 86_400_000;
/** Beyond that, a restore takes long, and one lost log loses much. */
const LOGS_MAX = CHAIN_PARTS_MAX / 2;

export interface TypeSituation {
  /** Those of the repository that are there. */
  snapshots: readonly ChainSnapshot[];
  /** What a person has asked for. */
  wanted: DatabaseBackupType | null;
  /** Since the newest snapshot a device has found that the log no longer reaches back to it. */
  isChainBroken: boolean;
  now: Date;
}

export type TypeDecision =
  | {
      backupType: DatabaseBackupType;
      /** Why, for a person. */
      reason: string;
      full: DatabaseDetails | null;
      /** What a log continues. */
      previous: DatabaseDetails | null;
    }
  | { refusal: string };

/** What decides, whatever engine it is. */
export interface TypeSources {
  engine: DatabaseEngine;
  instance?: string | undefined;
  /** Of engines whose databases have chains of their own. */
  database?: string | undefined;
  fullEveryDays: number;
  between: DatabaseBackupType | 'none';
}

export function decideType(
  sources: TypeSources,
  { snapshots, wanted, isChainBroken, now }: TypeSituation,
): TypeDecision {
  const { engine, instance, database, fullEveryDays, between } = sources;
  const own = snapshots.filter(
    ({ details }) =>
      details.engine === engine &&
      (instance === undefined || details.instance === instance) &&
      (database === undefined || details.databases[0] === database),
  );
  const linked = linkUp(own);
  const full = linked.links
    .filter(({ snapshot }) => snapshot.details.backupType === 'full')
    .sort((a, b) => b.snapshot.receivedAt.getTime() - a.snapshot.receivedAt.getTime())[0];
  const asFull = (reason: string): TypeDecision => ({
    backupType: 'full',
    reason,
    full: null,
    previous: null,
  });
  if (wanted === 'full') return asFull('It was asked for.');
  const unsupported = wanted === null ? undefined : unsupportedType(engine, wanted);
  if (unsupported !== undefined) return { refusal: unsupported };
  const type = wanted ?? (between === 'none' ? 'full' : between);
  if (type === 'full') return asFull('The configuration makes full backups only.');
  if (full === undefined) {
    return wanted === null
      ? asFull('There is no full backup yet.')
      : { refusal: `A ${type} backup needs a full one, and there is none.` };
  }
  if (isChainBroken) {
    return wanted === null
      ? asFull('The chain is broken: the server of the database no longer had the log that continues it.')
      : { refusal: `A ${type} backup cannot be made: the chain is broken. Make a full backup.` };
  }
  if (wanted === null && now.getTime() - full.snapshot.receivedAt.getTime() >= fullEveryDays * DAY_MS) {
    return asFull(`The last full backup is ${fullEveryDays} days old or older.`);
  }
  const chain = linked.links.filter((link) => pathTo(linked, link)[0] === full);
  const logs = chain.filter(({ snapshot }) => snapshot.details.backupType === 'log').length;
  if (wanted === null && logs >= LOGS_MAX) return asFull(`The chain has ${logs} logs.`);
  return {
    backupType: type,
    reason: wanted === null ? `The chain goes on: it has ${chain.length} backups.` : 'It was asked for.',
    full: full.snapshot.details,
    previous: type === 'log' ? (chain.at(-1)?.snapshot.details ?? null) : null,
  };
}

/** Why an engine has no backups of a type; `undefined`: it has. */
export function unsupportedType(engine: DatabaseEngine, type: DatabaseBackupType): string | undefined {
  if (engine === 'mariadb' && type === 'log') {
    return 'MariaDB has no log backups here: use differential ones, or full ones only.';
  }
  if (engine === 'postgresql' && type === 'differential') {
    return 'PostgreSQL has no differential backups here: use logs, which are as small, or full ones only.';
  }
  return undefined;
}
