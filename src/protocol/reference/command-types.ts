import { COMMANDS, type CommandType, isDurable, laneOf, type RECOVERY_COMMANDS } from '../commands/index.ts';
import {
  type CommandExample,
  PURPOSE_ID,
  REPOSITORY,
  SNAPSHOT_ID,
  DATABASE_PARTS,
  MACHINE_EXAMPLES,
  VM_RESTORE_EXAMPLES,
  WINDOWS_EXAMPLES,
} from './command-examples.ts';
import type { SocketMessage } from './message.ts';

const RECOVERY_EXAMPLES: {
  [T in keyof typeof RECOVERY_COMMANDS & CommandType]: CommandExample<T>;
} = {
  'recovery.check': {
    summary: 'Checks whether a service answers the device.',
    payload: {
      check: { type: 'http', host: '127.0.0.1', port: 40_443, path: '/health', secure: false },
      timeoutSeconds: 120,
    },
    output: { passed: true, message: 'It answered with status 200.', attempts: 3, seconds: 2.4 },
  },
  'recovery.discard-restore': {
    summary: 'Removes the files of a restore without a target from the folder of the agent.',
    payload: { restoreId: PURPOSE_ID },
    output: { wasThere: true },
  },
};

const LOG = {
  name: 'System',
  displayName: 'System log',
  recordCount: 18_240,
  maxSize: 0,
  retentionDays: 0,
  lastWriteTime: '2026-01-31T07:59:58.000Z',
  source: 'journald',
} as const;

export const LOG_ENTRY = {
  recordId: 18_240,
  timeCreated: '2026-01-31T07:59:58.000Z',
  level: 'error',
  source: 'sshd',
  eventId: 0,
  message: 'Failed password for root from 203.0.113.9',
  category: 'auth',
  user: null,
  computer: 'web-01',
} as const;

