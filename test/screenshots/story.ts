import { z } from 'zod';
import type { DemoProcess } from '../support/demo-process.ts';
import { eventually } from '../support/eventually.ts';

/** What the pictures show of the demo: the ids that their addresses need. */
export interface Story {
  /** The device whose disk fails. */
  deviceId: string;
  filterId: string;
  snapshotId: string;
  /** The folder that was backed up. */
  folder: string;
}

const PATIENCE_MS = 120_000;
const Alerts = z.object({ data: z.array(z.object({ deviceId: z.string() })) });
const Named = z.object({ data: z.array(z.object({ id: z.string(), name: z.string() })) });
const Snapshots = z.object({ data: z.array(z.object({ id: z.string() })) });
const Configs = z.object({
  data: z.array(z.object({ sources: z.object({ paths: z.record(z.string(), z.array(z.string())) }) })),
});

export async function readStory({ get }: DemoProcess): Promise<Story> {
  // The server raises it with its next round.
  const alerts = await eventually(
    async () => Alerts.parse(await get('/alerts?kind=disk_full&status=active')),
    ({ data }) => data.length > 0,
    PATIENCE_MS,
  );
  const filters = Named.parse(await get('/filters')).data;
  const snapshots = Snapshots.parse(await get('/backup/snapshots')).data;
  const [config] = Configs.parse(await get('/backup/configs')).data;
  return {
    deviceId: given(alerts.data[0]?.deviceId, 'a disk that is almost full'),
    filterId: given(filters.find(({ name }) => name === 'To be replaced')?.id, 'the filter'),
    snapshotId: given(snapshots[0]?.id, 'a snapshot; is restic installed?'),
    folder: given(Object.values(config?.sources.paths ?? {}).flat()[0], 'a folder that is backed up'),
  };
}

function given<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`The demo does not have ${what}.`);
  return value;
}
