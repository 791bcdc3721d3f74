import { z } from 'zod';
import { readOutput } from '../processes/child-process.ts';
import type { GuestDisk } from './guest-definition.ts';

/** Files of disks, by `qemu-img`. */

const SHORT_MS = 60_000;

const Info = z.object({
  format: z.string(),
  'virtual-size': z.number().int().nonnegative(),
  'backing-filename': z.string().optional(),
});
export interface ImageInfo {
  format: string;
  virtualBytes: number;
  /** It lies on another file. */
  hasBase: boolean;
}

export async function imageInfo(tool: string, file: string): Promise<ImageInfo> {
  // A running guest has locked the file; its header can be read all the same.
  const words = ['info', '--output=json', '-U', fileWord(file)];
  const info = Info.parse(JSON.parse(await readOutput(tool, words, { timeoutMs: SHORT_MS })));
  return {
    format: info.format,
    virtualBytes: info['virtual-size'],
    hasBase: info['backing-filename'] !== undefined,
  };
}

/** An empty overlay. Its header names the base, so that it is known of each overlay whether it still needs one. */
export async function createOverlay(
  tool: string,
  file: string,
  base: NonNullable<GuestDisk['base']>,
): Promise<void> {
  const backing = {
    driver: 'raw',
    offset: base.offset,
    size: base.sizeBytes,
    file: { driver: 'file', filename: base.file },
  };
  const words = ['-f', 'qcow2', '-u', '-F', 'raw', '-b', `json:${JSON.stringify(backing)}`];
  await readOutput(tool, ['create', '-q', ...words, fileWord(file), String(base.sizeBytes)], {
    timeoutMs: SHORT_MS,
  });
}

export type ImageFormat = 'raw' | 'qcow2' | 'vhdx';

/** Copies a whole disk in another format; blocks of zeros stay holes. */
export async function convertImage(
  tool: string,
  { from, to, format }: { from: { file: string; format: 'raw' | 'qcow2' }; to: string; format: ImageFormat },
  signal: AbortSignal,
): Promise<void> {
  const words = ['-f', from.format, '-O', format, fileWord(from.file), fileWord(to)];
  await readOutput(tool, ['convert', '-q', '-W', ...words], { signal, timeoutMs: 24 * 3_600_000 });
  signal.throwIfAborted();
}

/** Without the word before it, `nbd:…` or `json:…` would be no file. */
const fileWord = (file: string) => `file:${file}`;
