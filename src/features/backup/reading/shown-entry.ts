import type { ListedEntry } from '../../../engine/index.ts';
import type { SnapshotEntry } from './reading.schema.ts';

const TYPES: Partial<Record<ListedEntry['type'], SnapshotEntry['type']>> = {
  file: 'file',
  dir: 'directory',
  symlink: 'symlink',
};

export const shownType = (type: ListedEntry['type']): SnapshotEntry['type'] => TYPES[type] ?? 'other';

export const shownEntry = (
  { name, type, sizeBytes, modifiedAt }: ListedEntry,
  path: string,
): SnapshotEntry => ({ name, path, type: shownType(type), sizeBytes, modifiedAt: instantOf(modifiedAt) });

/** The device writes it as it likes. */
export function instantOf(written: string | null): string | null {
  const at = new Date(written ?? Number.NaN);
  const isShowable =
    at.getTime() >= Date.UTC(1, 0) && at.getUTCFullYear() >= 1 && at.getUTCFullYear() <= 9999;
  return isShowable ? at.toISOString() : null;
}

/** `/inner/folder`; nothing for the root. */
export const withoutSlashes = (path: string): string => {
  const names = path.split('/').filter((name) => name !== '');
  return names.map((name) => `/${name}`).join('');
};
