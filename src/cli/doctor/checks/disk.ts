import { access, constants, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../../../config.ts';
import { type Check, failed, messageOf, ok, skipped, warning } from '../check.ts';

const GIB = 2 ** 30;
/** The server refuses uploads before the last of it. */
const FAILS_BELOW = GIB;
const WARNS_BELOW_PART = 0.1;

export const diskChecks = ({ dataDir, backupStore }: Pick<Config, 'dataDir' | 'backupStore'>): Check[] => [
  { name: 'disk', run: () => room('The data folder', dataDir) },
  {
    name: 'backup store',
    async run() {
      if (backupStore.s3 !== undefined) return skipped(`It is in the bucket ${backupStore.s3.bucket}.`);
      const folder = path.join(dataDir, 'backups');
      const exists = await access(folder).then(
        () => true,
        () => false,
      );
      return exists ? room('The backup store', folder) : skipped('Nothing is stored yet.');
    },
  },
];

async function room(what: string, folder: string) {
  let free: number;
  let size: number;
  try {
    await access(folder, constants.W_OK);
    const { bavail, blocks, bsize } = await statfs(folder);
    [free, size] = [bavail * bsize, blocks * bsize];
  } catch (error) {
    return failed(
      `${what} ${folder} cannot be used: ${messageOf(error)}.`,
      'Create it, give it to the user of the server, or set DATA_DIR.',
    );
  }
  const message = `${what} ${folder} has ${(free / GIB).toFixed(1)} GiB of ${(size / GIB).toFixed(1)} GiB free.`;
  if (free < FAILS_BELOW) return failed(message, 'Free space or enlarge the disk: uploads are refused soon.');
  if (free < WARNS_BELOW_PART * size) return warning(message, 'Enlarge the disk before it is full.');
  return ok(message);
}
