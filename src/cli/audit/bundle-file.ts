import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { StringDecoder } from 'node:string_decoder';
import { z } from 'zod';
import { BundleReader, type BundleReport, type BundleTrust } from '../../features/audit/bundle.ts';
import { PublicKey } from '../../features/audit/checkpoint.ts';

/** Reads a bundle from a file, with memory that does not grow with it. */
export async function checkBundleFile(file: string, trust: BundleTrust = {}): Promise<BundleReport> {
  const reader = new BundleReader(trust);
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 18 })) {
    const lines = (rest + decoder.write(chunk as Buffer)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) reader.line(line);
  }
  rest += decoder.end();
  if (rest !== '') reader.line(rest);
  return reader.end();
}

/** The answer of GET /api/v1/audit-keys, as somebody saved it. */
export async function readKeysFile(file: string): Promise<PublicKey[]> {
  const parsed = z.object({ data: z.array(PublicKey) }).safeParse(JSON.parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file} is not an answer of GET /api/v1/audit-keys.`);
  return parsed.data.data;
}
