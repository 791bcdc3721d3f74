import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';

/**
 * Which addresses the server may connect to for a tenant. The ranges are those of the IANA special-purpose address
 * registries (RFC 6890 and its updates), and the addresses at which clouds serve credentials to their machines.
 */

/** Addresses of inner networks. An operator may allow some of them. */
const INTERNAL = [
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '::1/128',
  'fc00::/7',
];

/** Never allowed, whatever the operator lists. IPv6 outside 2000::/3 is refused without being listed. */
const FORBIDDEN = [
  // This network, link-local (cloud metadata), protocol assignments, documentation, 6to4 relays, benchmarks.
  '0.0.0.0/8',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  // AS112 and AMT: anycast services of networks, of which the nearest may be an inner one.
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.175.48.0/24',
  '2620:4f:8000::/48',
  // Multicast, reserved and broadcast.
  '224.0.0.0/4',
  '240.0.0.0/4',
  // Metadata services outside of the link-local range: Alibaba Cloud, Azure, and EC2 over IPv6.
  '100.100.100.200/32',
  '168.63.129.16/32',
  'fd00:ec2::/32',
  // Protocol assignments with Teredo and ORCHID, documentation, and 6to4, which carries an IPv4 address within.
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
];

const internal = rangeList(INTERNAL);
const forbidden = rangeList(FORBIDDEN);
const globalUnicast = rangeList(['2000::/3']);
const mapped = rangeList(['::ffff:0:0/96']);

export type AddressClass = 'public' | 'internal' | 'forbidden';

/**
 * Classifies an address. An IPv4-mapped IPv6 address counts as the IPv4 address within it; text that is not one
 * address is forbidden.
 */
export function addressClass(address: string): AddressClass {
  if (isIP(address) === 0 || address.includes('%')) return 'forbidden';
  if (isWithin(forbidden, address)) return 'forbidden';
  if (isWithin(internal, address)) return 'internal';
  if (isIP(address) === 4 || isWithin(mapped, address)) return 'public';
  return isWithin(globalUnicast, address) ? 'public' : 'forbidden';
}

export interface AddressRules {
  /** Internal addresses and ranges that may be reached nevertheless, such as 10.1.2.3 or 10.1.0.0/16. */
  allowedInternal?: readonly string[];
  /** Addresses and ranges that may not be reached, although they are public. */
  denied?: readonly string[];
}

export class AddressPolicy {
  readonly #allowed: BlockList;
  readonly #denied: BlockList;

  constructor({ allowedInternal = [], denied = [] }: AddressRules) {
    this.#allowed = rangeList(allowedInternal);
    this.#denied = rangeList(denied);
  }

  permits(address: string): boolean {
    const kind = addressClass(address);
    if (kind === 'forbidden' || isWithin(this.#denied, address)) return false;
    // A firewall does not see what a machine sends to its own public address.
    if (kind === 'public' && !isOwn(address)) return true;
    return isWithin(this.#allowed, address);
  }
}

function isOwn(address: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  const list = rangeList(own.map((entry) => entry.address.replace(/%.*$/, '')));
  return isWithin(list, address);
}

function rangeList(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [ip = '', bits] = entry.split('/');
    const family = isIP(ip) === 6 ? 'ipv6' : 'ipv4';
    list.addSubnet(ip, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family);
  }
  return list;
}

/** A BlockList also finds an IPv4-mapped IPv6 address in its IPv4 ranges. */
const isWithin = (list: BlockList, address: string) =>
  list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
