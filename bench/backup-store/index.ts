import { spawn } from 'node:child_process';
import { createHash, randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openPool } from '../../src/platform/db/pool.ts';
import { basic, buildRepository, issue, storeUrl } from '../../test/support/backup/store-support.ts';
import { killProgram } from '../../test/support/program.ts';
import { startServerProcess } from '../../test/support/started-server.ts';
import { call } from '../../test/support/test-app.ts';
import { createTestDatabase, stopTestPostgres } from '../../test/support/test-postgres.ts';

/**
 * `npm run bench:backup-store` sends packs to the backup store from ten devices at once, and the same bytes to a bare
 * server that hashes them, writes them and synchronizes them to the disk. Both are processes of their own, in turns in
 * the same run. The store also checks the credential, its limits, length and hash, links the object and records it. Exit code 1 where it reaches less than 0.8 of the
 * bare server, or where its memory grows by more than 50 MB during the uploads.
 */

const CLIENTS = 10;
const PACK_BYTES = 16 << 20;
const PACKS = 3;
const ROUNDS = 5;

const PACKS_OF_CLIENTS = Array.from({ length: CLIENTS }, () =>
  Array.from({ length: PACKS }, () => ({ bytes: randomFillSync(Buffer.allocUnsafe(PACK_BYTES)), name: '' })),
);
let objects = 0;

const RATIO_MIN = 0.8;
const GROWTH_MAX_MB = 50;

const JWT_SECRET = 'a-secret-that-only-benchmarks-sign-with';
const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
const folder = await mkdtemp(path.join(tmpdir(), 'muster-bench-store-'));
const database = await createTestDatabase();
const pool = openPool(database.appUrl, { max: 2, name: 'bench' });
const server = await startServerProcess({
  DATABASE_URL: database.ownerUrl,
  DATABASE_URL_APP: database.appUrl,
  JWT_SECRET,
  SECRET_ENCRYPTION_KEY: 'a-key-that-only-benchmarks-seal-secrets-with',
  DATA_DIR: folder,
});
const bareFolder = path.join(folder, 'bare');
await mkdir(bareFolder);
const bare = spawn(
  process.execPath,
  [
    fileURLToPath(new URL('../../src/run.mjs', import.meta.url)),
    fileURLToPath(new URL('bare-server.ts', import.meta.url)),
    bareFolder,
  ],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);
try {
  const [line] = (await once(bare.stdout, 'data')) as [Buffer];
  const bareUrl = String(line).trim();
  const ground = {
    call: (method: string, where: string, options = {}) =>
      call(`${server.url}/api/v1${where}`, method, options),
    log: [],
    jwtSecret: JWT_SECRET,
    server: { database: { pool } },
  };
  const devices = await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const { id } = await buildRepository(ground);
      return { url: storeUrl(server.url, id), authorization: basic(await issue(ground, id, 'device')) };
    }),
  );
  const toStore = (device: number, name: string) => ({
    url: `${devices[device]?.url}data/${name}`,
    authorization: devices[device]?.authorization ?? '',
  });
  const toBare = () => ({ url: bareUrl, authorization: '' });

  await round(toBare);
  await round(toStore);
  const memoryBefore = await residentMb(server.child.pid);
  let memoryMax = memoryBefore;
  const watching = new AbortController();
  const watch = (async () => {
    while (!watching.signal.aborted && server.child.exitCode === null && !server.child.killed) {
      memoryMax = Math.max(memoryMax, await residentMb(server.child.pid));
      await sleep(50);
    }
  })();
  const rates: { bare: number; store: number }[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    rates.push({ bare: await round(toBare), store: await round(toStore) });
    await rm(bareFolder, { recursive: true });
    await mkdir(bareFolder);
  }
  watching.abort();
  await watch;
  const ratios = rates.map(({ bare: baseline, store }) => store / baseline).toSorted((a, b) => a - b);
  const ratio = ratios[Math.floor(ratios.length / 2)] ?? 0;
  const growth = memoryMax - memoryBefore;
  console.table(rates.map((rate) => ({ bare: Math.round(rate.bare), store: Math.round(rate.store) })));
  console.log(
    JSON.stringify({
      unit: 'MiB/s',
      clients: CLIENTS,
      mebibytesEachRound: (CLIENTS * PACKS * PACK_BYTES) >> 20,
      medianRatio: Number(ratio.toFixed(2)),
      memoryBeforeMb: Math.round(memoryBefore),
      memoryMaxMb: Math.round(memoryMax),
    }),
  );
  if (ratio < RATIO_MIN || growth > GROWTH_MAX_MB) process.exitCode = 1;
} finally {
  bare.kill('SIGKILL');
  await killProgram(server);
  agent.destroy();
  await pool.destroy();
  await database.drop();
  await stopTestPostgres();
  await rm(folder, { recursive: true, force: true });
}

/** All clients send all of their packs, each one after another; answers MiB a second. */
async function round(
  target: (device: number, name: string) => { url: string; authorization: string },
): Promise<number> {
  for (const packs of PACKS_OF_CLIENTS) {
    for (const pack of packs) {
      // Each object is new to the store.
      pack.bytes.writeUInt32LE(++objects);
      pack.name = createHash('sha256').update(pack.bytes).digest('hex');
    }
  }
  const since = performance.now();
  await Promise.all(
    PACKS_OF_CLIENTS.map(async (packs, device) => {
      for (const { bytes, name } of packs) await post(target(device, name), bytes);
    }),
  );
  const seconds = (performance.now() - since) / 1000;
  return (CLIENTS * PACKS * PACK_BYTES) / 2 ** 20 / seconds;
}

function post({ url, authorization }: { url: string; authorization: string }, body: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-length': body.length, ...(authorization === '' ? {} : { authorization }) };
    const outgoing = request(url, { method: 'POST', agent, headers }, (answer) => {
      answer.resume();
      answer.once('end', () => {
        if (answer.statusCode === 200) resolve();
        else reject(new Error(`the server answered ${answer.statusCode}`));
      });
    });
    outgoing.once('error', reject);
    outgoing.end(body);
  });
}

async function residentMb(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1000;
}
