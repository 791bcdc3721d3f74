import { readdir, readFile } from 'node:fs/promises';
import { type KnownProcess, processMark } from './process-mark.ts';

/** The processes of Linux whose command line passes a test: also those that nobody has recorded. */
export async function findByCommand(matches: (words: readonly string[]) => boolean): Promise<KnownProcess[]> {
  const names = await readdir('/proc').catch(() => []);
  const found: KnownProcess[] = [];
  for (const name of names.filter((each) => /^\d+$/.test(each))) {
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '');
    if (command === '' || !matches(command.split('\0').slice(0, -1))) continue;
    const process = { pid: Number(name), mark: await processMark(Number(name)) };
    if (process.mark !== '') found.push(process);
  }
  return found;
}
