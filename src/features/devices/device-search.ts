import { isIPv6 } from 'node:net';

/** The ways in which a search text may be stored among the facts of devices: as typed, and as an address. */
export function storedForms(q: string): string[] {
  const others = [hardwareAddressPart(q), shortestIpv6(q)].filter((form) => form !== undefined);
  return [...new Set([q, ...others])];
}

/** The digits of a hardware address. */
const DIGITS = 12;
const IPV4_PART = /^\d{0,3}(\.\d{0,3})*$/;

/**
 * A part of a hardware address as it is stored: `AA-BB-C`, `aabb.c` and `aa bb c` as `aa:bb:c`. `undefined` for what has no
 * separator, which is found among the digits of an address, and for what cannot be a part of one.
 */
export function hardwareAddressPart(text: string): string | undefined {
  if (IPV4_PART.test(text)) return undefined;
  const groups = text.toLowerCase().split(/[:. -]/);
  // A separator at an end, as while a person types, has nothing beyond it.
  const parts = groups.slice(groups[0] === '' ? 1 : 0, groups.at(-1) === '' ? -1 : undefined);
  if (parts.length < 2 || !parts.every((part) => /^[0-9a-f]+$/.test(part))) return undefined;
  if (parts.join('').length > DIGITS) return undefined;
  const middle = parts.slice(1, -1);
  // What stands at an end may be cut off. A single digit elsewhere has lost its zero, and in a whole address so has one at
  // an end then.
  const leavesOutZeros = middle.some(({ length }) => length === 1);
  const mayBePadded = (place: number) =>
    leavesOutZeros && (parts.length === DIGITS / 2 || (place > 0 && place < parts.length - 1));
  const pairs = parts.map((part, place) => {
    const whole = part.length === 1 && mayBePadded(place) ? `0${part}` : part;
    if (whole.length % 2 === 1 && place > 0 && place < parts.length - 1) return undefined;
    return pairsOf(whole, place === 0 ? whole.length % 2 : 0);
  });
  return pairs.includes(undefined) ? undefined : pairs.join(':');
}

/** @param cut  the number of digits before the first pair */
function pairsOf(digits: string, cut: number): string {
  const start = digits.slice(0, cut);
  return [...(start === '' ? [] : [start]), ...(digits.slice(cut).match(/..?/g) ?? [])].join(':');
}

/** An IPv6 address in the form in which systems report it. */
const shortestIpv6 = (text: string): string | undefined =>
  isIPv6(text) && !text.includes('%') ? new URL(`http://[${text}]`).hostname.slice(1, -1) : undefined;