const EXAMPLES: { [T in CommandType]: CommandExample<T> } = {
  'eventlogs.list': { summary: 'Lists the logs of the device.', payload: {}, output: { logs: [LOG] } },
  'eventlogs.get': {
    summary: 'Describes one log.',
    payload: { name: 'System' },
    output: { log: LOG },
  },
  'eventlogs.query': {
    summary: 'Streams the entries of one page, newest first, as rows.',
    payload: { name: 'System', level: ['error', 'critical'], page: 1, limit: 100 },
    output: { scanned: 18_240, truncated: false, total: 1 },
  },
  'eventlogs.record': {
    summary: 'Returns one entry.',
    payload: { name: 'System', recordId: 18_240 },
    output: { entry: LOG_ENTRY },
  },
  'eventlogs.tail': {
    summary: 'Streams new entries as rows until the command is cancelled or its time limit ends.',
    payload: { name: 'System', text: 'password' },
    output: {},
  },
  'processes.list': {
    summary:
      'Streams the running processes as rows, those that use the most first. Reads them twice, about a second apart.',
    payload: {},
    output: { total: 214 },
  },
  'processes.end': {
    summary:
      'Asks a process to end, and ends it after a grace period. Refuses with PROCESS_REPLACED if the number belongs to another process now, and with PROCESS_PROTECTED for the agent and what the system needs.',
    payload: { pid: 4711, startedAt: '2026-01-31T07:59:58.000Z' },
    output: { outcome: 'ended', name: 'python3', user: 'www-data', graceSeconds: 5 },
  },
  'services.list': {
    summary: 'Streams the services of the machine as rows, by name.',
    payload: {},
    output: { manager: 'systemd', total: 96 },
  },
  'services.control': {
    summary: 'Starts, stops or restarts a service that the machine lists.',
    payload: { name: 'nginx', action: 'restart' },
    output: { before: 'failed', after: 'running' },
  },
  'terminal.open': {
    summary:
      'Starts a terminal or continues one. The rows are its output; a cancelled command leaves it without a viewer.',
    payload: {
      terminalId: '0198f1d2-4444-7abc-8def-000000000004',
      cols: 80,
      rows: 24,
      isNew: true,
      viewer: 'Ada Lovelace (ada@example.com)',
    },
    output: { reason: 'exited', exitCode: 0 },
  },
  'script.run': {
    summary: 'Runs a script. Its output is streamed as rows while a dashboard watches.',
    payload: {
      language: 'bash',
      content: 'echo "$PARAM_greeting"',
      parameters: { greeting: 'hello' },
      timeoutSeconds: 60,
    },
    output: { exitCode: 0, stdout: 'hello\n', stderr: '', truncated: false },
  },
  'agent.set-auto-update': {
    summary: 'Sets whether the agent installs offered releases automatically.',
    payload: { enabled: false },
    output: {},
  },
  'agent.refresh-inventory': {
    summary: 'Sends the inventory of the machine now. The command ends when the server has it.',
    payload: {},
    output: {},
  },
  'agent.reboot': {
    summary: 'Restarts the machine, after the hub has the result.',
    payload: { delaySeconds: 60 },
    output: {},
  },
  'backup.run': {
    summary: 'Backs up folders and files into a repository.',
    payload: {
      jobId: PURPOSE_ID,
      repository: REPOSITORY,
      host: 'web-01',
      paths: ['/home'],
      excludes: ['*.tmp'],
      oneFileSystem: false,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'partial',
      snapshotId: SNAPSHOT_ID,
      takenAt: '2026-11-21T22:00:03.000Z',
      filesNew: 12,
      filesChanged: 3,
      filesUnmodified: 18_240,
      bytesProcessed: 5_368_709_120,
      bytesAdded: 1_048_576,
      seconds: 41.5,
      unreadable: { count: 1, paths: [{ path: '/home/a/secret', message: 'permission denied' }] },
    },
  },
  'backup.image': {
    summary: 'Backs up whole disks into a repository, as one archive of the machine.',
    payload: {
      jobId: PURPOSE_ID,
      repository: REPOSITORY,
      host: 'web-01',
      disks: 'all',
      excludeDisks: ['sdb'],
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      snapshotId: SNAPSHOT_ID,
      takenAt: '2026-11-21T22:00:03.000Z',
      filesNew: 1,
      filesChanged: 0,
      filesUnmodified: 0,
      bytesProcessed: 34_359_744_512,
      bytesAdded: 8_388_608,
      seconds: 301.5,
      unreadable: { count: 0, paths: [] },
      details: {
        kind: 'image',
        source: 'disk',
        machine: 'web-01',
        disks: [{ name: 'sda', sizeBytes: 34_359_738_368, offset: 4608, sectorBytes: 512 }],
        bootMode: 'uefi',
        consistency: 'none',
        memoryBytes: 8_589_934_592,
        processors: 4,
        system: 'Debian GNU/Linux 12 (bookworm)',
      },
    },
  },
  'backup.restore': {
    summary: 'Restores files of a snapshot.',
    payload: {
      restoreId: PURPOSE_ID,
      repository: REPOSITORY,
      snapshotId: SNAPSHOT_ID,
      selectedPaths: ['/home/a/report.odt'],
      overwrite: 'never',
      dryRun: false,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      targetPath: '/var/lib/muster-agent/restores/01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93',
      filesRestored: 1,
      bytesRestored: 18_240,
      filesSkipped: 0,
      seconds: 2.5,
      failed: { count: 0, paths: [] },
    },
  },
  'backup.image-files-restore': {
    summary: 'Restores files out of a volume of an image.',
    payload: {
      restoreId: PURPOSE_ID,
      repository: REPOSITORY,
      snapshotId: SNAPSHOT_ID,
      volume: { imagePath: '/machine.tar', disk: 'sda', partition: 1 },
      selectedPaths: ['/etc/hosts'],
      targetPath: '/srv/restored',
      overwrite: 'never',
      dryRun: false,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      targetPath: '/srv/restored',
      filesRestored: 1,
      bytesRestored: 221,
      filesSkipped: 0,
      seconds: 1.9,
      failed: { count: 0, paths: [] },
    },
  },
  'backup.databases': {
    summary: 'Lists the database servers of the device.',
    payload: {},
    output: { instances: [DATABASE_PARTS.instance] },
  },
  'backup.database': {
    summary: 'Backs up a database server: all of it, or the changes since the last backup.',
    payload: {
      ...DATABASE_PARTS.order,
      jobId: PURPOSE_ID,
      repository: REPOSITORY,
      host: 'db-01',
      chainId: PURPOSE_ID,
      timeoutSeconds: 86_400,
    },
    output: {
      ...DATABASE_PARTS.made,
      status: 'completed',
      takenAt: '2026-11-21T23:00:02.000Z',
      filesNew: 1,
      filesChanged: 0,
      filesUnmodified: 0,
      bytesProcessed: 50_331_648,
      bytesAdded: 1_048_576,
      seconds: 3.1,
      unreadable: { count: 0, paths: [] },
    },
  },
  'backup.database-restore': {
    summary: 'Restores a database server into an empty folder, and recovers it there.',
    payload: {
      ...DATABASE_PARTS.restore,
      restoreId: PURPOSE_ID,
      repository: REPOSITORY,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      targetPath: DATABASE_PARTS.restore.targetPath,
      filesRestored: 1_204,
      bytesRestored: 73_400_320,
      filesSkipped: 0,
      seconds: 12.4,
      failed: { count: 0, paths: [] },
      database: { isRecovered: true, recoveredTo: '2026-11-21T22:40:58.113Z', position: '0/4A3F210' },
    },
  },
  'backup.image-restore': {
    summary: 'Writes a disk of an image to a file or a disk, and reads it back.',
    payload: {
      restoreId: PURPOSE_ID,
      repository: REPOSITORY,
      snapshotId: SNAPSHOT_ID,
      disk: 'sda',
      targetPath: '/srv/machines/web-01.raw',
      overwrite: 'never',
      grow: false,
      timeoutSeconds: 86_400,
    },
    output: {
      status: 'completed',
      targetPath: '/srv/machines/web-01.raw',
      filesRestored: 1,
      bytesRestored: 34_359_738_368,
      filesSkipped: 0,
      seconds: 301.5,
      failed: { count: 0, paths: [] },
      sha256: SNAPSHOT_ID,
    },
  },
  'backup.verify': {
    summary: 'Restores a sample of files, reports their checksums and removes them again.',
    payload: {
      verificationId: PURPOSE_ID,
      repository: REPOSITORY,
      snapshotId: SNAPSHOT_ID,
      paths: ['/home/a/report.odt'],
      timeoutSeconds: 3600,
    },
    output: {
      files: [{ path: '/home/a/report.odt', sha256: SNAPSHOT_ID, sizeBytes: 18_240 }],
      seconds: 2.5,
    },
  },
  'backup.vault-sync': {
    summary: 'Copies snapshots of a repository into another one.',
    payload: {
      syncId: PURPOSE_ID,
      source: REPOSITORY,
      vault: {
        destination: { type: 'local', path: '/mnt/vault/01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f94' },
        password: { secretRef: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f95' },
        isNew: true,
      },
      snapshotIds: [SNAPSHOT_ID],
      timeoutSeconds: 86_400,
    },
    output: { copies: [{ source: SNAPSHOT_ID, copy: 'd'.repeat(64) }], seconds: 12.5 },
  },
  'backup.test-destination': {
    summary: 'Checks whether the device reaches a destination and can write there.',
    payload: { destination: { type: 'local', path: '/mnt/backup' }, timeoutSeconds: 60 },
    output: { checks: [{ name: 'write', ok: true }] },
  },
  ...WINDOWS_EXAMPLES,
  ...MACHINE_EXAMPLES,
  ...VM_RESTORE_EXAMPLES,
  ...RECOVERY_EXAMPLES,
};

/** Each command type, shown as the payload of `command` and the output of `command:result`. */
export const COMMAND_TYPE_MESSAGES: SocketMessage[] = (Object.keys(EXAMPLES) as CommandType[]).map(
  (type) => ({
    name: type,
    direction: isDurable(type) ? `durable command, lane ${laneOf(type)}` : 'live query',
    summary: EXAMPLES[type].summary,
    payload: COMMANDS[type].payload,
    example: EXAMPLES[type].payload,
    ack: COMMANDS[type].output,
    ackExample: EXAMPLES[type].output,
  }),
);
