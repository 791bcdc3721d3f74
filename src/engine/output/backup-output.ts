import { z } from 'zod';
import { parseJson, parseMessage } from './message.ts';

/** restic's JSON lines during a backup, and what its error output says about single files. */

const Count = z.number().nonnegative().default(0);

export const BackupStatus = z.object({
  message_type: z.literal('status'),
  total_files: Count,
  files_done: Count,
  total_bytes: Count,
  bytes_done: Count,
  seconds_remaining: Count,
  current_files: z.array(z.string()).nullish(),
});
export type BackupStatus = z.infer<typeof BackupStatus>;

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
  /** Short before 0.15. */
  snapshot_id: z.string().regex(/^[0-9a-f]{8,64}$/),
});
export type BackupSummary = z.infer<typeof BackupSummary>;

export type BackupMessage = { status: BackupStatus } | { summary: BackupSummary } | undefined;

export function parseBackupLine(line: string): BackupMessage {
  const value = parseJson(line);
  const status = BackupStatus.safeParse(value);
  if (status.success) return { status: status.data };
  const summary = BackupSummary.safeParse(value);
  return summary.success ? { summary: summary.data } : undefined;
}

export interface UnreadablePath {
  path: string;
  /** In the words of the operating system; empty where restic does not print them. */
  reason: string;
}

const MISSING = /^(.+) does not exist, skipping$/;
const UNREADABLE_TEXT = /^error(?: reading metadata)?: (.+)$/;

/** What a line says about one file. `undefined`: it says nothing about a file. */
export function parseUnreadable(line: string): UnreadablePath | undefined {
  const message = parseMessage(line);
  if (message?.type === 'error') return { path: message.item, reason: message.text };
  const [, missing] = MISSING.exec(line) ?? [];
  if (missing !== undefined) return { path: missing, reason: 'no such file or directory' };
  const [, text] = UNREADABLE_TEXT.exec(line) ?? [];
  return text === undefined ? undefined : { path: '', reason: text };
}

const NO_SHADOW_COPY = /^failed to create snapshot for \[([^\]]{1,1000})\]: (.*)$/s;
/** As restic writes the root of a volume of which it makes a shadow copy: in small letters. */
const VOLUME_ROOT = /^[a-z]:\\$/;

/**
 * The volume of which Windows made no shadow copy, from what restic says about a file. Before 0.17.1 its JSON names the
 * volume without a reason.
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
