import type {
  CommandType,
  SHADOW_COPY_COMMANDS,
  SQL_SERVER_COMMANDS,
  SqlBackupSet,
} from '../commands/index.ts';
import { type CommandExample, PURPOSE_ID } from './command-example.ts';

type WindowsCommand = (keyof typeof SHADOW_COPY_COMMANDS | keyof typeof SQL_SERVER_COMMANDS) & CommandType;

const FILE = String.raw`D:\Backups\muster-20261122T022252Z-full-1f2e3d4c.bak`;
const SET: SqlBackupSet = {
  id: 4711,
  uuid: '7c6d5e4f-3a2b-4c1d-8e9f-0a1b2c3d4e5f',
  backupType: 'full',
  firstLsn: '45000000012300037',
  lastLsn: '45000000014400001',
  isCopyOnly: false,
  isDamaged: false,
  fork: '0c6d5e4f-3a2b-4c1d-8e9f-0a1b2c3d4e5f',
  differentialBase: null,
  finishedAt: '2026-11-22T02:22:52',
  sizeBytes: 1_073_741_824,
  file: FILE,
};
const SQL = { instance: 'MSSQLSERVER', timeoutSeconds: 86_400 };

export const WINDOWS_EXAMPLES: { [T in WindowsCommand]: CommandExample<T> } = {
  'backup.mssql-history': {
    summary: 'Lists the backups of a database that SQL Server knows.',
    payload: { instance: 'MSSQLSERVER', database: 'sales' },
    output: { sets: [SET], recoveryModel: 'FULL' },
  },
  'backup.mssql-backup': {
    summary: 'Has SQL Server write a backup of a database into a new file.',
    payload: {
      ...SQL,
      database: 'sales',
      backupType: 'full',
      copyOnly: false,
      outputPath: String.raw`D:\Backups`,
    },
    output: { file: FILE, set: SET, seconds: 41.5 },
  },
  'backup.mssql-restore': {
    summary: 'Has SQL Server restore a database from a file.',
    payload: {
      ...SQL,
      restoreId: PURPOSE_ID,
      backupFile: FILE,
      backupType: 'full',
      targetDatabase: 'sales restored',
      noRecovery: false,
    },
    output: { database: 'sales restored', state: 'ONLINE', seconds: 52.5 },
  },
  'backup.vss-status': {
    summary: 'Lists the shadow copy writers and providers of Windows.',
    payload: {},
    output: {
      status: 'ready',
      writers: [
        {
          name: 'SqlServerWriter',
          writerId: 'a65faa63-5ea8-4ebc-9dbd-a0c4db26912a',
          instanceId: '1bddd48e-5052-49db-9b07-b96f96727e6b',
          state: 1,
          status: 'stable',
          lastError: 'No error',
        },
      ],
      providers: [
        {
          name: 'Microsoft Software Shadow Copy provider 1.0',
          providerId: 'b5946137-7b9f-4925-af80-51abd60b20d5',
          type: 'System',
          version: '1.0.0.7',
        },
      ],
    },
  },
};
