import type { CommandType, Machine, MACHINE_COMMANDS } from '../commands/index.ts';
import { type CommandExample, PURPOSE_ID, REPOSITORY, SNAPSHOT_ID } from './command-example.ts';

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
    summary: 'Exports a guest into a folder of the device, where it stays.',
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
