import { z } from 'zod';
import type { JournalLog } from './journal-arguments.ts';

/** Counts the entries of all logs in one reading of the journal. Asking for each log takes a process for each. */

const Value = z.union([z.string(), z.array(z.unknown())]).nullish();
const SurveyRecord = z.object({
  __REALTIME_TIMESTAMP: z.string(),
  _BOOT_ID: z.string().nullish(),
  _TRANSPORT: Value,
  SYSLOG_FACILITY: Value,
  _SYSTEMD_UNIT: Value,
  UNIT: Value,
});

export interface SurveyedLog {
  count: number;
  /** Milliseconds since 1970. */
  newestAt: number;
}

export class JournalSurvey {
  readonly #byMatch = new Map<string, SurveyedLog>();
  #entries = 0;

  get entries(): number {
    return this.#entries;
  }

  /** Takes a line of `journalctl --reverse`. */
  add(line: string): void {
    const record = SurveyRecord.safeParse(jsonOf(line));
    if (!record.success) return;
    this.#entries += 1;
    const { data } = record;
    const at = Math.floor(Number(data.__REALTIME_TIMESTAMP) / 1000);
    const matches = new Set(['', `--boot=${data._BOOT_ID}`]);
    for (const unit of [...texts(data._SYSTEMD_UNIT), ...texts(data.UNIT)]) matches.add(`--unit=${unit}`);
    for (const transport of texts(data._TRANSPORT)) matches.add(`_TRANSPORT=${transport}`);
    for (const facility of texts(data.SYSLOG_FACILITY)) matches.add(`SYSLOG_FACILITY=${facility}`);
    for (const match of matches) {
      const known = this.#byMatch.get(match);
      if (known === undefined) this.#byMatch.set(match, { count: 1, newestAt: at });
      else known.count += 1;
    }
  }

  /** `undefined` where none of the entries belongs to the log. */
  of({ match }: JournalLog): SurveyedLog | undefined {
    const found = (match.length === 0 ? [''] : match).flatMap((name) => this.#byMatch.get(name) ?? []);
    if (found.length === 0) return undefined;
    return {
      count: found.reduce((sum, { count }) => sum + count, 0),
      newestAt: Math.max(...found.map(({ newestAt }) => newestAt)),
    };
  }
}

function texts(value: z.infer<typeof Value>): string[] {
  if (typeof value === 'string') return [value];
  return (value ?? []).filter((item) => typeof item === 'string');
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
