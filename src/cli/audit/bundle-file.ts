import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { BundleReader, type BundleReport, type BundleTrust } from '../../features/audit/chain/bundle.ts';
import { LINE_END, linesIn } from '../../features/audit/verification/line-chunk.ts';
import { ParallelCheck } from '../../features/audit/verification/parallel-check.ts';
import { VerifyWorkerPool } from '../../features/audit/verification/verify-worker-pool.ts';
import { PublicKey } from '../../features/audit/chain/checkpoint.ts';

/** Reads a bundle from a file, with memory that does not grow with it. */
export async function checkBundleFile(file: string, trust: BundleTrust = {}): Promise<BundleReport> {
  const reader = new BundleReader(trust);
  const workers = new VerifyWorkerPool();
  const lines = new ParallelCheck(
    { form: 'bundled', line: (line) => reader.line(line.toString()), run: (run) => reader.run(run) },
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

/** The answer of GET /api/v1/audit-keys, as somebody saved it. */
export async function readKeysFile(file: string): Promise<PublicKey[]> {
  const parsed = z.object({ data: z.array(PublicKey) }).safeParse(JSON.parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file} is not an answer of GET /api/v1/audit-keys.`);
  return parsed.data.data;
}
