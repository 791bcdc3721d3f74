import type { EngineProgress, PathReport } from '../../engine/index.ts';
import { NAMED_PATHS_MAX, PATH_TEXT_MAX, PROGRESS_PATH_MAX } from '../../protocol/index.ts';
import { firstCharacters } from '../core/plain-text.ts';
import type { Progress } from '../work/durable-handler.ts';

/** What restic reports, as the protocol carries it. */

/** `done`, `total` and `rate` are in bytes. */
export function progressOf(progress: EngineProgress): Progress {
  const { phase, percent, bytes, totalBytes, rate, etaSeconds, files, totalFiles, currentFile } = progress;
  return {
    phase,
    done: bytes,
    filesDone: files,
    ...(percent === null ? {} : { percent }),
    ...(totalBytes === null ? {} : { total: totalBytes }),
    ...(rate === null ? {} : { rate }),
    ...(etaSeconds === null ? {} : { etaSeconds }),
    ...(totalFiles === null ? {} : { filesTotal: totalFiles }),
    ...(currentFile === null ? {} : { path: firstCharacters(currentFile, PROGRESS_PATH_MAX) }),
  };
}

const REASON_MAX = 500;

export interface NamedPaths {
  count: number;
  paths: { path: string; message: string }[];
}

/** The first paths of a report, with a reason for each. The count says how many there were. */
export function namedPaths({ paths, count }: PathReport): NamedPaths {
  return {
    count,
    paths: paths.slice(0, NAMED_PATHS_MAX).map(({ path, reason }) => ({
      path: firstCharacters(path, PATH_TEXT_MAX),
      message: reason === '' ? 'restic has not said why' : firstCharacters(reason, REASON_MAX),
    })),
  };
}
