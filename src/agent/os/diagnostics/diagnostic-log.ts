import { mkdirSync } from 'node:fs';
import { clock } from '../../../clock.ts';
import type { DiagnosticLevel } from '../../../protocol/index.ts';
import { appendLine } from '../files/line-file.ts';
import { hasCode } from '../files/private-file.ts';
import { LOG_LIMITS, logFile, logFolder, type LogLine, type LogWriter } from './log-files.ts';
import { withoutSecrets } from './without-secrets.ts';

const MESSAGE_MAX = 8000;

/** The log of one program. A line is in the file when `write` returns, so that the last words before a crash are there. */
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

  /** Never throws: a full disk, or one that is gone, stops nothing. The next line that fits says how many are missing. */
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
      message: withoutSecrets(message).slice(0, MESSAGE_MAX),
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

/** Not the folder above it: if somebody has removed that, it must not come back. */
function createIn(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}
