import type {
  CommandPayload,
  DatabaseDetails,
  DatabaseInstance,
  CommandOutput,
  CommandType,
  Machine,
  MACHINE_COMMANDS,
  ImageDetails,
  VM_RESTORE_COMMANDS,
  SHADOW_COPY_COMMANDS,
  SQL_SERVER_COMMANDS,
  SqlBackupSet,
} from '../commands/index.ts';

/** Building blocks of the command examples. */

export interface CommandExample<T extends CommandType> {
  summary: string;
  payload: CommandPayload<T>;
  output: CommandOutput<T>;
}

export const SNAPSHOT_ID = '5f2c6d0e8a1b4c3d9e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d';
export const REPOSITORY = {
  destination: {
    type: 'server',
    path: '/backup-store/01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f9e/',
    user: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f90',
    secret: { secretRef: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f91' },
  },
  password: { secretRef: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f92' },
} as const;
export const PURPOSE_ID = '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93';

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

/** Examples of the database commands, without the fields that all backups share. */
export const DATABASE_PARTS = {
  instance: INSTANCE,
  order: ORDER,
  made: { snapshotId: LOG_ID, details: LOG_DETAILS },
  restore: RESTORE,
};

const MACHINE: Machine = {
  id: '2f3a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b',
  name: 'files-01',
  state: 'running',
  bootMode: 'uefi',
  generation: 2,
  memoryBytes: 4_294_967_296,
  processors: 2,
  disks: [{ path: String.raw`D:\VMs\files-01\system.vhdx`, sizeBytes: 21_474_836_480, isPassthrough: false }],
  tracksChanges: null,
  checkpoints: [],
};

const target = { hypervisor: 'hyperv', machineId: MACHINE.id, timeoutSeconds: 600 } as const;

export const MACHINE_EXAMPLES: {
  [T in keyof typeof MACHINE_COMMANDS & CommandType]: CommandExample<T>;
} = {
  'backup.vm-list': {
    summary: 'Lists the guests of a hypervisor on the device.',
    payload: { hypervisor: 'hyperv' },
    output: { machines: [MACHINE], truncated: false },
  },
  'backup.vm-checkpoint': {
    summary: 'Makes, deletes or applies a checkpoint of a guest.',
    payload: { ...target, action: 'create', checkpointName: 'Before the update' },
    output: { machine: MACHINE },
  },
  'backup.vm-state': {
    summary: 'Starts, stops, pauses, resumes or saves a guest.',
    payload: { ...target, state: 'stop' },
    output: { machine: { ...MACHINE, state: 'off' } },
  },
  'backup.vm-export': {
    summary: 'Exports a guest into a folder of the device. The files stay there.',
    payload: { ...target, exportPath: String.raw`E:\Exports`, consistency: 'application' },
    output: {
      folder: String.raw`E:\Exports\files-01`,
      consistency: 'application',
      bytes: 21_474_836_480,
      seconds: 310.5,
    },
  },
  'backup.machine': {
    summary: 'Backs up guests of a hypervisor into a repository, as one snapshot.',
    payload: {
      jobId: PURPOSE_ID,
      repository: REPOSITORY,
      host: 'hyperv-01',
      hypervisor: 'hyperv',
      machines: 'all',
      consistency: 'application',
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      snapshotId: SNAPSHOT_ID,
      filesNew: 4,
      filesChanged: 0,
      filesUnmodified: 0,
      bytesProcessed: 21_474_836_480,
      bytesAdded: 1_073_741_824,
      seconds: 310.5,
      unreadable: { count: 0, paths: [] },
    },
  },
  'backup.vm-restore': {
    summary: 'Restores a guest of a snapshot as a machine of the hypervisor.',
    payload: {
      restoreId: PURPOSE_ID,
      repository: REPOSITORY,
      snapshotId: SNAPSHOT_ID,
      hypervisor: 'hyperv',
      machine: 'files-01',
      vmName: 'files-01 restored',
      generateNewId: true,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      targetPath: String.raw`D:\VMs\files-01 restored`,
      filesRestored: 4,
      bytesRestored: 21_474_836_480,
      filesSkipped: 0,
      seconds: 290.5,
      failed: { count: 0, paths: [] },
      machineId: '7c6d5e4f-3a2b-4c1d-8e9f-0a1b2c3d4e5f',
      vmName: 'files-01 restored',
    },
  },
};

const IMAGE: ImageDetails = {
  kind: 'image',
  source: 'disk',
  machine: 'web-01',
  disks: [{ name: 'sda', sizeBytes: 21_474_836_480, offset: 4096, sectorBytes: 512 }],
  bootMode: 'uefi',
  consistency: 'filesystem',
  memoryBytes: 4_294_967_296,
  processors: 2,
  system: 'Debian GNU/Linux 12',
};

const wanted = {
  restoreId: PURPOSE_ID,
  repository: REPOSITORY,
  snapshotId: SNAPSHOT_ID,
  image: IMAGE,
  vmName: 'web-01 restored',
  memoryMb: 4096,
  cpuCount: 2,
  network: { type: 'user', isIsolated: true, forwards: [443] },
} as const;

const access = {
  folder: `/var/lib/muster-agent/machines/${PURPOSE_ID}`,
  console: `/var/lib/muster-agent/machines/${PURPOSE_ID}/console.sock`,
  forwards: [{ hostPort: 40_443, guestPort: 443 }],
};

export const VM_RESTORE_EXAMPLES: {
  [T in keyof typeof VM_RESTORE_COMMANDS & CommandType]: CommandExample<T>;
} = {
  'backup.vm-from-image': {
    summary: 'Creates a virtual machine with its own disks from the snapshot of a machine.',
    payload: {
      ...wanted,
      network: { type: 'user', isIsolated: true, forwards: [443] },
      format: 'qcow2',
      start: true,
      timeoutSeconds: 86_400,
    },
    output: {
      ...access,
      state: 'running',
      disks: [{ name: 'disk0.qcow2', sizeBytes: 21_474_836_480, storedBytes: 5_368_709_120 }],
      warnings: [],
      seconds: 310.5,
    },
  },
  'backup.vm-instant-boot': {
    summary:
      'Starts a machine straight from a snapshot. Its writes are stored separately. If the command is sent again, the machine restarts with its writes.',
    payload: { ...wanted, network: { type: 'user', isIsolated: true, forwards: [443] } },
    output: {
      ...access,
      state: 'running',
      accelerator: 'kvm',
      warnings: [],
      seconds: { mount: 0.5, overlay: 0.1, start: 0.3 },
    },
  },
  'backup.vm-migrate': {
    summary:
      'Copies the data that a running machine still reads from its snapshot. Afterwards it no longer needs the snapshot.',
    payload: { restoreId: PURPOSE_ID, timeoutSeconds: 86_400 },
    output: { copiedBytes: 21_474_836_480, seconds: 310.5 },
  },
  'backup.vm-save': {
    summary: 'Shuts down a machine that was made from a snapshot, and backs up its disks as one archive.',
    payload: {
      jobId: PURPOSE_ID,
      repository: wanted.repository,
      host: 'kvm-01',
      restoreId: PURPOSE_ID,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      snapshotId: wanted.snapshotId,
      filesNew: 1,
      filesChanged: 0,
      filesUnmodified: 0,
      bytesProcessed: 34_359_744_512,
      bytesAdded: 1_073_741_824,
      seconds: 301.5,
      unreadable: { count: 0, paths: [] },
    },
  },
  'backup.vm-discard': {
    summary: 'Ends a machine and removes its disks.',
    payload: { restoreId: PURPOSE_ID },
    output: { wasThere: true },
  },
  'backup.vm-boots': {
    summary: 'Lists the machines that the agent has made from snapshots, and their states.',
    payload: {},
    output: { boots: [{ restoreId: PURPOSE_ID, state: 'running', isPermanent: false, isBaseThere: true }] },
  },
};

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
