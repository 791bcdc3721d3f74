import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { BundleReader, type BundleReport, type BundleTrust } from '../../features/audit/chain/bundle.ts';
import { LINE_END, linesIn } from '../../features/audit/verification/line-chunk.ts';
import { ParallelCheck } from '../../features/audit/verification/parallel-check.ts';
import { VerifyWorkerPool } from '../../features/audit/verification/verify-worker-pool.ts';
import { PublicKey } from '../../features/audit/chain/checkpoint.ts';

/** Verifies a bundle file in constant memory. */
export async function checkBundleFile(file: string, trust: BundleTrust = {}): Promise<BundleReport> {
  const reader = new BundleReader(trust);
  const workers = new VerifyWorkerPool();
  const lines = new ParallelCheck(
    {
      format: 'bundle',
      line: (line) => reader.line(line.toString()),
      segment: (segment) => reader.segment(segment),
    },
    workers,
  );
  try {
    let rest: Buffer = Buffer.alloc(0);
    for await (const chunk of createReadStream(file, { highWaterMark: 1 << 18 })) {
      const bytes = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]);
      const whole = bytes.lastIndexOf(LINE_END) + 1;
      for (const line of linesIn(bytes.subarray(0, whole))) {
        const room = lines.add(line);
        if (room !== undefined) await room;
      }
      rest = bytes.subarray(whole);
    }
    if (rest.length > 0) await lines.add(rest);
    await lines.end();
  } finally {
    await workers.close();
  }
  return reader.end();
}

/** Reads a saved response of GET /api/v1/audit-keys. */
export async function readKeysFile(file: string): Promise<PublicKey[]> {
  const parsed = z.object({ data: z.array(PublicKey) }).safeParse(JSON.parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file} is not a response of GET /api/v1/audit-keys.`);
  return parsed.data.data;
}
