import { faultsOfExcludes } from '../configs/exclude-pattern.ts';
import type { BackupSources, FileSources } from '../configs/sources.schema.ts';
import type { ConfigTestResult } from './action.schema.ts';

type Check = ConfigTestResult['checks'][number];

/** What can be said of the sources of a configuration without a device. */
export function sourceChecks(sources: BackupSources): Check[] {
  if (sources.kind !== 'files') return [];
  const faults = [...faultsOf(sources)];
  if (faults.length > 0) return faults.map((fault) => ({ name: 'sources', ok: false, ...fault }));
  const message = leftOutSentence(sources.paths.linux ?? []);
  return [{ name: 'sources', ok: true, ...(message === undefined ? {} : { message }) }];
}

const MADE_UP = /^\/(proc|sys)(\/|$)|^\/(dev|run)\/?$/;
const IN_MEMORY = /^\/(dev|run)\/./;
/** Taken alone; a pattern that takes something in again may stand behind it. */
const EVERYTHING = /^(\/?\*{1,2}|\*\*\/\*{1,2}|\/)$/;

function* faultsOf({ paths, excludes = [] }: FileSources): Generator<{ code: string; message: string }> {
  for (const path of paths.linux ?? []) {
    if (!MADE_UP.test(path)) continue;
    const message = `${path} lies in a virtual file system, which holds no files. It is not backed up.`;
    yield { code: 'SOURCE_VIRTUAL', message };
  }
  for (const { at, message } of faultsOfExcludes({ paths, excludes })) {
    const which = at === undefined ? 'The excludes' : `The exclude ${excludes[at] ?? ''}`;
    yield { code: 'EXCLUDE_INVALID', message: `${which} ${message}.` };
  }
  const all = excludes.find((pattern) => EVERYTHING.test(pattern));
  if (all !== undefined && !excludes.some((pattern) => pattern.startsWith('!'))) {
    yield { code: 'EVERYTHING_EXCLUDED', message: `The exclude ${all} leaves nothing to back up.` };
  }
}

function leftOutSentence(paths: readonly string[]): string | undefined {
  if (paths.length === 0) return undefined;
  const inMemory = paths.find((path) => IN_MEMORY.test(path));
  if (inMemory !== undefined) {
    return `${inMemory} is backed up only where a disk is mounted on the way to it.`;
  }
  return 'On Linux, /proc, /sys, /dev, /run and other virtual file systems below the sources are left out, which the job says.';
}
