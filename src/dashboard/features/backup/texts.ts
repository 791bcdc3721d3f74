import type {
  BackupSnapshot,
  BackupDatabaseInstance,
  BackupDatabaseChains,
  FoundMachine,
  Input,
} from '../../api/index.ts';
import { formatBytes, formatCount, formatCounted, type Tone } from '../../ui/index.ts';

export type Hypervisor = FoundMachine['hypervisor'];

/** The names of the hypervisors. */
export const HYPERVISOR_NAMES: Readonly<Record<Hypervisor, string>> = { hyperv: 'Hyper-V', kvm: 'KVM' };

type State = FoundMachine['state'];
export type MachineAction = Input<'POST /backup/hyperv/vm-state'>['body']['state'];

export const STATES: Readonly<Record<State, { tone: Tone; label: string }>> = {
  running: { tone: 'good', label: 'Running' },
  off: { tone: 'neutral', label: 'Off' },
  paused: { tone: 'warning', label: 'Paused' },
  saved: { tone: 'neutral', label: 'Saved' },
  changing: { tone: 'busy', label: 'Changing' },
  unknown: { tone: 'warning', label: 'Not known' },
};

/** Actions that change the state of a machine, and the states in which each one means something. */
export const ACTIONS: readonly {
  action: MachineAction;
  label: string;
  from: readonly State[];
  /** The question before the action, if something can be lost. */
  question?: string;
}[] = [
  { action: 'start', label: 'Start', from: ['off', 'saved'] },
  { action: 'resume', label: 'Resume', from: ['paused'] },
  {
    action: 'stop',
    label: 'Shut down',
    from: ['running'],
    question: 'The operating system of the machine is asked to shut down. Programs that run in it end.',
  },
  { action: 'pause', label: 'Pause', from: ['running'] },
  { action: 'save', label: 'Save', from: ['running', 'paused'] },
  {
    action: 'force_stop',
    label: 'Turn off',
    from: ['running', 'paused', 'changing'],
    question: 'It is like a power cut: what the programs in the machine have not written is lost.',
  },
];

/** Why an action is not possible now. An unknown state refuses nothing. */
export function stateRefusal(state: State, from: readonly State[]): string | undefined {
  return state === 'unknown' || from.includes(state)
    ? undefined
    : `The machine was last seen in the state “${STATES[state].label}”.`;
}

/** Times in fields of forms: they are in the time zone of this computer, and are sent with its offset. */

const MINUTE_MS = 60_000;
const SECOND_MS = 1000;
const pad = (figure: number) => String(figure).padStart(2, '0');

/** The value of a field for date and time. */
export const localField = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 19);

/** The value of such a field; `undefined` if it is empty or incomplete. */
export function fromLocalField(value: string): Date | undefined {
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** "2026-11-23T09:30:00+01:00" */
export function withOffset(at: Date): string {
  const ahead = -at.getTimezoneOffset();
  const [hours, minutes] = [Math.trunc(Math.abs(ahead) / 60), Math.abs(ahead) % 60];
  return `${localField(at)}${ahead < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}`;
}

/** The first whole second that is not before an instant: fields know no smaller ones. */
export const secondFrom = (at: string): Date => new Date(Math.ceil(Date.parse(at) / SECOND_MS) * SECOND_MS);

/** The last whole second that is not after an instant. */
export const secondUpTo = (at: string): Date => new Date(Math.floor(Date.parse(at) / SECOND_MS) * SECOND_MS);

export const ENGINE_NAMES: Readonly<Record<BackupDatabaseInstance['engine'], string>> = {
  postgresql: 'PostgreSQL',
  mariadb: 'MariaDB',
  mssql: 'SQL Server',
};

export type BackupType = BackupDatabaseChains['chains'][number]['snapshots'][number]['backupType'];

export const BACKUP_TYPE_NAMES: Readonly<Record<BackupType, string>> = {
  full: 'Full backup',
  differential: 'Differential backup',
  log: 'Log',
};

export const BACKUP_TYPES: readonly BackupType[] = ['full', 'differential', 'log'];

const SHOWN = 8;

/** "shop, crm and 3 more" */
export function databasesText(
  names: readonly string[],
  /** How many there are, if more than are named. */
  count = names.length,
): string {
  if (names.length === 0) return 'Not known';
  const shown = names.slice(0, SHOWN);
  const more = count - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${formatCount(more)} more` : shown.join(', ');
}

/** The paths of a snapshot of files. */
export const pathsText = ({ paths, pathsAreCut }: Pick<BackupSnapshot, 'paths' | 'pathsAreCut'>): string =>
  `${paths.join(', ')}${pathsAreCut === true ? ' and more' : ''}`;

export type Details = NonNullable<BackupSnapshot['details']>;
export type DetailsOf<K extends Details['kind']> = Extract<Details, { kind: K }>;

/** The content of a snapshot in one line: its paths, or a description if it holds more than files. */
export function contentText({
  details,
  ...snapshot
}: Pick<BackupSnapshot, 'details' | 'paths' | 'pathsAreCut'>): string {
  if (details === null) return pathsText(snapshot);
  if (details.kind === 'database') {
    const { engine, version, backupType } = details;
    return `${ENGINE_NAMES[engine]} ${version}: ${BACKUP_TYPE_NAMES[backupType].toLowerCase()}`;
  }
  if (details.kind === 'image') {
    const bytes = details.disks.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    return `${formatCounted(details.disks.length, 'disk')} of ${details.machine}, ${formatBytes(bytes)}`;
  }
  const { machines } = details;
  return `${formatCounted(machines.length, 'machine')} of ${HYPERVISOR_NAMES[details.hypervisor]}: ${machines.map(({ name }) => name).join(', ')}`;
}

/** A volume of an image, in which paths begin at its own root. */
export interface VolumePlace {
  machine?: string | undefined;
  disk: string;
  partition?: number | undefined;
}

/** "sda, partition 1"; a disk without partitions is one volume. */
export const placeName = (disk: string, partition: number | null | undefined): string =>
  partition === null || partition === undefined ? disk : `${disk}, partition ${partition}`;

/** "2 devices", "1 group": those of which there is any. */
export function countedTargets(deviceIds: readonly string[], groupIds: readonly string[]): string[] {
  return [
    { count: deviceIds.length, one: 'device', several: 'devices' },
    { count: groupIds.length, one: 'group', several: 'groups' },
  ]
    .filter(({ count }) => count > 0)
    .map(({ count, one, several }) => `${count} ${count === 1 ? one : several}`);
}
