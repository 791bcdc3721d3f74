import path from 'node:path';
import { z } from 'zod';
import { EngineError, type ObjectSource, type ObjectType, type Destination } from '../../engine/index.ts';
import { replaceFile } from '../os/files/private-file.ts';
import type { Network } from '../os/network/network.ts';

/** The backup store of the server, for our own reader of repositories, which needs no restic on this machine. */

const FOLDERS: Readonly<Record<ObjectType, string>> = {
  index: 'index',
  key: 'keys',
  snapshot: 'snapshots',
  data: 'data',
};
const NAME = /^[0-9a-f]{64}$/;
const LIST = 'application/vnd.x.restic.rest.v2';
const LIST_MAX = 64 * 1024 * 1024;
/** Larger than every object that restic writes: a pack has at most 128 MiB plus its last blob. */
const OBJECT_MAX = 512 * 1024 * 1024;

const Listed = z.array(z.object({ name: z.string().regex(NAME), size: z.number().int().nonnegative() }));

export interface RestAccess {
  network: Network;
  /** The address of the repository, with a slash at its end. */
  url: URL;
  user: string;
  password: string;
  signal: AbortSignal;
}

export function restSource({ network, url, user, password, signal }: RestAccess): ObjectSource {
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  async function read(path: string, headers: Record<string, string>, maxBytes: number): Promise<Buffer> {
    const answer = await network.request(new URL(path, url), {
      headers: { authorization, ...headers },
      signal,
    });
    if (answer.status !== 200 && answer.status !== 206) {
      answer.body.destroy();
      throw refusal(answer.status);
    }
    const parts: Buffer[] = [];
    let length = 0;
    for await (const part of answer.body) {
      if (!Buffer.isBuffer(part)) continue;
      length += part.length;
      if (length > maxBytes) throw new EngineError('REPOSITORY_DAMAGED', { detail: `${path} is too large.` });
      parts.push(part);
    }
    return Buffer.concat(parts);
  }
  return {
    async *list(type) {
      const text = (await read(`${FOLDERS[type]}/`, { accept: LIST }, LIST_MAX)).toString('utf8');
      yield* Listed.parse(JSON.parse(text));
    },
    async get(type, name, range) {
      if (!NAME.test(name)) throw new Error(`${name} is not the name of an object.`);
      const path = `${FOLDERS[type]}/${name}`;
      if (range === undefined) return read(path, {}, OBJECT_MAX);
      const { offset, length } = range;
      const bytes = await read(path, { range: `bytes=${offset}-${offset + length - 1}` }, length);
      if (bytes.length === length) return bytes;
      throw new EngineError('REPOSITORY_DAMAGED', { detail: `${path} ends before byte ${offset + length}.` });
    },
  };
}

function refusal(status: number): EngineError {
  const detail = `The store has answered with ${status}.`;
  if (status === 401 || status === 403) return new EngineError('DESTINATION_DENIED', { detail });
  if (status === 404) return new EngineError('REPOSITORY_MISSING', { detail });
  return new EngineError('DESTINATION_UNREACHABLE', { detail });
}

/** The network settings of restic for a destination. */
interface EngineRoute {
  /** With the agent's authorities, if the administrator has added some. */
  destination: Destination;
  /** The address of a local proxy. */
  proxy: string | undefined;
  close: () => void;
}

/**
 * The agent's network route, for restic: through its proxy and with its authorities. The proxy is used for encrypted
 * connections only; unencrypted ones are for laboratories.
 */
export async function openRoute(
  network: Network,
  destination: Destination,
  folder: string,
): Promise<EngineRoute> {
  if (destination.type === 'local') return { destination, proxy: undefined, close: () => {} };
  const url = new URL(destination.type === 's3' ? destination.endpoint : destination.url);
  const { proxy, caFile } = network.describe(url);
  const relay = proxy === null || url.protocol !== 'https:' ? undefined : await network.relay(url);
  return {
    destination:
      caFile === null ? destination : { ...destination, caFile: await allAuthorities(network, folder) },
    proxy: relay?.address,
    close: () => relay?.close(),
  };
}

/** restic trusts either the authorities of the system or those of a file, so the file contains both. */
async function allAuthorities(network: Network, folder: string): Promise<string> {
  const file = path.join(folder, 'authorities.pem');
  const handle = await replaceFile(file, Buffer.from(network.authorities().join('\n')));
  await handle.close();
  return file;
}
