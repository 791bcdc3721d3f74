import { z } from 'zod';
import { parseJson, parseMessage } from './messages.ts';

/** Progress of a backup or restore. `null` if it is unknown. */
export interface EngineProgress {
  phase: 'scanning' | 'transferring' | 'finishing';
  /** From 0 to 100. It never decreases. */
  percent: number | null;
  bytes: number;
  files: number;
  totalBytes: number | null;
  totalFiles: number | null;
  /** Bytes per second, over the last seconds. */
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
/** More digits would only show the noise of a total that still grows. */
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

/** Parses restic's JSON lines during a backup, and its messages about single files. */

const Count = z.number().nonnegative().default(0);

const BackupStatus = z.object({
  message_type: z.literal('status'),
  total_files: Count,
  files_done: Count,
  total_bytes: Count,
  bytes_done: Count,
  seconds_remaining: Count,
  current_files: z.array(z.string()).nullish(),
});
type BackupStatus = z.infer<typeof BackupStatus>;

const BackupSummary = z.object({
  message_type: z.literal('summary'),
  files_new: Count,
  files_changed: Count,
  files_unmodified: Count,
  data_added: Count,
  data_added_packed: z.number().nonnegative().optional(),
  total_files_processed: Count,
  total_bytes_processed: Count,
  total_duration: Count,
  /** The short id before 0.15. */
  snapshot_id: z.string().regex(/^[0-9a-f]{8,64}$/),
});
export type BackupSummary = z.infer<typeof BackupSummary>;

type BackupMessage = { status: BackupStatus } | { summary: BackupSummary } | undefined;

export function parseBackupLine(line: string): BackupMessage {
  const value = parseJson(line);
  const status = BackupStatus.safeParse(value);
  if (status.success) return { status: status.data };
  const summary = BackupSummary.safeParse(value);
  return summary.success ? { summary: summary.data } : undefined;
}

export interface UnreadablePath {
  path: string;
  /** The operating system's text; empty if restic does not print it. */
  reason: string;
}

const MISSING = /^(.+) does not exist, skipping$/;
const UNREADABLE_TEXT = /^error(?: reading metadata)?: (.+)$/;

/** The path and the reason in a line. `undefined`: the line is not about a file. */
export function parseUnreadable(line: string): UnreadablePath | undefined {
  const message = parseMessage(line);
  if (message?.type === 'error') return { path: message.item, reason: message.text };
  const [, missing] = MISSING.exec(line) ?? [];
  if (missing !== undefined) return { path: missing, reason: 'no such file or directory' };
  const [, text] = UNREADABLE_TEXT.exec(line) ?? [];
  return text === undefined ? undefined : { path: '', reason: text };
}

const NO_SHADOW_COPY = /^failed to create snapshot for \[([^\]]{1,1000})\]: (.*)$/s;
/** restic writes the root of a volume for shadow copies in lower case. */
const VOLUME_ROOT = /^[a-z]:\\$/;

/**
 * The volume without a shadow copy, from restic's message about a file. Before 0.17.1 its JSON names the volume
 * without a reason.
 */
export function parseShadowCopyFailure({ path, reason }: UnreadablePath): UnreadablePath | undefined {
  const [, volume, why] = NO_SHADOW_COPY.exec(reason) ?? [];
  if (volume !== undefined && why !== undefined) return { path: volume, reason: why.trim() };
  return reason === '' && VOLUME_ROOT.test(path) ? { path, reason } : undefined;
}

const IGNORED = /^ignoring error for (.+?): (.+)$/s;

/** The same for a restore: plain text before 0.17.1. */
export function parseNotRestored(line: string): UnreadablePath | undefined {
  const message = parseMessage(line);
  if (message?.type === 'error') return { path: message.item, reason: message.text };
  const [, path, reason] = IGNORED.exec(line) ?? [];
  return path === undefined || reason === undefined ? undefined : { path, reason };
}
