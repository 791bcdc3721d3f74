import { type DiagnosticLevel, type DiagnosticLine, LOG_MESSAGE_MAX } from '../../../protocol/index.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { AGENT_VERSION } from '../../core/version.ts';

const GATHERED_MS = 5000;
/** Of lines between two writes; what is more says the same over and over. */
const GATHERED_MAX = 200;

/** What the agent writes down about itself: gathered for a moment, then kept to be sent. */
export class AgentLog {
  readonly #keep: (lines: DiagnosticLine[]) => Promise<void>;
  readonly #now: () => number;
  readonly #gatherMs: number;
  #lines: DiagnosticLine[] = [];
  #left = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: {
    keep: (lines: DiagnosticLine[]) => Promise<void>;
    /** The server's time. */
    now: () => number;
    gatherMs?: number;
  }) {
    this.#keep = options.keep;
    this.#now = options.now;
    this.#gatherMs = options.gatherMs ?? GATHERED_MS;
  }

  write(level: DiagnosticLevel, component: string, message: string): void {
    if (this.#lines.length >= GATHERED_MAX) {
      this.#left += 1;
      return;
    }
    this.#lines.push(this.#line(level, component, message));
    this.#timer ??= setTimeout(() => {
      void this.flush();
    }, this.#gatherMs).unref();
  }

  /** Never fails: there would be nowhere to write it down. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines;
    this.#lines = [];
    if (this.#left > 0) lines.push(this.#line('warn', 'log', `${this.#left} more lines were left out`));
    this.#left = 0;
    if (lines.length === 0) return;
    try {
      await this.#keep(lines);
    } catch {
      // The disk is full, or not there: the agent goes on without.
    }
  }

  #line(level: DiagnosticLevel, component: string, message: string): DiagnosticLine {
    return {
      timestamp: new Date(this.#now()).toISOString(),
      level,
      component,
      message: firstCharacters(message, LOG_MESSAGE_MAX),
      agentVersion: AGENT_VERSION,
    };
  }
}
