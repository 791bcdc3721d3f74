/** More sets than a fleet has. Beyond this number the oldest is no longer shared. */
const SETS_MAX = 256;

/** Agents of one version list the same capabilities, so one copy of each list serves them all. */
export class CapabilitySets {
  readonly #sets = new Map<string, readonly string[]>();

  /** Returns the shared copy of a list. */
  intern(capabilities: readonly string[]): readonly string[] {
    const key = JSON.stringify(capabilities);
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    this.#sets.set(key, capabilities);
    if (this.#sets.size > SETS_MAX) {
      const [oldest] = this.#sets.keys();
      if (oldest !== undefined) this.#sets.delete(oldest);
    }
    return capabilities;
  }
}
