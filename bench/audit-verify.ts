import { mkdtemp, rm, stat } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { checkBundleFile } from '../src/cli/audit/verify-bundle.ts';
import { lineWriter } from '../src/cli/audit/installation-audit.ts';
import { exportBundle } from '../src/features/audit/export.service.ts';
import { checkStored } from '../src/features/audit/stored-check.ts';
import { createAuditBench } from '../test/support/audit/audit-support.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:audit-verify` verifies one organization's chain of a million entries, in the database and as an
 * exported bundle. It prints entries per second and the growth of the heap. `ENTRIES=100000` shortens it.
 */

const ENTRIES = Number(process.env['ENTRIES'] ?? 1_000_000);
const CHUNK = 50_000;
const TURNS = 3;

const bench = await createAuditBench();
const folder = await mkdtemp(path.join(tmpdir(), 'muster-audit-'));
try {
  for (let done = 0; done < ENTRIES; done += CHUNK) {
    await bench.add(Math.min(CHUNK, ENTRIES - done), { name: 'Head office ' });
    await bench.sealer.flush();
  }
  await bench.owner('vacuum analyze audit_logs');
  const file = path.join(folder, 'bundle.jsonl');

  const exported = await timed(async () => {
    const output = createWriteStream(file);
    await exportBundle(bench.db, bench.orgId, lineWriter(output));
    output.end();
    await finished(output);
  });
  const stored = await turns(async () => {
    const report = await checkStored(bench.db, { own: bench.keys });
    if (report.entries !== ENTRIES || report.faults.length > 0) throw new Error(JSON.stringify(report));
  });
  const bundled = await turns(async () => {
    const report = await checkBundleFile(file);
    if (report.entries !== ENTRIES || report.fault !== undefined) throw new Error(JSON.stringify(report));
  });
  const { size } = await stat(file);
  console.table({ export: exported, 'verify the database': stored, 'verify a bundle': bundled });
  console.log(
    JSON.stringify({ entries: ENTRIES, bundleMB: Math.round(size / 1e6), exported, stored, bundled }),
  );
} finally {
  await bench.close();
  await stopTestPostgres();
  await rm(folder, { recursive: true, force: true });
}

interface Figure {
  seconds: number;
  'entries/s': number;
  'heap growth MB': number;
}

async function timed(work: () => Promise<void>): Promise<Figure> {
  const heap = process.memoryUsage().heapUsed;
  let peak = heap;
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().heapUsed)), 20);
  const since = performance.now();
  await work();
  const seconds = (performance.now() - since) / 1000;
  clearInterval(watch);
  return {
    seconds: Number(seconds.toFixed(2)),
    'entries/s': Math.round(ENTRIES / seconds),
    'heap growth MB': Math.round((peak - heap) / 1e6),
  };
}

/** The run with the median time. */
async function turns(work: () => Promise<void>): Promise<Figure> {
  const figures: Figure[] = [];
  for (let turn = 0; turn < TURNS; turn++) figures.push(await timed(work));
  return figures.sort((a, b) => a.seconds - b.seconds)[Math.floor(TURNS / 2)] as Figure;
}
