import { access, constants } from 'node:fs/promises';
import path from 'node:path';

/** The path of the first of these programs that is on the search path. */
export async function findProgram(
  names: readonly string[],
  searchPath: string = process.env['PATH'] ?? '',
): Promise<string | undefined> {
  const ending = process.platform === 'win32' ? '.exe' : '';
  for (const name of names) {
    // Relative folders are skipped, because they depend on where the agent was started.
    for (const folder of searchPath.split(path.delimiter).filter((entry) => path.isAbsolute(entry))) {
      const file = path.join(folder, name + ending);
      // On Windows, `WindowsApps` holds a placeholder for Python that only opens the store.
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
