/** Pseudo-random numbers that depend on the seed only, so that a simulated machine needs no state. */

/** A 32-bit mix of integers. */
export function mix(...parts: number[]): number {
  let hash = 0x9e_37_79_b9;
  for (const part of parts) {
    hash = Math.imul(hash ^ (part | 0), 0x85_eb_ca_6b);
    // The upper bits of numbers above 32 bits count too.
    hash = Math.imul(hash ^ Math.trunc(part / 2 ** 32), 0xc2_b2_ae_35);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

/** A number from 0 to 1, without 1. */
export const fraction = (...parts: number[]): number => mix(...parts) / 2 ** 32;

export function pick<T>(items: readonly [T, ...T[]], ...parts: number[]): T {
  return items[mix(...parts) % items.length] ?? items[0];
}
