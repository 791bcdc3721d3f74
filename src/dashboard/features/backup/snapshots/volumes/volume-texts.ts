import type { SnapshotMachine } from '../../../../api/index.ts';

export type Volume = SnapshotMachine['disks'][number]['volumes'][number];

export const VOLUME_NAMES: Readonly<Record<Volume['type'], string>> = {
  ext: 'ext2, ext3 or ext4',
  xfs: 'XFS',
  btrfs: 'Btrfs',
  vfat: 'FAT',
  ntfs: 'NTFS',
  swap: 'Swap',
  lvm: 'LVM',
  luks: 'LUKS, encrypted',
  unknown: 'Not known',
};

/** Why the files of a volume cannot be looked at. */
export function noBrowsing({ type, content }: Pick<Volume, 'type' | 'content'>): string | undefined {
  if (type === 'swap') return 'Swap space holds no files.';
  if (type === 'unknown') return 'No file system was recognized in it.';
  if (type !== 'ext') {
    return `What is in ${VOLUME_NAMES[type]} is not read here. Restore the disk, or start the machine from the snapshot.`;
  }
  return content === 'header' ? 'Only the head of this file system was saved.' : undefined;
}

/** Where the machine mounts a volume, as its own table of file systems says. */
export function mountPoint(
  fstab: string | null,
  { uuid, label }: Pick<Volume, 'uuid' | 'label'>,
): string | undefined {
  const names = [uuid && `uuid=${uuid}`, label && `label=${label}`].map((name) => name?.toLowerCase());
  for (const line of fstab?.split('\n') ?? []) {
    const [device = '', place] = line.trim().split(/\s+/);
    if (names.includes(device.replaceAll('"', '').toLowerCase()) && place?.startsWith('/')) return place;
  }
  return undefined;
}
