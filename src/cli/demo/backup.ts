import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { EngineError, probeEngine } from '../../engine/index.ts';
import { makeEncryptionKey } from '../../features/backup/index.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Server } from '../../server.ts';
import type { DemoClient } from './client.ts';

/** A backup of a small folder by the agent of this machine, so that there is something to browse and to restore. */

const NAME = 'Demo: files of this machine';
const JOB_TIMEOUT_MS = 120_000;

const Ids = z.object({ data: z.array(z.object({ id: z.string(), name: z.string() })) });
const Id = z.object({ id: z.string() });
const Device = z.object({ orgId: z.string(), osType: z.string() });
const Job = z.object({
  status: z.string(),
  finishedAt: z.string().nullable(),
  error: z.object({ message: z.string() }).nullable(),
});
const Found = z.object({ data: z.array(Id) });

/** Whether backups can be made here: restic is installed. */
export async function hasEngine({ backupStore }: Config): Promise<boolean> {
  try {
    await probeEngine({ searchPath: backupStore.enginePath });
    return true;
  } catch (error) {
    if (error instanceof EngineError) return false;
    throw error;
  }
}

interface Parts {
  server: Pick<Server, 'database' | 'secrets'>;
  client: DemoClient;
  deviceId: string;
  dataDir: string;
}

/** Makes the first backup; later starts keep it. Rejects with a reason for the user. */
export async function backUpThisMachine({ server, client, deviceId, dataDir }: Parts): Promise<void> {
  const { orgId, osType } = await client.get(`/devices/${deviceId}`, Device);
  const known = (await client.get(`/backup/configs?orgId=${orgId}`, Ids)).data.find(
    ({ name }) => name === NAME,
  );
  if (known !== undefined) {
    const snapshots = await client.get(`/backup/snapshots?deviceId=${deviceId}&configId=${known.id}`, Found);
    if (snapshots.data.length > 0) return;
  }
  const folder = await makeFolder(dataDir);
  const configId =
    known?.id ??
    (
      await client.post(
        '/backup/configs',
        {
          orgId,
          name: NAME,
          provider: 'server',
          // Over the API, a person needs a second factor to make a key.
          encryptionKeyId: await withSystem(server.database.pool, 'make the key of the demo', (tx) =>
            makeEncryptionKey(tx, { orgId, name: NAME }, server.secrets),
          ),
          sources: { paths: { [osType]: [folder] } },
          targets: { deviceIds: [deviceId] },
        },
        Id,
      )
    ).id;
  const { id } = await client.post(`/backup/jobs/run/${deviceId}`, { configId }, Id);
  for (const until = clock.now() + JOB_TIMEOUT_MS; clock.now() < until; ) {
    const job = await client.get(`/backup/jobs/${id}`, Job);
    if (job.status === 'completed' || job.status === 'partial') return;
    if (job.finishedAt !== null) throw new Error(job.error?.message ?? `it ended as ${job.status}.`);
    await clock.sleep(500);
  }
  throw new Error('it has not ended after two minutes.');
}

/** Text files, in folders as an office has them. */
async function makeFolder(dataDir: string): Promise<string> {
  const folder = path.resolve(dataDir, 'files-to-back-up');
  const rows = (count: number, step: number) =>
    Array.from(
      { length: count },
      (_none, nth) => `${nth},${Math.round(1000 + 200 * Math.sin(nth / step))}`,
    ).join('\n');
  const files: Record<string, string> = {
    'read-me.txt': 'Change or delete this file, and restore it from its backup.\n',
    'price list.csv': `item,price\n${rows(140, 5)}\n`,
    'opening hours.txt': 'Monday to Friday, 8:00 to 18:00\n',
    'contracts/2025 cleaning.txt': `The cleaning contract of 2025.\n${rows(400, 9)}\n`,
    'contracts/2026 cleaning.txt': `The cleaning contract of 2026.\n${rows(420, 9)}\n`,
    'invoices/2026-09.csv': `invoice,amount\n${rows(310, 7)}\n`,
    'invoices/2026-10.csv': `invoice,amount\n${rows(350, 8)}\n`,
    'reports/figures.csv': `day,visits\n${rows(2000, 30)}\n`,
  };
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  return folder;
}
