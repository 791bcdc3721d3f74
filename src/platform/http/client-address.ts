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
}

interface Incoming {
  peer: string | undefined;
  headers: IncomingHttpHeaders;
}

/**
 * The address of the client. Headers count only when the peer is one of our proxies, in the order cf-connecting-ip,
 * x-forwarded-for, x-real-ip; whoever connects directly is who the connection says. Without configured proxies nobody
 * can tell whether the peer is one, so the address is not to be trusted.
 */
export function clientAddress(
  { peer, headers }: Incoming,
  { proxies, cfConnectingIp }: ProxyTrust,
): ClientAddress {
  const ip = plain(peer ?? '');
  if (proxies === undefined) return { ip, trusted: false };
  if (!contains(proxies, ip)) return { ip, trusted: isIP(ip) !== 0 };
  const named =
    (cfConnectingIp ? address(headers['cf-connecting-ip']) : undefined) ??
    forwardedFor(headers['x-forwarded-for'], proxies) ??
    address(headers['x-real-ip']);
  return named === undefined ? { ip, trusted: false } : { ip: named, trusted: true };
}

/** From the right, past our own proxies: what stands further left was written by whoever connected to them. */
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

/** An IPv4 address in its plain form, also where it came mapped into IPv6. */
const plain = (ip: string) => ip.replace(/^::ffff:(?=\d+\.)/i, '');

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
