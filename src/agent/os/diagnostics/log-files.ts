import path from 'node:path';
import { z } from 'zod';
import { DiagnosticLevel } from '../../../protocol/index.ts';

/**
 * The diagnostic log of this machine's agent, in the folder `logs` of its data: JSON lines. Every program that writes has
 * files of its own, so that no two programs write into one file or rotate it. A watchdog on trial runs beside the former
 * one, so it counts as a program of its own.
 */
export const LOG_WRITERS = ['agent', 'watchdog', 'watchdog-trial'] as const;
export type LogWriter = (typeof LOG_WRITERS)[number];

/** Two former files and the present one: at most 6 MB for each program. */
export const LOG_LIMITS = { maxBytes: 2_000_000, formerFiles: 2 };

export const LogLine = z.object({
  /** By the clock of this machine. */
  timestamp: z.string(),
  level: DiagnosticLevel,
  /** The part of the program, such as `connection`. */
  component: z.string(),
  message: z.string(),
  /** The release of the program. */
  version: z.string(),
  pid: z.number(),
});
export type LogLine = z.infer<typeof LogLine>;

export const logFolder = (dataDir: string): string => path.join(dataDir, 'logs');

export const logFile = (dataDir: string, writer: LogWriter): string =>
  path.join(logFolder(dataDir), `${writer}.jsonl`);

/** The file and its former ones, the newest first. */
export const logFiles = (dataDir: string, writer: LogWriter): string[] => {
  const file = logFile(dataDir, writer);
  return [file, ...Array.from({ length: LOG_LIMITS.formerFiles }, (_, at) => `${file}.${at + 1}`)];
};
