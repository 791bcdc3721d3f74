import type { FileHandle } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';
import * as zlib from 'node:zlib';
import type { Transform } from 'node:stream';
import { AgentErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { streamBytes } from '../../../os/processes/child-process.ts';
import { findProgram } from '../../../os/processes/find-program.ts';

/** How a rotated part is compressed, by the end of its name. */
export const PACKINGS = ['gz', 'xz', 'zst', 'bz2', 'lz4', 'lzma', 'Z'] as const;
export type Packing = (typeof PACKINGS)[number];

/** The content of a compressed file; `undefined` where this machine has no program for it. */
export type Unpack = (
  packing: Packing,
  packed: FileHandle,
  signal: AbortSignal,
) => Promise<AsyncIterable<Buffer> | undefined>;

/** The programs that are part of most systems. Each reads its input and writes its output. */
const PROGRAMS: Readonly<Record<Exclude<Packing, 'gz'>, readonly [names: string[], ...args: string[]]>> = {
  xz: [['xz'], '-dc'],
  lzma: [['xz'], '--format=lzma', '-dc'],
  zst: [['zstd'], '-dcq', '--long=31'],
  bz2: [['bzip2'], '-dc'],
  lz4: [['lz4'], '-dc'],
  Z: [['gzip', 'uncompress'], '-dc'],
};

/** Unpacks in this process what Node.js can, and the rest with the programs of the machine. */
export const unpack: Unpack = async (packing, packed, signal) => {
  const inProcess = packing === 'gz' ? createGunzip() : packing === 'zst' ? zstdOfNode() : undefined;
  if (inProcess !== undefined) return through(packed, inProcess);
  if (packing === 'gz') return undefined;
  const [names, ...args] = PROGRAMS[packing];
  const program = await findProgram(names);
  return program === undefined ? undefined : streamBytes(program, args, { signal, stdin: packed.fd });
};

/** Nothing is read before the first chunk is asked for, so that no error comes while nobody waits for it. */
async function* through(packed: FileHandle, transform: Transform): AsyncGenerator<Buffer, void> {
  const source = packed.createReadStream({ start: 0, autoClose: false });
  source.on('error', (error) => transform.destroy(error));
  try {
    yield* source.pipe(transform) as AsyncIterable<Buffer>;
  } finally {
    source.destroy();
  }
}

/** Node.js has zstd from 22.15 on. */
function zstdOfNode(): Transform | undefined {
  const create: unknown = Reflect.get(zlib, 'createZstdDecompress');
  if (typeof create !== 'function') return undefined;
  const transform: unknown = create();
  return isTransform(transform) ? transform : undefined;
}

function isTransform(value: unknown): value is Transform {
  return typeof value === 'object' && value !== null && 'pipe' in value && 'destroy' in value;
}

export const noUnpacker = (packing: Packing) =>
  new AgentError(AgentErrorCode.failed, `this machine has no program that unpacks .${packing} files.`);
