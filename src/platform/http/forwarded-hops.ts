import { isIP } from 'node:net';

/**
 * What proxies write into `X-Forwarded-For` and `Forwarded` (RFC 7239): one hop for each proxy, the newest last. A hop is
 * an address with or without a port, brackets, quotes and a zone, or a name that hides the address.
 */

/** The address of a hop in its plain form; `undefined` for a hop that names none, such as `unknown` or `_hidden`. */
export type Hop = string | undefined;

/** The hops of a header such as `X-Forwarded-For`. Empty elements do not count (RFC 9110, 5.6.1). */
export function listedHops(header: string): Hop[] {
  return elementsOf(header).map(addressOfHop);
}

/** The hops of a `Forwarded` header. An element without `for`, or with two, hides its address. */
export function forwardedHops(header: string): Hop[] {
  return elementsOf(header).map((element) => {
    if (!HAS_WHOLE_QUOTES.test(element)) return undefined;
    const named = [...element.matchAll(FOR)];
    return named.length === 1 ? addressOfHop(named[0]?.[1] ?? '') : undefined;
  });
}

/**
 * Separated by each comma, also one in quotes: a client that opens a quote must not swallow what the proxy adds behind
 * it, and no address has a comma.
 */
const elementsOf = (header: string): string[] => header.split(',').filter((element) => element.trim() !== '');

const HAS_WHOLE_QUOTES = /^(?:[^"\\]|"(?:[^"\\]|\\.)*")*$/s;
const FOR = /(?:^|;)\s*for\s*=((?:[^";]|"(?:[^"\\]|\\.)*")*)/gis;

/** A port, or the name that stands for one. */
const PORT = /:(?:\d{1,5}|_[\w.-]+)?$/;

/** The address that a hop, or a header with one address, names. */
export function addressOfHop(text: string): Hop {
  const hop = unquoted(text.trim()).trim();
  const [, bracketed, rest = ''] = /^\[([^\]]*)\](.*)$/s.exec(hop) ?? [];
  if (bracketed !== undefined) {
    const isWhole = rest === '' || PORT.exec(rest)?.[0] === rest;
    return isWhole ? plainAddress(bracketed) : undefined;
  }
  // An IPv6 address without brackets has no port: its last group could not be told from one.
  return plainAddress(hop) ?? (hop.split(':').length === 2 ? plainAddress(hop.replace(PORT, '')) : undefined);
}

function unquoted(text: string): string {
  const [, inner] = /^"((?:[^"\\]|\\.)*)"$/s.exec(text) ?? [];
  return inner === undefined ? text : inner.replace(/\\(.)/gs, '$1');
}

/** An address without its zone, which means something on the machine of the proxy only; IPv4 in its own form. */
function plainAddress(text: string): Hop {
  const [address = ''] = text.trim().split('%');
  return isIP(address) === 0 ? undefined : unmapped(address);
}

/** An IPv4 address in its own form also where it came mapped into IPv6, in whichever way that was written. */
export function unmapped(ip: string): string {
  if (isIP(ip) !== 6) return ip;
  const groups = groupsOf(ip);
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return ip;
  return groups
    .slice(6)
    .map((group) => parseInt(group, 16))
    .flatMap((group) => [group >> 8, group & 255])
    .join('.');
}

/** The eight groups of an IPv6 address, in their shortest form. */
export function groupsOf(ip: string): string[] {
  // Also writes an IPv4 address in its last part as two groups.
  const shortened = new URL(`http://[${ip.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const [before = '', after] = shortened.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const [head, tail] = [groups(before), groups(after ?? '')];
  return [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
}
