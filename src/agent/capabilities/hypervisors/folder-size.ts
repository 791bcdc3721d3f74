import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';

const FILES_MAX = 100_000;

/** The bytes of all files below a folder. What disappears meanwhile counts as nothing. */
export async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0;
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  for (const entry of entries.slice(0, FILES_MAX)) {
    if (!entry.isFile()) continue;
    const found = await lstat(path.join(entry.parentPath, entry.name)).catch(() => undefined);
    bytes += found?.size ?? 0;
  }
  return bytes;
}
