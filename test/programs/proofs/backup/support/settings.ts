/** What the environment says about the long form, as BACKUP_PROOF_SEED and others. */

export function numberOf(name: string, usual: number): number {
  const given = process.env[`BACKUP_PROOF_${name}`];
  const number = given === undefined ? usual : Number(given);
  if (!Number.isSafeInteger(number)) throw new Error(`BACKUP_PROOF_${name} must be a whole number.`);
  return number;
}

/** Of the environment, or a new one; printed, so that a run can be repeated. */
export function seedOf(what: string): number {
  const seed = numberOf('SEED', Date.now() % 1_000_000);
  // oxlint-disable-next-line no-console -- a failure is of no use without it
  console.info(`      ${what}: BACKUP_PROOF_SEED=${seed}`);
  return seed;
}

export interface Dice {
  /** A number from 0 to below `n`. */
  below(n: number): number;
  pick<T>(choices: readonly T[]): T;
}

/** The same numbers for the same seed (mulberry32). */
export function diceOf(seed: number): Dice {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(next() * n);
  return {
    below,
    pick(choices) {
      const chosen = choices[below(choices.length)];
      if (chosen === undefined) throw new Error('nothing to pick from');
      return chosen;
    },
  };
}
