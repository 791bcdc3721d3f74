import { isIPv6 } from 'node:net';

/**
 * What of an address one customer of a provider surely has alone: an IPv4 address as a whole, of an IPv6 address the
 * first 64 bits. Whoever counts by whole IPv6 addresses gives each of them 2^64 tries.
 * @returns one text for all addresses of a prefix; what is no IPv6 address, as it stands
 */
export function addressPrefix(ip: string): string {
  const [address = ''] = ip.split('%', 1);
  if (!isIPv6(address)) return ip;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [before = '', after] = address.split('::', 2);
  const first = groupsOf(before);
  const last = groupsOf(after ?? '');
  const gap = after === undefined ? 0 : 8 - first.length - last.length;
  const groups = [...first, ...Array.from({ length: gap }, () => '0'), ...last];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}

/** An IPv4 address at the end stands for two groups. None of its bits is among the first 64. */
const groupsOf = (part: string): string[] =>
  part === '' ? [] : part.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : [group]));
