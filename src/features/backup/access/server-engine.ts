import { type Engine, openEngine, probeEngine } from '../../../engine/index.ts';

/** restic on the machine of the server. It is looked for when it is first needed, and again where it was missing. */
export class ServerEngine {
  readonly #folder: string;
  readonly #searchPath: string;
  #opened: Promise<Engine> | undefined;

  constructor({ folder, searchPath }: { folder: string; searchPath: string }) {
    this.#folder = folder;
    this.#searchPath = searchPath;
  }

  /** Throws an `EngineError` with ENGINE_MISSING or ENGINE_TOO_OLD. */
  open(): Promise<Engine> {
    this.#opened ??= this.#find().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #find(): Promise<Engine> {
    const program = await probeEngine({ searchPath: this.#searchPath });
    return openEngine(program, { folder: this.#folder, host: { PATH: this.#searchPath } });
  }
}
