import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { allowPort } from './runner/rules.ts';

/** A name server on loopback whose answers the test decides. */
export interface DnsServer {
  /** As `Resolver.setServers` takes it. */
  address: string;
  /** The addresses of a name from now on. Names that were never set do not exist. */
  set(name: string, addresses: readonly string[]): void;
  /** Each query answers with the next list, and the last one stays. */
  script(name: string, lists: readonly (readonly string[])[]): void;
  /** The TXT records of a name, each as its strings. A long answer comes over TCP, as the DNS wants it. */
  setTxt(name: string, records: readonly (readonly string[])[]): void;
  /** While it is on, queries get no answer. */
  silent(isOn: boolean): void;
  close(): void;
}

const TYPE_A = 1;
const TYPE_AAAA = 28;
const TYPE_TXT = 16;
const UDP_MAX = 1232;

export async function startDnsServer(tries = 5): Promise<DnsServer> {
  const names = new Map<string, (readonly string[])[]>();
  const texts = new Map<string, readonly (readonly string[])[]>();
  let isSilent = false;

  function addressRecords(name: string, type: number): Buffer[] | undefined {
    const lists = names.get(name);
    // The script goes on with each IPv4 query, because every look-up sends one of each kind.
    const list = type === TYPE_A && lists !== undefined && lists.length > 1 ? lists.shift() : lists?.[0];
    return list?.filter((ip) => ip.includes(':') === (type === TYPE_AAAA)).map(addressRecord);
  }

  function answer(query: Buffer, maxBytes: number): Buffer {
    const { name, type, end } = question(query);
    const records = type === TYPE_TXT ? texts.get(name)?.map(textRecord) : addressRecords(name, type);
    const body = Buffer.concat(records ?? []);
    const isTruncated = body.length + end > maxBytes;
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE((records === undefined ? 0x8183 : 0x8180) | (isTruncated ? 0x0200 : 0), 2);
    head.writeUInt16BE(isTruncated ? 0 : (records?.length ?? 0), 6);
    head.writeUInt32BE(0, 8);
    return Buffer.concat([head, query.subarray(12, end), ...(isTruncated ? [] : [body])]);
  }

  const socket = createSocket('udp4');
  socket.on('message', (query, { address, port }) => {
    if (!isSilent) socket.send(answer(query, UDP_MAX), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  // A query over TCP has its length in front, and so has the answer. It comes in one piece on loopback.
  const stream = createServer((connection) => {
    connection.on('error', () => {});
    connection.on('data', (data) => {
      if (isSilent) return;
      const reply = answer(data.subarray(2), 0xffff);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(reply.length);
      connection.write(Buffer.concat([length, reply]));
    });
  });
  try {
    allowPort(port);
    stream.listen(port, '127.0.0.1');
    await once(stream, 'listening');
  } catch (error) {
    socket.close();
    // Somebody else may have the port over TCP.
    if (tries > 1 && error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      return startDnsServer(tries - 1);
    }
    throw error;
  }
  return {
    address: `127.0.0.1:${port}`,
    set: (name, addresses) => void names.set(name, [addresses]),
    script: (name, lists) => void names.set(name, [...lists]),
    setTxt: (name, records) => void texts.set(name, records),
    silent(isOn) {
      isSilent = isOn;
    },
    close() {
      socket.close();
      stream.close();
    },
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
function record(type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

const addressRecord = (ip: string): Buffer =>
  ip.includes(':')
    ? record(TYPE_AAAA, bytesOfV6(ip))
    : record(TYPE_A, Buffer.from(ip.split('.').map(Number)));

/** Each string has its length in front, of one byte. */
const textRecord = (strings: readonly string[]): Buffer =>
  record(
    TYPE_TXT,
    Buffer.concat(strings.map((text) => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]))),
  );

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
