import { BlockList, isIP } from 'node:net';
import type { IncomingHttpHeaders } from 'node:http';
import { addressOfHop, forwardedHops, groupsOf, type Hop, listedHops, unmapped } from './forwarded-hops.ts';

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
  /** Set where one of our proxies names its client in a form that hides or garbles the address; `ip` is then the proxy's. */
  unreadable?: UnreadableHop;
}

/** The header that names a client in a form that is no address. */
export interface UnreadableHop {
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
 * that is there decides, also where it cannot be read: the proxy that wrote it may have passed on the others as the client
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

/** What a header says of the client: an address, or something that is none. */
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
 * The address by which limits count a client; `undefined` where everyone behind a proxy would be counted as one, and
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

/** The network by which connections of a client are counted; that of the proxy where nothing else is known. */
export const countedNetwork = (client: Pick<ClientAddress, 'ip' | 'unnamedProxy' | 'unreadable'>): string =>
  networkOf(countedAddress(client) ?? client.ip);

/**
 * The first hop from the right that is not one of our proxies, because clients can write anything further left. Where all
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
