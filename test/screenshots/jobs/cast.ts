import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { describeSynthetic } from '../../../src/agent/simulator/synthetic-machine.ts';
import type { DemoProcess } from '../../support/demo-process.ts';
import { eventually } from '../../support/eventually.ts';
import type { Story } from '../story.ts';

/** The devices and people of the demo that the jobs are about. */
export interface Cast {
  user: { name: string; device: string };
  offline: string;
  failing: string;
  /** One for each walk: a machine that restarts is away for a while. */
  restarted: readonly [string, string];
  backedUp: string;
  /** Devices that wait for approval, one for each walk. */
  waiting: readonly [string, string];
}

const PATIENCE_MS = 60_000;
const Found = z.object({
  results: z.array(z.object({ type: z.string(), title: z.string(), description: z.string().optional() })),
});
const Devices = z.object({ data: z.array(z.object({ id: z.string(), hostname: z.string() })) });
const Device = z.object({ hostname: z.string(), displayName: z.string().nullable() });
const Snapshot = z.object({ deviceId: z.string() });
const Keys = z.array(z.object({ key: z.string() })).min(1);

export async function castOf(demo: DemoProcess, story: Story, dataDir: string): Promise<Cast> {
  const { get } = demo;
  const users = await eventually(
    async () => Found.parse(await get('/search?q=office%5C&limit=50')).results,
    (results) => results.some(({ description = '' }) => description.startsWith('Last user')),
    PATIENCE_MS,
  );
  const used = given(users.find(({ description = '' }) => description.startsWith('Last user')));
  const [offline] = Devices.parse(await get('/devices?status=offline&limit=1')).data;
  const online = Devices.parse(
    await get('/devices?status=online&limit=20&sort=hostname&order=desc&osType=windows'),
  ).data;
  const nameOf = async (id: string) => {
    const { displayName, hostname } = Device.parse(await get(`/devices/${id}`));
    return displayName ?? hostname;
  };
  const { deviceId } = Snapshot.parse(await get(`/backup/snapshots/${story.snapshotId}`));
  const failing = await nameOf(story.deviceId);
  const others = online.filter(({ hostname }) => hostname !== failing && hostname !== used.title);
  return {
    user: { name: given(used.description?.split('\\')[1]), device: used.title },
    offline: given(offline).hostname,
    failing,
    restarted: [given(others[0]).hostname, given(others[1]).hostname],
    backedUp: await nameOf(deviceId),
    waiting: await enrollCopies(demo, dataDir),
  };
}

/** The demo has no device that waits for approval. Copies of connected machines enroll, as clones of a disk would. */
async function enrollCopies({ url, get }: DemoProcess, dataDir: string): Promise<[string, string]> {
  const read = async (file: string): Promise<unknown> => JSON.parse(await readFile(file, 'utf8')) as unknown;
  const { fleetId } = z
    .object({ fleetId: z.string() })
    .parse(await read(path.join(dataDir, 'fleet', 'fleet.json')));
  const keys = Keys.parse(await read(path.join(dataDir, 'demo-enrollment-keys.json')));
  const names = ['COPY-OF-A-DISK-1', 'COPY-OF-A-DISK-2'] as const;
  for (const [index, hostname] of names.entries()) {
    for (const { key } of keys) {
      const body = { ...describeSynthetic(index, fleetId), hostname, enrollmentKey: key };
      const answer = await fetch(`${url}/api/v1/agents/enroll`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const { status } = z.object({ status: z.string().optional() }).parse(await answer.json());
      // Only in the organization of the machine that it copies does it wait.
      if (status === 'pending') break;
    }
  }
  const waiting = Devices.parse(await get('/devices?status=pending')).data.map(({ hostname }) => hostname);
  if (!names.every((name) => waiting.includes(name))) throw new Error('The copies do not wait for approval.');
  return [...names];
}

function given<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The demo lacks a part of the jobs.');
  return value;
}
