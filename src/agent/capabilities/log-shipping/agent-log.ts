import { clock, type Timer } from '../../../clock.ts';
import { type DiagnosticLevel, type DiagnosticLine, LOG_MESSAGE_MAX } from '../../../protocol/index.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { AGENT_VERSION } from '../../core/version.ts';

const BUFFER_MS = 5000;
/** The most lines between two writes. More than that are repetitions. */
const BUFFER_LINES = 200;

/** The agent's own log. Lines are buffered for a moment and then stored for sending. */
export class AgentLog {
  readonly #keep: (lines: DiagnosticLine[]) => Promise<void>;
  readonly #now: () => number;
  readonly #bufferMs: number;
  #lines: DiagnosticLine[] = [];
  #omitted = 0;
  #timer: Timer | undefined;

  constructor(options: {
    keep: (lines: DiagnosticLine[]) => Promise<void>;
    /** The server's time. */
    now: () => number;
    bufferMs?: number;
  }) {
    this.#keep = options.keep;
    this.#now = options.now;
    this.#bufferMs = options.bufferMs ?? BUFFER_MS;
  }

  write(level: DiagnosticLevel, component: string, message: string): void {
    if (this.#lines.length >= BUFFER_LINES) {
      this.#omitted += 1;
      return;
    }
    this.#lines.push(this.#line(level, component, message));
    this.#timer ??= clock
      .setTimeout(() => {
        void this.flush();
      }, this.#bufferMs)
      .unref();
  }

  /** Never rejects, because there is nowhere to log the failure. */
  async flush(): Promise<void> {
    clock.clear(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines;
    this.#lines = [];
    if (this.#omitted > 0) lines.push(this.#line('warn', 'log', `${this.#omitted} more lines were omitted`));
    this.#omitted = 0;
    if (lines.length === 0) return;
    try {
      await this.#keep(lines);
    } catch {
      // The disk is full or missing. The agent works on without its log.
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
