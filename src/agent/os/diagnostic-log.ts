import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { DiagnosticLevel, shortened } from '../../protocol/index.ts';
import { appendLine, hasCode } from './files/private-file.ts';

/** Our tokens and keys, by their prefix; passwords in addresses; values of queries and headers that name a secret. */
const SECRETS: readonly (readonly [pattern: RegExp, kept: string])[] = [
  [/(m[a-z]{3}_)[0-9A-Za-z]{20,}/g, '$1…'],
  [/(:\/\/[^\s/@:]*):[^\s/@]+@/g, '$1:…@'],
  [/([?&][\w-]*(?:signature|token|credential|secret|password|key)=)[^&\s"']+/gi, '$1…'],
  [/\b(bearer|basic) [\w.~+/=-]{8,}/gi, '$1 …'],
];

/** The text without what looks like a secret. No message is meant to have one; this is the second barrier. Pure. */
export function withoutSecrets(text: string): string {
  return SECRETS.reduce((kept, [pattern, replacement]) => kept.replaceAll(pattern, replacement), text);
}

/**
 * The diagnostic log of this machine's agent, in the folder `logs` of its data: JSON lines. Each program writes its
 * own files, so two programs never write or rotate the same file. A watchdog on trial runs beside the former one, so
 * it counts as a separate program.
 */
export const LOG_WRITERS = ['agent', 'watchdog', 'watchdog-trial'] as const;
export type LogWriter = (typeof LOG_WRITERS)[number];

/** The current file and two former ones: at most 6 MB for each program. */
const LOG_LIMITS = { maxBytes: 2_000_000, formerFiles: 2 };

export const LogLine = z.object({
  /** In the time of this machine. */
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

const MESSAGE_MAX = 8000;

/**
 * The log of one program. A line is in the file when `write` returns, so that the last lines before a crash are kept.
 */
export class DiagnosticLog {
  readonly #dataDir: string;
  readonly #writer: LogWriter;
  readonly #version: string;
  readonly #maxBytes: number;
  #lost = 0;

  /** @param options.maxBytes  for tests */
  constructor(options: { dataDir: string; writer: LogWriter; version: string; maxBytes?: number }) {
    this.#dataDir = options.dataDir;
    this.#writer = options.writer;
    this.#version = options.version;
    this.#maxBytes = options.maxBytes ?? LOG_LIMITS.maxBytes;
  }

  /**
   * Never throws: a full or missing disk must not stop the agent. The next line that can be written reports how many
   * are missing.
   */
  write(level: DiagnosticLevel, component: string, message: string): void {
    try {
      if (this.#lost > 0) {
        this.#append(
          'warn',
          'log',
          `${this.#lost} lines are missing here, because they could not be written`,
        );
        this.#lost = 0;
      }
      this.#append(level, component, message);
    } catch {
      this.#lost += 1;
    }
  }

  #append(level: DiagnosticLevel, component: string, message: string): void {
    const line: LogLine = {
      timestamp: clock.date().toISOString(),
      level,
      component,
      message: shortened(withoutSecrets(message), MESSAGE_MAX),
      version: this.#version,
      pid: process.pid,
    };
    createIn(logFolder(this.#dataDir));
    appendLine(logFile(this.#dataDir, this.#writer), JSON.stringify(line), {
      maxBytes: this.#maxBytes,
      formerFiles: LOG_LIMITS.formerFiles,
      isDurable: false,
    });
  }
}

/** Does not create the parent folder: if it was removed, it must not come back. */
function createIn(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}
