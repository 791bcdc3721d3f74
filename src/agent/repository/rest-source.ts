import { z } from 'zod';
import { EngineError, type ObjectSource, type ObjectType } from '../../engine/index.ts';
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
/** Larger than every object that restic writes: a pack has at most 128 MiB and its last blob. */
const OBJECT_MAX = 512 * 1024 * 1024;

const Listed = z.array(z.object({ name: z.string().regex(NAME), size: z.number().int().nonnegative() }));

export interface RestAccess {
  network: Network;
  /** Of the repository, with a slash at its end. */
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
