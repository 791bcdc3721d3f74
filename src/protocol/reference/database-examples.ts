import type { CommandPayload, DatabaseDetails, DatabaseInstance } from '../commands/index.ts';

const DATABASE = {
  kind: 'database',
  engine: 'postgresql',
  instance: '/var/run/postgresql/.s.PGSQL.5432',
  version: '15.8',
  branch: '7391465298457210913/1',
  basedOn: null,
} as const;

const FULL_DETAILS: DatabaseDetails = {
  ...DATABASE,
  databases: ['postgres', 'shop'],
  backupType: 'full',
  from: '0/2000028',
  to: '0/2000100',
  recoverableFrom: '2026-11-21T22:00:41.120Z',
  recoverableTo: '2026-11-21T22:00:39.004Z',
  logsHeldBy: 'nobody',
};
const LOG_DETAILS: DatabaseDetails = {
  ...DATABASE,
  databases: ['postgres', 'shop'],
  backupType: 'log',
  from: '0/2000000',
  to: '0/5000000',
  recoverableFrom: null,
  recoverableTo: '2026-11-21T23:00:02.518Z',
  logsHeldBy: 'nobody',
};

const FULL_ID = '5f2c6d0e8a1b4c3d9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d';
const LOG_ID = '6a2c6d0e8a1b4c3d9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d';

const INSTANCE: DatabaseInstance = {
  engine: DATABASE.engine,
  instance: DATABASE.instance,
  version: DATABASE.version,
  port: 5432,
  dataFolder: '/var/lib/postgresql/15/main',
  databases: [{ name: 'shop', sizeBytes: 73_400_320 }],
  problems: [],
};

type Shared = 'jobId' | 'restoreId' | 'repository' | 'host' | 'chainId' | 'timeoutSeconds';
const ORDER: Omit<CommandPayload<'backup.database'>, Shared> = {
  engine: DATABASE.engine,
  instance: DATABASE.instance,
  backupType: 'log',
  full: FULL_DETAILS,
  previous: FULL_DETAILS,
};
const RESTORE: Omit<CommandPayload<'backup.database-restore'>, Shared> = {
  engine: DATABASE.engine,
  instance: DATABASE.instance,
  version: DATABASE.version,
  branch: DATABASE.branch,
  parts: [
    {
      snapshotId: FULL_ID,
      backupType: 'full',
      from: FULL_DETAILS.from,
      to: FULL_DETAILS.to,
      sizeBytes: 73_400_320,
    },
    {
      snapshotId: LOG_ID,
      backupType: 'log',
      from: LOG_DETAILS.from,
      to: LOG_DETAILS.to,
      sizeBytes: 50_331_648,
    },
  ],
  targetPath: '/var/lib/postgresql/restored',
  pointInTime: '2026-11-21T22:41:00.000Z',
  noRecovery: false,
};

/** Examples of the commands of databases, without what all backups have. */
export const DATABASE_PARTS = {
  instance: INSTANCE,
  order: ORDER,
  made: { snapshotId: LOG_ID, details: LOG_DETAILS },
  restore: RESTORE,
};
