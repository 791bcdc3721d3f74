import { randomBytes } from 'node:crypto';

/**
 * restic cuts files where a rolling hash has a certain value, and the hash is a remainder by a polynomial of the
 * repository. A polynomial of its own keeps strangers from recognizing files by the sizes of their pieces. It is a number
 * whose bits are the coefficients, of this degree, and irreducible: restic opens no repository with another one.
 */
const DEGREE = 53;
const HIGHEST = 1n << BigInt(DEGREE);
const LOWEST = 1n;
/** The polynomial `x`. */
const X = 2n;

/** As it stands in the configuration of a repository: in hexadecimal digits. */
export function randomPolynomial(): string {
  for (;;) {
    const random = randomBytes(8).readBigUInt64BE() & (HIGHEST - 1n);
    const candidate = random | HIGHEST | LOWEST;
    if (isIrreducible(candidate)) return candidate.toString(16);
  }
}

/**
 * Rabin's test. The degree is a prime number, so a polynomial without a root divides `x^(2^53) - x` if and only if it is
 * irreducible.
 */
function isIrreducible(polynomial: bigint): boolean {
  // 0 is no root because of the lowest bit, and 1 is none where the number of terms is odd.
  if (countOfBits(polynomial) % 2 === 0) return false;
  let power = X;
  for (let i = 0; i < DEGREE; i++) power = square(power, polynomial);
  return power === X;
}

const countOfBits = (value: bigint): number => value.toString(2).replaceAll('0', '').length;

/** The square of `value`, which is smaller than `modulus`, as the remainder by it. */
function square(value: bigint, modulus: bigint): bigint {
  let sum = 0n;
  let shifted = value;
  for (let rest = value; rest > 0n; rest >>= 1n) {
    if ((rest & 1n) === 1n) sum ^= shifted;
    shifted <<= 1n;
    if ((shifted & HIGHEST) !== 0n) shifted ^= modulus;
  }
  return sum;
}
