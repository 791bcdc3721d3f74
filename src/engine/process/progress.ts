import type { BackupStatus } from './backup-output.ts';

/** How far a backup or a restore is. `null` where it is not known. */
export interface EngineProgress {
  phase: 'scanning' | 'transferring' | 'finishing';
  /** From 0 to 100. It never becomes smaller. */
  percent: number | null;
  bytes: number;
  files: number;
  totalBytes: number | null;
  totalFiles: number | null;
  /** Bytes a second, over the last seconds. */
  rate: number | null;
  etaSeconds: number | null;
  currentFile: string | null;
}

export interface Measured {
  bytes: number;
  files: number;
  totalBytes: number | null;
  totalFiles: number | null;
  etaSeconds?: number | null;
  currentFile?: string | null;
}

const RATE_WINDOW_MS = 10_000;
/** More digits than this are noise of a total that still grows. */
const PERCENT_STEP = 0.1;

/** Turns measurements into progress. */
export class ProgressMeter {
  readonly #points: { at: number; bytes: number }[] = [];
  #percent = 0;

  measure(measured: Measured, now: number): EngineProgress {
    const { bytes, files, totalBytes, totalFiles } = measured;
    const rate = this.#rateAt(now, bytes);
    const isFinished = totalBytes !== null && bytes >= totalBytes && files >= (totalFiles ?? 0) && files > 0;
    return {
      phase: bytes === 0 && !isFinished ? 'scanning' : isFinished ? 'finishing' : 'transferring',
      percent: this.#percentOf(bytes, totalBytes),
      bytes,
      files,
      totalBytes,
      totalFiles,
      rate,
      etaSeconds: measured.etaSeconds ?? remaining(bytes, totalBytes, rate),
      currentFile: measured.currentFile ?? null,
    };
  }

  #percentOf(bytes: number, totalBytes: number | null): number | null {
    if (totalBytes === null || totalBytes === 0) return null;
    const percent = Math.floor(Math.min(100, (100 * bytes) / totalBytes) / PERCENT_STEP) * PERCENT_STEP;
    this.#percent = Math.max(this.#percent, Math.round(percent * 10) / 10);
    return this.#percent;
  }

  #rateAt(now: number, bytes: number): number | null {
    this.#points.push({ at: now, bytes });
    const isOld = ({ at }: { at: number }) => now - at > RATE_WINDOW_MS;
    while (this.#points.length > 2 && this.#points.slice(0, 1).some(isOld)) this.#points.shift();
    const [first] = this.#points;
    if (first === undefined || now <= first.at) return null;
    return Math.max(0, Math.round(((bytes - first.bytes) * 1000) / (now - first.at)));
  }
}

function remaining(bytes: number, totalBytes: number | null, rate: number | null): number | null {
  if (totalBytes === null || rate === null || rate === 0) return null;
  return Math.max(0, Math.ceil((totalBytes - bytes) / rate));
}

export function measuredBackup(status: BackupStatus): Measured {
  const { bytes_done, files_done, total_bytes, total_files, seconds_remaining, current_files } = status;
  return {
    bytes: bytes_done,
    files: files_done,
    totalBytes: total_bytes === 0 ? null : total_bytes,
    totalFiles: total_files === 0 ? null : total_files,
    etaSeconds: seconds_remaining === 0 ? null : seconds_remaining,
    currentFile: current_files?.[0] ?? null,
  };
}
