import { BlockList, isIP } from 'node:net';

/**
 * Whether `NO_PROXY` excepts a URL from the proxy. Entries are separated by commas or blanks: `*`, a domain (with all
 * names below it), an address, or a range of addresses such as 10.0.0.0/8. Any of them may end with a port. Pure.
 */
export function isExcepted({ protocol, hostname, port }: URL, noProxy: string): boolean {
  const host = plainHost(hostname);
  const wanted = port === '' ? (/^(https|wss):$/.test(protocol) ? '443' : '80') : port;
  return noProxy.split(/[\s,]+/).some((text) => {
    if (text === '*') return true;
    const entry = parseEntry(text);
    return entry !== undefined && (entry.port ?? wanted) === wanted && matches(host, entry);
  });
}

/** True for names and addresses of this machine itself, which no proxy elsewhere can reach. */
export function isLoopback(hostname: string): boolean {
  const host = plainHost(hostname);
  return (
    host === 'localhost' || host.endsWith('.localhost') || isInRange(host, '127.0.0.0', 8) || host === '::1'
  );
}

interface Entry {
  host: string;
  port: string | undefined;
  bits: number | undefined;
}

function parseEntry(text: string): Entry | undefined {
  const range = /^(.+)\/(\d{1,3})$/.exec(text);
  if (range !== null) return { host: plainHost(range[1] ?? ''), port: undefined, bits: Number(range[2]) };
  // An IPv6 address holds colons itself, so it has a port only where it stands in brackets.
  const withPort = isIP(text) === 0 ? /^(.+):(\d{1,5})$/.exec(text) : null;
  const host = plainHost(withPort?.[1] ?? text).replace(/^\*?\./, '');
  return host === '' ? undefined : { host, port: withPort?.[2], bits: undefined };
}

function matches(host: string, { host: named, bits }: Entry): boolean {
  const family = isIP(named);
  if (bits !== undefined) return family !== 0 && isInRange(host, named, bits);
  if (family !== 0) return isInRange(host, named, family === 4 ? 32 : 128);
  return host === named || (isIP(host) === 0 && host.endsWith(`.${named}`));
}

function isInRange(host: string, network: string, bits: number): boolean {
  const family = isIP(host);
  if (family === 0 || family !== isIP(network) || bits > (family === 4 ? 32 : 128)) return false;
  const range = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  range.addSubnet(network, bits, type);
  return range.check(host, type);
}

const plainHost = (host: string) =>
  host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
