import { randomBytes } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../../clock.ts';
import type { DatabaseBackupType } from '../../../../protocol/index.ts';

/** Files of backups that wait in a folder, which SQL Server writes to, until they are in the repository. */

const NAME = /^muster-spool-([0-9a-f]{12})-(\d{13})-(full|differential|log)-[0-9a-f]{8}\.bak$/;

export interface SpooledFile {
  name: string;
  /** As SQL Server names it. */
  file: string;
  /** As this process finds it. */
  local: string;
  backupType: DatabaseBackupType;
  /** Before the backup was begun: what was committed by then is in it. */
  begunAt: Date;
}

export interface SpoolPlace {
  /** As SQL Server names it: a path of Windows. */
  folder: string;
  /** The folder as this process finds it. */
  local: string;
  /** Of the database: files of others are left alone. */
  mark: string;
}

const fileIn = ({ folder, local }: SpoolPlace, name: string) => ({
  name,
  file: `${folder.replace(/[\\/]+$/, '')}\\${name}`,
  local: path.join(local, name),
});

export function newSpoolFile(place: SpoolPlace, backupType: DatabaseBackupType): SpooledFile {
  const begunAt = clock.date();
  const words = [place.mark, begunAt.getTime(), backupType, randomBytes(4).toString('hex')];
  return { ...fileIn(place, `muster-spool-${words.join('-')}.bak`), backupType, begunAt };
}

/** What earlier backups of this database have left, the oldest first. */
export async function spooledFiles(place: SpoolPlace): Promise<SpooledFile[]> {
  const names = await readdir(place.local).catch(() => []);
  return names
    .flatMap((name): SpooledFile[] => {
      const [, mark, at, type] = NAME.exec(name) ?? [];
      if (mark !== place.mark || (type !== 'full' && type !== 'differential' && type !== 'log')) return [];
      return [{ ...fileIn(place, name), backupType: type, begunAt: new Date(Number(at)) }];
    })
    .sort((one, other) => one.begunAt.getTime() - other.begunAt.getTime());
}

export const removeSpooled = (file: SpooledFile): Promise<void> => rm(file.local, { force: true });
