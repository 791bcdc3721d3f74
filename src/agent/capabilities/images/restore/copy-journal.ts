import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { appendPrivate, readPrivateFile, replaceFile } from '../../../os/files/private-file.ts';

/** What of a disk has arrived at its target, extent by extent, so that a copy that was interrupted goes on. */

/** What the target is to become. A journal of anything else is not continued. */
export const CopyIdentity = z.object({
  snapshotId: z.string(),
  disk: z.string(),
  sizeBytes: z.number(),
  target: z.string(),
  extentBytes: z.number().int().positive(),
});
export type CopyIdentity = z.infer<typeof CopyIdentity>;

const Line = z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/) });

export class CopyJournal {
  readonly #file: string;
  readonly #identity: CopyIdentity;
  /** The hash of each extent, from the first on. */
  readonly hashes: string[];

  private constructor(file: string, identity: CopyIdentity, hashes: string[]) {
    this.#file = file;
    this.#identity = identity;
    this.hashes = hashes;
  }

  static async open(file: string, identity: CopyIdentity): Promise<CopyJournal> {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    const hashes = hashesOf((await readPrivateFile(file)) ?? '', identity);
    const journal = new CopyJournal(file, identity, hashes);
    await journal.keep(hashes.length);
    return journal;
  }

  /** Forgets the extents from this one on. */
  async keep(count: number): Promise<void> {
    this.hashes.length = Math.min(count, this.hashes.length);
    const lines = [this.#identity, ...this.hashes.map((sha256) => ({ sha256 }))];
    const handle = await replaceFile(
      this.#file,
      Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join('')),
    );
    await handle.close();
  }

  async add(sha256: string): Promise<void> {
    await appendPrivate(this.#file, `${JSON.stringify({ sha256 })}\n`);
    this.hashes.push(sha256);
  }

  async remove(): Promise<void> {
    await rm(this.#file, { force: true });
  }
}

/** None where the journal is of another copy. A torn line at its end is an extent that has to be copied again. */
function hashesOf(text: string, identity: CopyIdentity): string[] {
  const [first, ...lines] = text.split('\n');
  const found = CopyIdentity.safeParse(parsed(first ?? ''));
  const expected = JSON.stringify(CopyIdentity.parse(identity));
  if (!found.success || JSON.stringify(found.data) !== expected) return [];
  const hashes: string[] = [];
  for (const line of lines) {
    const entry = Line.safeParse(parsed(line));
    if (!entry.success) break;
    hashes.push(entry.data.sha256);
  }
  return hashes;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
