import type { BackupSnapshot } from '../../../api/index.ts';
import { formatBytes, formatCounted } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES, ENGINE_NAMES } from './database-names.ts';
import { HYPERVISOR_NAMES } from './hypervisor-names.ts';

export type Details = NonNullable<BackupSnapshot['details']>;
export type DetailsOf<K extends Details['kind']> = Extract<Details, { kind: K }>;

/** What a snapshot holds, in a line: its paths, or what it is where it is more than files. */
export function contentText({ details, paths }: Pick<BackupSnapshot, 'details' | 'paths'>): string {
  if (details === null) return paths.join(', ');
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
