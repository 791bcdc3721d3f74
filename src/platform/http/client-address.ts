import { BlockList, isIP } from 'node:net';
import type { IncomingHttpHeaders } from 'node:http';
import type { Limit, RateLimiter, RateLimits } from '../cluster/rate-limits.ts';
import type { ClientInfo } from '../context.ts';

/** The proxies whose word about the address of their client counts (SPEC 5.9). */
export interface ProxyTrust {
  /** TRUST_PROXY_HEADERS with TRUSTED_PROXY_CIDRS. */
  proxies: BlockList | undefined;
  /** TRUST_CF_CONNECTING_IP: the proxies stand behind the CDN that sets this header itself. */
  cfConnectingIp: boolean;
}

interface ClientAddress {
  ip: string;
  /** Whether this is surely where the request comes from. */
  trusted: boolean;
  /** Set if the peer looks like a proxy and none is configured: all its clients share its address. */
  unnamedProxy?: {
    /** The client that it reports, if any. A request that reached this server otherwise may have made it up. */
    client: string | undefined;
  };
  /**
   * Set if one of our proxies names its client in a form that hides or garbles the address; `ip` is then the proxy's.
   */
  unreadable?: UnreadableHop;
}

/** The header that names a client in a form that is no address. */
interface UnreadableHop {
  header: string;
  value: string;
}

interface Incoming {
  peer: string | undefined;
  headers: IncomingHttpHeaders;
}

/**
 * The address of the client. Headers count only when the peer is one of our proxies, in the order cf-connecting-ip,
 * x-forwarded-for, x-real-ip, forwarded; for every other peer the address of the connection counts. The first of them
 * that is there decides, even if it cannot be read: the proxy that wrote it may have passed on the others as the client
 * sent them. Without configured proxies the peer might be a proxy, so the address is not trusted.
 */
export function clientAddress(
  { peer, headers }: Incoming,
  { proxies, cfConnectingIp }: ProxyTrust,
): ClientAddress {
  const ip = unmapped(peer ?? '');
  if (proxies === undefined) return { ip, trusted: false, ...unnamedProxy(ip, headers) };
  if (!contains(proxies, ip)) return { ip, trusted: isIP(ip) !== 0 };
  const named =
    (cfConnectingIp ? single(headers, 'cf-connecting-ip') : undefined) ?? reported(headers, proxies);
  if (named === undefined) return { ip, trusted: false };
  if (named.ip !== undefined) return { ip: named.ip, trusted: true };
  return { ip, trusted: false, unreadable: { header: named.header, value: named.value.slice(0, 100) } };
}

/** The client as a header names it: an address, or a text that is no address. */
interface Named {
  header: string;
  value: string;
  ip: Hop;
}

const reported = (headers: IncomingHttpHeaders, proxies: BlockList): Named | undefined =>
  furthest(headers, 'x-forwarded-for', listedHops, proxies) ??
  single(headers, 'x-real-ip') ??
  furthest(headers, 'forwarded', forwardedHops, proxies);

const FORWARDING = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'cf-connecting-ip'];

function unnamedProxy(peer: string, headers: IncomingHttpHeaders): Pick<ClientAddress, 'unnamedProxy'> {
  if (!FORWARDING.some((name) => headers[name] !== undefined) || !contains(PRIVATE, peer)) return {};
  return { unnamedProxy: { client: reported(headers, PRIVATE)?.ip } };
}

/**
 * The address by which limits count a client; `undefined` if everyone behind a proxy would be counted as one, and
 * could lock out all the others. What such a proxy reports may be forged, so this must never grant anything.
 */
export function countedAddress({
  ip,
  unnamedProxy: proxy,
  unreadable,
}: Pick<ClientAddress, 'ip' | 'unnamedProxy' | 'unreadable'>): string | undefined {
  if (unreadable !== undefined) return undefined;
  return proxy === undefined ? ip : proxy.client;
}

/**
 * The network that one client has to itself: an IPv4 address, or the /64 of an IPv6 one, out of which it can take a new
 * address for each try. With 48 the network of its whole site.
 */
export function networkOf(ip: string, bits: 64 | 48 = 64): string {
  const address = unmapped(ip);
  if (isIP(address) !== 6) return address;
  const parts = groupsOf(address).slice(0, bits / 16);
  return `${parts.join(':')}::/${bits}`;
}

/** The network by which connections of a client are counted; that of the proxy if nothing else is known. */
export const countedNetwork = (client: Pick<ClientAddress, 'ip' | 'unnamedProxy' | 'unreadable'>): string =>
  networkOf(countedAddress(client) ?? client.ip);

