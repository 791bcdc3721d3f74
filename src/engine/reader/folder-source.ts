import { open, opendir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { ObjectRange, ObjectSource, ObjectType } from './object-source.ts';

const FOLDERS: Readonly<Record<ObjectType, string>> = {
  index: 'index',
  key: 'keys',
  snapshot: 'snapshots',
  data: 'data',
};
const NAME = /^[0-9a-f]{64}$/;
/** Larger than every object that restic writes: a pack has at most 128 MiB and its last blob. */
const OBJECT_MAX = 512 * 1024 * 1024;

/** A repository in a folder, as restic lays it out. */
export function folderSource(folder: string): ObjectSource {
  const pathOf = (type: ObjectType, name: string) => {
    if (!NAME.test(name)) throw new Error(`${name} is not the name of an object.`);
    return path.join(folder, FOLDERS[type], ...(type === 'data' ? [name.slice(0, 2)] : []), name);
  };
  return {
    async *list(type) {
      for await (const file of namesIn(path.join(folder, FOLDERS[type]), type === 'data')) {
        const name = path.basename(file);
        if (NAME.test(name)) yield { name, size: (await stat(file)).size };
      }
    },
    async get(type, name, range) {
      const handle = await open(pathOf(type, name), 'r');
      try {
        const { offset, length } = range ?? (await wholeRange(handle));
        if (length > OBJECT_MAX) throw new Error(`${name} is too large.`);
        const bytes = new Uint8Array(length);
        for (let done = 0; done < length; ) {
          const { bytesRead } = await handle.read(bytes, done, length - done, offset + done);
          if (bytesRead === 0) throw new Error(`${name} ends before byte ${offset + length}.`);
          done += bytesRead;
        }
        return bytes;
      } finally {
        await handle.close();
      }
    },
  };
}

async function wholeRange(handle: Awaited<ReturnType<typeof open>>): Promise<ObjectRange> {
  return { offset: 0, length: (await handle.stat()).size };
}

async function* namesIn(folder: string, isNested: boolean): AsyncGenerator<string, void> {
  for await (const entry of await opendir(folder)) {
    const file = path.join(folder, entry.name);
    if (isNested && entry.isDirectory()) yield* namesIn(file, false);
    else if (!isNested && entry.isFile()) yield file;
  }
}
