import { createSocket } from 'node:dgram';
import { once } from 'node:events';

/** A name server on loopback whose answers the test decides. */
export interface DnsServer {
  /** As `Resolver.setServers` takes it. */
  address: string;
  /** The addresses of a name from now on. Names that were never set do not exist. */
  set(name: string, addresses: readonly string[]): void;
  /** Each query answers with the next list, and the last one stays. */
  script(name: string, lists: readonly (readonly string[])[]): void;
  /** While it is on, queries get no answer. */
  silent(isOn: boolean): void;
  close(): void;
}

const TYPE_A = 1;
const TYPE_AAAA = 28;

export async function startDnsServer(): Promise<DnsServer> {
  const names = new Map<string, (readonly string[])[]>();
  let isSilent = false;
  const socket = createSocket('udp4');
  socket.on('message', (query, { address, port }) => {
    if (isSilent) return;
    const { name, type, end } = question(query);
    const lists = names.get(name);
    // The script goes on with each IPv4 query, because every look-up sends one of each kind.
    const list = type === TYPE_A && lists !== undefined && lists.length > 1 ? lists.shift() : lists?.[0];
    const records = (list ?? []).filter((ip) => ip.includes(':') === (type === TYPE_AAAA));
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(list === undefined ? 0x8183 : 0x8180, 2);
    head.writeUInt16BE(records.length, 6);
    head.writeUInt32BE(0, 8);
    socket.send(Buffer.concat([head, query.subarray(12, end), ...records.map(record)]), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    set: (name, addresses) => void names.set(name, [addresses]),
    script: (name, lists) => void names.set(name, [...lists]),
    silent(isOn) {
      isSilent = isOn;
    },
    close: () => void socket.close(),
  };
}

function question(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A record for the name in the question, to be kept for no time. */
function record(ip: string): Buffer {
  const isV6 = ip.includes(':');
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(isV6 ? TYPE_AAAA : TYPE_A, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(isV6 ? 16 : 4, 10);
  return Buffer.concat([head, isV6 ? bytesOfV6(ip) : Buffer.from(ip.split('.').map(Number))]);
}

function bytesOfV6(ip: string): Buffer {
  const shortest = new URL(`http://[${ip}]`).hostname.slice(1, -1);
  const [head = [], tail = []] = shortest
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''));
  const groups = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  const bytes = Buffer.alloc(16);
  for (const [i, group] of groups.entries()) bytes.writeUInt16BE(Number.parseInt(group, 16), i * 2);
  return bytes;
}