/**
 * The first hop from the right that is not one of our proxies, because clients can write anything further left. If all
 * are proxies, the request comes from the first of them.
 */
function furthest(
  headers: IncomingHttpHeaders,
  header: string,
  hopsOf: (value: string) => Hop[],
  proxies: BlockList,
): Named | undefined {
  const value = [headers[header] ?? []].flat().join(',');
  const hops = hopsOf(value);
  if (hops.length === 0) return undefined;
  const client = hops.findLastIndex((hop) => hop === undefined || !contains(proxies, hop));
  return { header, value, ip: hops[Math.max(client, 0)] };
}

function single(headers: IncomingHttpHeaders, header: string): Named | undefined {
  const value = [headers[header] ?? []].flat().join(',');
  return value.trim() === '' ? undefined : { header, value, ip: addressOfHop(value) };
}

/** The address at the other end of the connection. */
export const peerAddress = ({ remoteAddress }: { remoteAddress?: string | undefined }): string =>
  unmapped(remoteAddress ?? '');

/** A list of addresses and ranges such as 203.0.113.0/24; each entry must be one. */
export function addressList(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [ip = '', prefix] = entry.split('/');
    const family = isIP(ip) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(ip, family);
    else list.addSubnet(ip, Number(prefix), family);
  }
  return list;
}

export function contains(list: BlockList, ip: string): boolean {
  const family = isIP(ip);
  return family !== 0 && list.check(ip, family === 6 ? 'ipv6' : 'ipv4');
}

/** Networks that are not routed on the Internet: loopback, private, link-local and shared by a carrier's customers. */
const PRIVATE = addressList([
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '169.254.0.0/16',
  '100.64.0.0/10',
  '::1',
  'fc00::/7',
  'fe80::/10',
]);

/**
 * The hops that proxies write into `X-Forwarded-For` and `Forwarded` (RFC 7239): one hop for each proxy, the newest
 * last. A hop is an address with or without a port, brackets, quotes and a zone, or a name that hides the address.
 */

/** The address of a hop in its plain form; `undefined` for a hop that names none, such as `unknown` or `_hidden`. */
type Hop = string | undefined;

/** The hops of a header such as `X-Forwarded-For`. Empty elements do not count (RFC 9110, 5.6.1). */
export function listedHops(header: string): Hop[] {
  return elementsOf(header).map(addressOfHop);
}

/** The hops of a `Forwarded` header. An element without `for`, or with two, hides its address. */
function forwardedHops(header: string): Hop[] {
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
function addressOfHop(text: string): Hop {
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

/** An IPv4 address in its own form even if it came mapped into IPv6, in whichever way that was written. */
function unmapped(ip: string): string {
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
function groupsOf(ip: string): string[] {
  // Also writes an IPv4 address in its last part as two groups.
  const shortened = new URL(`http://[${ip.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const [before = '', after] = shortened.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const [head, tail] = [groups(before), groups(after ?? '')];
  return [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
}

/** As many times as much for the /48 of a site, which has 65,536 networks to come from, as for one of them. */
const SITE_FACTOR = 16;

type AddressLimiter = Pick<RateLimiter, 'take' | 'giveBack' | 'isSpent'>;

/** The limit of everything that is counted by where it comes from: the keys are addresses. */
export function addressLimiter(limits: RateLimits, name: string, limit: Limit): AddressLimiter {
  const networks = limits.limiter(name, limit);
  const sites = limits.limiter(`${name}-site`, { ...limit, points: limit.points * SITE_FACTOR });
  return {
    async take(ip) {
      await networks.take(networkOf(ip));
      if (hasSite(ip)) await sites.take(networkOf(ip, 48));
    },
    async giveBack(ip) {
      await networks.giveBack(networkOf(ip));
      if (hasSite(ip)) await sites.giveBack(networkOf(ip, 48));
    },
    async isSpent(ip) {
      return (
        (await networks.isSpent(networkOf(ip))) || (hasSite(ip) && (await sites.isSpent(networkOf(ip, 48))))
      );
    },
  };
}

const hasSite = (ip: string): boolean => networkOf(ip) !== networkOf(ip, 48);

/**
 * How often one network may ask for something, for `before` of a route. Clients whose address is not known, because they
 * are behind a proxy that is not configured, are not counted: the first of them would stop all others.
 */
export function clientLimit(
  limits: RateLimits,
  name: string,
  limit: Limit,
): (client: ClientInfo) => Promise<void> {
  const limiter = addressLimiter(limits, name, limit);
  return async (client) => {
    const address = countedAddress(client);
    if (address !== undefined) await limiter.take(address);
  };
}
