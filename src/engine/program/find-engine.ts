import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import path from 'node:path';

/** The path of a program on the search path. Relative folders are skipped: they depend on where we were started. */
export async function findOnPath(name: string, searchPath: string): Promise<string | undefined> {
  const fileName = process.platform === 'win32' ? `${name}.exe` : name;
  for (const folder of searchPath.split(path.delimiter).filter((entry) => path.isAbsolute(entry))) {
    const file = path.join(folder, fileName);
    if (await isProgram(file)) return file;
  }
  return undefined;
}

/** Whether restic is on the search path. It is not started, so this costs nearly nothing. */
export const isEngineThere = async (searchPath = ''): Promise<boolean> =>
  (await findOnPath('restic', searchPath)) !== undefined;

export async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
