import { createHash, createCipheriv } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import {
  backup,
  folderSource,
  initRepository,
  listEntries,
  openEngine,
  openRepository,
  probeEngine,
  type Repository,
} from '../src/engine/index.ts';

/**
 * `npm run bench:backup-browse` backs up a tree of folders of 10,000 files with the real restic, and lists folders of
 * the snapshot with the reader and, for comparison in the same run, with restic. `FOLDERS=100` is a million files.
 */

const FOLDERS = Number(process.env['FOLDERS'] ?? 20);
const FILES = 10_000;
const TURNS = 60;

const host = { PATH: process.env['PATH'] };
const folder = await mkdtemp(path.join(tmpdir(), 'muster-browse-'));
try {
  const source = path.join(folder, 'source');
  for (let at = 0; at < FOLDERS; at++) {
    const within = path.join(source, `folder-${at}`);
    await mkdir(within, { recursive: true });
    for (let file = 0; file < FILES; file += 200) {
      await Promise.all(
        Array.from({ length: 200 }, (_, next) =>
          writeFile(path.join(within, `document-${file + next}.txt`), ''),
        ),
      );
    }
  }
  const program = await probeEngine({ searchPath: host.PATH });
  const engine = await openEngine(program, { folder: path.join(folder, 'engine'), host });
  const place = path.join(folder, 'repository');
  const repository: Repository = { destination: { type: 'local', path: place }, password: 'bench-password' };
  await initRepository(engine, repository);
  const made = await timed(() => backup(engine, repository, { paths: [source], host: 'bench' }));
  const snapshotId = made.value.snapshotId ?? '';

  const query = { password: repository.password };
  const opened = await timed(() => openRepository(folderSource(place), query));
  const cold: number[] = [];
  const warm: number[] = [];
  const processor: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    // One after another, so that no folder is still in memory from the turn before.
    const within = path.join(source, `folder-${turn % FOLDERS}`);
    const list = (offset: number) =>
      opened.value.listFolder({ snapshotId, path: within, offset, limit: FILES });
    const before = process.cpuUsage();
    const first = await timed(() => list(0));
    const { user, system } = process.cpuUsage(before);
    processor.push(Math.round((user + system) / 1000));
    if (first.value.total !== FILES) throw new Error(`${first.value.total} entries`);
    cold.push(first.ms);
    warm.push((await timed(() => list(5000))).ms);
  }
  const restic = await timed(async () => {
    let count = 0;
    const within = path.join(source, 'folder-0');
    for await (const _ of listEntries(engine, repository, { snapshotId, folder: within })) count += 1;
    if (count !== FILES) throw new Error(`${count} entries`);
  });
  console.table({
    'backup ms': { value: made.ms },
    'open the reader ms': { value: opened.ms },
    'folder of 10,000, p50 ms': { value: percentile(cold, 50) },
    'folder of 10,000, p95 ms': { value: percentile(cold, 95) },
    'folder of 10,000, p95 processor ms': { value: percentile(processor, 95) },
    'next page, p95 ms': { value: percentile(warm, 95) },
    'restic ls of the folder ms': { value: restic.ms },
    'processor ms for 16 MiB of SHA-256 and AES': { value: baseline() },
    'resident MB': { value: Math.round(process.memoryUsage().rss / 1e6) },
  });
  console.log(JSON.stringify({ files: FOLDERS * FILES, p95: percentile(cold, 95), restic: restic.ms }));
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** What the machine does in the same run, to compare runs by. */
function baseline(): number {
  const bytes = new Uint8Array(16 * 1024 * 1024);
  const before = performance.now();
  createHash('sha256').update(bytes).digest();
  createCipheriv('aes-256-ctr', new Uint8Array(32), new Uint8Array(16)).update(bytes);
  return Math.round(performance.now() - before);
}

async function timed<T>(work: () => Promise<T>): Promise<{ ms: number; value: T }> {
  const before = performance.now();
  const value = await work();
  return { ms: Math.round(performance.now() - before), value };
}

function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? 0;
}
