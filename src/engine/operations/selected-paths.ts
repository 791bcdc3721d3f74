import { normalPath } from './snapshot-path.ts';

/** Selected paths, each with everything below it. */
export class SelectedPaths {
  readonly #paths: ReadonlySet<string>;
  readonly #above = new Set<string>();
  readonly #found = new Set<string>();

  constructor(selected: readonly string[]) {
    this.#paths = new Set(selected.map(normalPath));
    for (const path of this.#paths) for (const parent of parentsOf(path)) this.#above.add(parent);
  }

  get size(): number {
    return this.#paths.size;
  }

  has(path: string): boolean {
    if (this.#paths.has(path)) this.#found.add(path);
    return [path, ...parentsOf(path), '/'].some((each) => this.#paths.has(each));
  }

  /** Whether it was selected itself. */
  names(path: string): boolean {
    return this.#paths.has(path);
  }

  isAbove(path: string): boolean {
    return this.#above.has(path);
  }

  missing(): string[] {
    return [...this.#paths].filter((path) => path !== '/' && !this.#found.has(path));
  }
}

/** For `/a/b/c`: `/a/b` and `/a`. */
function parentsOf(path: string): string[] {
  const parents: string[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
    parents.push(path.slice(0, at));
  }
  return parents;
}
