import { clock, type Timer } from '../../../clock.ts';
import { isEngineThere } from '../../../engine/index.ts';
import { ENGINE_MISSING_CAPABILITY } from '../../../protocol/index.ts';

const LOOK_MS = 60_000;

interface EngineWatchOptions {
  /** The value of PATH. */
  searchPath: string | undefined;
  onChange: () => void;
  lookMs?: number;
}

/** Knows whether restic is on this machine, and notices when it is installed or removed. */
export class EngineWatch {
  readonly #options: EngineWatchOptions;
  #isThere = false;
  #timer: Timer | undefined;

  constructor(options: EngineWatchOptions) {
    this.#options = options;
  }

  get capabilities(): string[] {
    return this.#isThere ? [] : [ENGINE_MISSING_CAPABILITY];
  }

  async start(): Promise<void> {
    const { searchPath, onChange, lookMs = LOOK_MS } = this.#options;
    this.#isThere = await isEngineThere(searchPath);
    this.#timer = clock.setInterval(() => {
      void isEngineThere(searchPath).then((isThere) => {
        if (isThere === this.#isThere) return;
        this.#isThere = isThere;
        onChange();
      });
    }, lookMs);
    this.#timer.unref();
  }

  stop(): void {
    clock.clear(this.#timer);
  }
}
