import { clock } from '../../clock.ts';
import {
  EngineError,
  folderSource,
  type ObjectSource,
  type ObjectType,
  type Repository,
  openRepository,
  type ReadNames,
  type RepositoryReader,
} from '../../engine/index.ts';
import { AgentError } from '../core/agent-error.ts';
import type { Network } from '../os/network/network.ts';
import { restSource } from './rest-source.ts';
import type { RepositoryWork } from './repository-work.ts';

/** The objects of a repository, for our own reader. */
export function sourceOf({ destination }: Repository, network: Network, signal: AbortSignal): ObjectSource {
  if (destination.type === 'local') return folderSource(destination.path);
  if (destination.type === 's3') {
    throw new AgentError('DESTINATION_DENIED', 'Images in a bucket are restored with restic and tar.');
  }
  const { url, user = '', password = '' } = destination;
  const slash = url.endsWith('/') ? url : `${url}/`;
  return restSource({ network, url: new URL(slash), user, password, signal });
}

/** Longer than the restart of a server takes. */
const WAITS_MS = [500, 2000, 5000, 15_000, 30_000];

/** Retries while the store cannot be reached, so that one failed request does not end a long restore. */
export function patient(
  source: ObjectSource,
  signal: AbortSignal,
  waitsMs: readonly number[] = WAITS_MS,
): ObjectSource {
  async function often<T>(ask: () => Promise<T>): Promise<T> {
    for (const waitMs of [...waitsMs, undefined]) {
      try {
        return await ask();
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof EngineError && error.code !== 'DESTINATION_UNREACHABLE') throw error;
        if (waitMs === undefined) throw new EngineError('DESTINATION_UNREACHABLE', { cause: error });
        await clock.sleep(waitMs, { signal });
      }
    }
    throw new Error('no answer');
  }
  const listed = async (type: ObjectType) => {
    const all = [];
    for await (const each of source.list(type)) all.push(each);
    return all;
  };
  return {
    async *list(type) {
      yield* await often(() => listed(type));
    },
    get: (type, name, range) => often(() => source.get(type, name, range)),
  };
}

const KEPT_BYTES_MAX = 64 * 1024 * 1024;

/** Caches the parts of objects that were read last: small files that lie beside each other are in the same part. */
export function remembering(source: ObjectSource, maxBytes = KEPT_BYTES_MAX): ObjectSource {
  const kept = new Map<string, Uint8Array>();
  let bytes = 0;
  return {
    list: (type) => source.list(type),
    async get(type, name, range) {
      if (range === undefined) return source.get(type, name);
      const key = `${name} ${range.offset} ${range.length}`;
      const known = kept.get(key);
      const part = known ?? (await source.get(type, name, range));
      kept.delete(key);
      kept.set(key, part);
      if (known === undefined) bytes += part.byteLength;
      for (const [oldest, { byteLength }] of kept) {
        if (bytes <= maxBytes) break;
        kept.delete(oldest);
        bytes -= byteLength;
      }
      return part;
    },
  };
}

/**
 * Reads names of a snapshot that are not UTF-8, which restic cannot print. The repository is opened at the first such
 * name, because opening reads its index.
 */
export function snapshotNames(
  { repository, options: { signal } }: RepositoryWork,
  network: Network,
  snapshotId: string,
): ReadNames {
  let opening: Promise<RepositoryReader> | undefined;
  const open = () => {
    const { password, keyHint, destination } = repository;
    if (destination.type === 's3') {
      throw new AgentError(
        'DESTINATION_DENIED',
        'The snapshot has names that are not UTF-8. Restore it from the bucket with restic itself.',
      );
    }
    const objects = sourceOf(repository, network, signal);
    const source = remembering(destination.type === 'local' ? objects : patient(objects, signal));
    return openRepository(source, { password, ...(keyHint === undefined ? {} : { keyHint }) });
  };
  return async (path) => {
    opening ??= open();
    const { entries } = await (await opening).listFolder({ snapshotId, path, offset: 0, limit: Infinity });
    return entries.map(({ name }) => name);
  };
}
