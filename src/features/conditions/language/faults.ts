/** What is wrong with conditions, and where. */
export interface Fault {
  path: string;
  message: string;
}

const FAULTS_MAX = 100;

/** All that is wrong at once; of very many the first, and how many more there are. */
export class Faults {
  readonly #listed: Fault[] = [];
  #more = 0;

  get found(): boolean {
    return this.#listed.length > 0;
  }

  /** @param path  made only where it is shown */
  add(path: () => string, message: string): void {
    if (this.#listed.length < FAULTS_MAX) this.#listed.push({ path: path(), message });
    else this.#more += 1;
  }

  list(root: string): Fault[] {
    if (this.#more === 0) return this.#listed;
    return [...this.#listed, { path: root, message: `has ${this.#more} more faults, which are not listed` }];
  }
}
