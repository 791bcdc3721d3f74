import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { canonicalPath, pathBytes } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';

/** In the one way in which it is written: one slash before each name, and none at the end. */
export const normalPath = (path: string): string =>
  `/${canonicalPath(path)
    .split('/')
    .filter((name) => name !== '')
    .join('/')}`;

/** A path as it stands in the snapshot, as `pathText` writes it: with slashes, from its root. */
export const SnapshotPath = z
  .string()
  .max(32_000)
  .refine(
    (each) => each.startsWith('/') && !each.includes('\0'),
    'must be a path from the root of the snapshot',
  )
  .refine(
    (each) => !each.split('/').some((name) => name === '..' || name === '.'),
    'must not contain . or ..',
  )
  .overwrite(normalPath);

/** Whether restic can be given a path: arguments of programs are characters. */
export const isArgument = (path: string): boolean => isUtf8(pathBytes(path));

export function argumentOf(path: string): string {
  const bytes = pathBytes(path);
  if (!isUtf8(bytes)) throw new EngineError('PATH_MISSING', { detail: 'It is not UTF-8.' });
  return Buffer.from(bytes).toString('utf8');
}
