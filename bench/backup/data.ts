import { createHash, randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

const IN_FOLDER = 100;

/** Writes one file of the source. Half of each can be compressed, as usual data can. */
export async function writeFileOf(folder: string, n: number, size: number): Promise<void> {
  const within = path.join(folder, String(Math.floor(n / IN_FOLDER)));
  await mkdir(within, { recursive: true });
  const random = randomBytes(Math.ceil(size / 2));
  const text = Buffer.alloc(size - random.length, createHash('sha256').update(random).digest('hex'));
  await writeFile(path.join(within, String(n)), Buffer.concat([random, text]));
}
