import type { CommandType, ImageDetails, VM_RESTORE_COMMANDS } from '../commands/index.ts';
import { type CommandExample, PURPOSE_ID, REPOSITORY, SNAPSHOT_ID } from './command-example.ts';

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
    summary: 'Makes a virtual machine of the snapshot of a machine, with disks of its own.',
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
      'Starts a machine straight from a snapshot. What it writes is kept apart. Sent again, it starts the machine again with what it has written.',
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
      'Copies what a machine still reads from its snapshot, while it runs. After that it needs the snapshot no more.',
    payload: { restoreId: PURPOSE_ID, timeoutSeconds: 86_400 },
    output: { copiedBytes: 21_474_836_480, seconds: 310.5 },
  },
  'backup.vm-save': {
    summary:
      'Shuts a machine down that was made of a snapshot, and backs its disks up as one archive of the machine.',
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
    summary: 'Lists the machines that the agent has made of snapshots, and what they are doing.',
    payload: {},
    output: { boots: [{ restoreId: PURPOSE_ID, state: 'running', isPermanent: false, isBaseThere: true }] },
  },
};
