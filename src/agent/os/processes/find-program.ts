import { access, constants } from 'node:fs/promises';
import path from 'node:path';

/** The first of the programs that is on the search path, by its full name. */
export async function findProgram(
  names: readonly string[],
  searchPath: string = process.env['PATH'] ?? '',
): Promise<string | undefined> {
  const ending = process.platform === 'win32' ? '.exe' : '';
  for (const name of names) {
    // What a relative folder holds depends on where the agent was started.
    for (const folder of searchPath.split(path.delimiter).filter((entry) => path.isAbsolute(entry))) {
      const file = path.join(folder, name + ending);
      // The store's stand-in for Python on Windows starts nothing.
      if (!file.includes('WindowsApps') && (await isExecutable(file))) return file;
    }
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
