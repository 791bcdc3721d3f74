import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { BundleReader, type BundleReport, type BundleTrust } from '../../features/audit/bundle.ts';
import { PublicKey } from '../../features/audit/checkpoint.ts';

const LINE_END = 0x0a;

/** Reads a bundle from a file, with memory that does not grow with it. */
export async function checkBundleFile(file: string, trust: BundleTrust = {}): Promise<BundleReport> {
  const reader = new BundleReader(trust);
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 18 })) {
    const bytes = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]);
    let from = 0;
    for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
      // Line by line, since a text is slow to read as soon as one character in it is not of the smallest kind.
      reader.line(bytes.toString('utf8', from, end));
      from = end + 1;
    }
    rest = bytes.subarray(from);
  }
  if (rest.length > 0) reader.line(rest.toString());
  return reader.end();
}

/** The answer of GET /api/v1/audit-keys, as somebody saved it. */
export async function readKeysFile(file: string): Promise<PublicKey[]> {
  const parsed = z.object({ data: z.array(PublicKey) }).safeParse(JSON.parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file} is not an answer of GET /api/v1/audit-keys.`);
  return parsed.data.data;
}
