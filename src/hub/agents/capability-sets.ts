/** More different lists than a fleet has; past that the oldest is no longer shared. */
const MOST = 256;

/** Agents of one version say the same lists: one copy of each serves all of them. */
export class SharedLists {
  readonly #lists = new Map<string, readonly string[]>();

  shared(list: readonly string[]): readonly string[] {
    const key = JSON.stringify(list);
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    this.#lists.set(key, list);
    if (this.#lists.size > MOST) {
      const [oldest] = this.#lists.keys();
      if (oldest !== undefined) this.#lists.delete(oldest);
    }
    return list;
  }
}
