import { clock } from '../../clock.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { BundleReader, type BundleReport, type BundleTrust } from '../../features/audit/bundle.ts';
import { LINE_END, linesIn, ParallelCheck, VerifyWorkerPool } from '../../features/audit/parallel-check.ts';
import { PublicKey, fingerprintOf } from '../../features/audit/chain.ts';
import type { Fault } from '../../features/audit/chain-check.ts';

/** The result of a verification. */
interface Report {
  chains: number;
  entries: number;
  checkpoints: number;
  faults: readonly Fault[];
  keys: readonly PublicKey[];
  /** Keys in the database that are not trusted. */
  foreignKeys: readonly string[];
  /** The bundle contains pruned entries, up to the one that `head` names. */
  isArchive?: boolean;
  head?: { seq: number } | undefined;
  /** The keys came with the bundle, so a person must compare their fingerprints. */
  keysFromBundle?: boolean;
}

export const isIntact = ({ faults, foreignKeys }: Pick<Report, 'faults' | 'foreignKeys'>) =>
  faults.length === 0 && foreignKeys.length === 0;

/** Prints the report and returns the exit code. */
export function printReport(
  { stdout }: CommandIo,
  report: Report,
  milliseconds: number,
  asJson: boolean,
): number {
  const keys = report.keys.map(({ keyId, publicKey }) => ({ keyId, fingerprint: fingerprintOf(publicKey) }));
  if (asJson) {
    stdout.write(`${JSON.stringify({ ok: isIntact(report), ...report, keys, milliseconds })}\n`);
    return isIntact(report) ? 0 : 1;
  }
  const rate = Math.round(report.entries / Math.max(milliseconds / 1000, 0.001));
  const lines = [
    ...report.faults.map(faultLine),
    ...report.foreignKeys.map((id) => `BAD  the signing key ${id} was not created by this installation`),
    ...keys.map(({ keyId, fingerprint }) => `key ${keyId}, fingerprint ${fingerprint}`),
    ...(report.isArchive === true
      ? [`This is an archive of entries removed from the chain, up to entry ${report.head?.seq}.`]
      : []),
    ...(report.keysFromBundle === true
      ? ['These keys came with the bundle. Compare them with GET /api/v1/audit-keys, or pass --keys.']
      : []),
    `${isIntact(report) ? 'OK ' : 'NOT INTACT'} ${report.entries} entries, ${report.checkpoints} checkpoints in ${report.chains} chains; ${(milliseconds / 1000).toFixed(1)} s, ${rate} entries/s`,
  ];
  stdout.write(`${lines.join('\n')}\n`);
  return isIntact(report) ? 0 : 1;
}

function faultLine({ chainId, seq, id, reason }: Fault): string {
  const where = seq === null ? '' : `, entry ${seq}${id === null ? '' : ` (${id})`}`;
  return `BAD  chain ${chainId}${where}: ${reason}`;
}

export async function verifyBundle(io: CommandIo, file: string, options: VerifyOptions): Promise<number> {
  const since = clock.monotonic();
  const keys = options.keys === undefined ? undefined : await readKeysFile(fileOf(io, options.keys));
  const known = options.known === undefined ? undefined : await checkBundleFile(fileOf(io, options.known));
  if (known?.fault !== undefined) throw new Error(`${options.known} is itself not intact.`);
  const head = known?.head;
  const report = await checkBundleFile(fileOf(io, file), {
    ...(keys === undefined ? {} : { keys }),
    ...(head === undefined ? {} : { known: [head] }),
  });
  if (options.org !== undefined && options.org !== report.chainId) {
    throw new Error(`${file} holds the chain of ${report.chainId}.`);
  }
  if (known !== undefined && known.chainId !== report.chainId) {
    throw new Error(`${options.known} and ${file} hold different chains.`);
  }
  return printReport(
    io,
    {
      ...report,
      chains: 1,
      faults: report.fault === undefined ? [] : [report.fault],
      foreignKeys: [],
      keysFromBundle: keys === undefined,
    },
    clock.monotonic() - since,
    options.json === true,
  );
}

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

/** The options of `muster audit verify`, as commander parses them. */
export interface VerifyOptions {
  bundle?: string;
  org?: string;
  database?: string | true;
  keys?: string;
  known?: string;
  json?: true;
}
