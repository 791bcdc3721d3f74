import type { LogQuerySummary } from '../../../protocol/index.ts';
import { cut } from './reader.ts';

const REMARKS_MAX = 5;
const NOTE_MAX = 2_000;

/** What a query could not read, and why. The source of the entries writes it, and the answer says it. */
export class ScanReport {
  readonly #remarks = new Set<string>();
  #omitted = 0;
  #isWhole = true;
  /** Records that were passed over without being parsed, because their bytes showed that they cannot match. */
  skipped = 0;
  /** Records that are there and could not be read. */
  unreadable = 0;

  /** To be called for each part that is missing from the answer. */
  missed(remark: string): void {
    this.#isWhole = false;
    if (this.#remarks.size < REMARKS_MAX) this.#remarks.add(remark);
    else if (!this.#remarks.has(remark)) this.#omitted += 1;
  }

  summary(scanned: number, stopped: boolean, total?: number): LogQuerySummary {
    const truncated = stopped || !this.#isWhole || this.unreadable > 0;
    const { unreadable } = this;
    const unread =
      unreadable === 0 ? [] : [`${unreadable} ${unreadable === 1 ? 'record' : 'records'} could not be read.`];
    const more = this.#omitted === 0 ? [] : [`${this.#omitted} more parts are missing.`];
    const note = cut([...unread, ...this.#remarks, ...more].join(' '), NOTE_MAX);
    return {
      scanned: scanned + this.skipped,
      truncated,
      ...(!truncated && total !== undefined && { total }),
      ...(note !== '' && { note }),
    };
  }
}
