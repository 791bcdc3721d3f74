import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { Config } from '../config.ts';
import { EngineError, probeEngine } from '../engine/index.ts';
import { makeEncryptionKey } from '../features/backup/index.ts';
import { withSystem } from '../platform/db/transaction.ts';
import type { Server } from '../server.ts';
import type { DemoClient } from './demo-client.ts';

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
  for (const until = Date.now() + JOB_TIMEOUT_MS; Date.now() < until; ) {
    const job = await client.get(`/backup/jobs/${id}`, Job);
    if (job.status === 'completed' || job.status === 'partial') return;
    if (job.finishedAt !== null) throw new Error(job.error?.message ?? `it ended as ${job.status}.`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error('it has not ended after two minutes.');
}

async function makeFolder(dataDir: string): Promise<string> {
  const folder = path.resolve(dataDir, 'files-to-back-up');
  await mkdir(path.join(folder, 'reports'), { recursive: true });
  await writeFile(
    path.join(folder, 'read-me.txt'),
    'Change or delete this file, and restore it from its backup.\n',
  );
  const rows = Array.from(
    { length: 2000 },
    (_none, day) => `${day},${Math.round(1000 + 200 * Math.sin(day / 30))}`,
  );
  await writeFile(path.join(folder, 'reports', 'figures.csv'), `day,visits\n${rows.join('\n')}\n`);
  return folder;
}
