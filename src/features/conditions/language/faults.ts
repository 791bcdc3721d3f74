/** An error in conditions, with its path. */
export interface Fault {
  path: string;
  message: string;
}

const FAULTS_MAX = 100;

/** Collects faults. Beyond a limit, only their number is kept. */
export class Faults {
  readonly #listed: Fault[] = [];
  #more = 0;

  get found(): boolean {
    return this.#listed.length > 0;
  }

  /** @param path  called only if the fault is listed */
  add(path: () => string, message: string): void {
    if (this.#listed.length < FAULTS_MAX) this.#listed.push({ path: path(), message });
    else this.#more += 1;
  }

  list(root: string): Fault[] {
    if (this.#more === 0) return this.#listed;
    return [...this.#listed, { path: root, message: `has ${this.#more} more faults that are not listed` }];
  }
}
