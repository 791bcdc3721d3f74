import { BlockList, isIP } from 'node:net';
import type { IncomingHttpHeaders } from 'node:http';

/** Which proxies may say for whom they speak (SPEC 5.9). */
export interface ProxyTrust {
  /** TRUST_PROXY_HEADERS with TRUSTED_PROXY_CIDRS. */
  proxies: BlockList | undefined;
  /** TRUST_CF_CONNECTING_IP: the proxies stand behind the CDN that sets this header itself. */
  cfConnectingIp: boolean;
}

export interface ClientAddress {
  ip: string;
  /** Whether this is surely where the request comes from. */
  trusted: boolean;
  /** Set where the peer looks like a proxy and nobody has configured any: all its clients share its address. */
  unnamedProxy?: {
    /** The client that it reports, if any. A request that reached this server otherwise may have made it up. */
    client: string | undefined;
  };
}

interface Incoming {
  peer: string | undefined;
  headers: IncomingHttpHeaders;
}

/**
 * The address of the client. Headers count only when the peer is one of our proxies, in the order cf-connecting-ip,
 * x-forwarded-for, x-real-ip; for every other peer the address of the connection counts. Without configured proxies the
 * peer might be a proxy, so the address is not trusted.
 */
export function clientAddress(
  { peer, headers }: Incoming,
  { proxies, cfConnectingIp }: ProxyTrust,
): ClientAddress {
  const ip = plain(peer ?? '');
  if (proxies === undefined) return { ip, trusted: false, ...unnamedProxy(ip, headers) };
  if (!contains(proxies, ip)) return { ip, trusted: isIP(ip) !== 0 };
  const named =
    (cfConnectingIp ? address(headers['cf-connecting-ip']) : undefined) ??
    forwardedFor(headers['x-forwarded-for'], proxies) ??
    address(headers['x-real-ip']);
  return named === undefined ? { ip, trusted: false } : { ip: named, trusted: true };
}

const FORWARDING = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'cf-connecting-ip'];

function unnamedProxy(peer: string, headers: IncomingHttpHeaders): Pick<ClientAddress, 'unnamedProxy'> {
  if (!FORWARDING.some((name) => headers[name] !== undefined) || !contains(PRIVATE, peer)) return {};
  const client = forwardedFor(headers['x-forwarded-for'], PRIVATE) ?? address(headers['x-real-ip']);
  return { unnamedProxy: { client } };
}

/**
 * The address by which limits count a client; `undefined` where everyone behind a proxy would be counted as one, and
 * could lock out all the others. What such a proxy reports may be forged, so this must never grant anything.
 */
export function countedAddress({
  ip,
  unnamedProxy: proxy,
}: Pick<ClientAddress, 'ip' | 'unnamedProxy'>): string | undefined {
  return proxy === undefined ? ip : proxy.client;
}

/**
 * The network that one client has to itself: an IPv4 address, or the /64 of an IPv6 one, out of which it can take a new
 * address for each try. With 48 the network of its whole site.
 */
export function networkOf(ip: string, bits: 64 | 48 = 64): string {
  const address = plain(ip);
  if (isIP(address) !== 6) return address;
  const parts = groupsOf(address).slice(0, bits / 16);
  return `${parts.join(':')}::/${bits}`;
}

/** The network by which connections of a client are counted; that of the proxy where nothing else is known. */
export const countedNetwork = (client: Pick<ClientAddress, 'ip' | 'unnamedProxy'>): string =>
  networkOf(countedAddress(client) ?? client.ip);

/** The eight groups of an IPv6 address, in their shortest form. */
function groupsOf(ip: string): string[] {
  // Also writes an IPv4 address in its last part as two groups.
  const shortened = new URL(`http://[${ip.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const [before = '', after] = shortened.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const [head, tail] = [groups(before), groups(after ?? '')];
  return [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
}

/** The first address from the right that is not one of our proxies. Clients can write anything further left. */
function forwardedFor(header: string | string[] | undefined, proxies: BlockList): string | undefined {
  const hops = [header ?? []].flat().join(',').split(',');
  for (const hop of hops.reverse()) {
    const ip = plain(hop.trim());
    if (isIP(ip) === 0) return undefined;
    if (!contains(proxies, ip)) return ip;
  }
  return undefined;
}

function address(header: string | string[] | undefined): string | undefined {
  const ip = plain(typeof header === 'string' ? header.trim() : '');
  return isIP(ip) === 0 ? undefined : ip;
}

/** An IPv4 address in its plain form, also where it came mapped into IPv6, in either way to write that. */
function plain(ip: string): string {
  const [, dotted, high, low] = MAPPED.exec(ip) ?? [];
  if (dotted !== undefined) return dotted;
  if (high === undefined || low === undefined) return ip;
  return [high, low]
    .map((group) => parseInt(group, 16))
    .flatMap((group) => [group >> 8, group & 255])
    .join('.');
}

const MAPPED = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|([\da-f]{1,4}):([\da-f]{1,4}))$/i;
/** The address at the other end of the connection. */
export const peerAddress = ({ remoteAddress }: { remoteAddress?: string | undefined }): string =>
  plain(remoteAddress ?? '');

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
