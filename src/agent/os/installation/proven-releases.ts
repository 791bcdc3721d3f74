import path from 'node:path';
import { z } from 'zod';
import { UpgradableComponent } from '../../../protocol/index.ts';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';
import { compareReleases, ReleaseVersion } from './release-version.ts';

/** What has been healthy on this machine, for each component. */
const Proven = z.object({
  /** The highest version that was ever healthy: no older one is started, except by a pin. */
  floor: ReleaseVersion.optional(),
  /** The versions that were healthy, the newest first. A roll-back goes to one of them. */
  healthy: z.array(ReleaseVersion).max(10).default([]),
  /** A version below the floor that the server has named explicitly, by a pin. */
  pinned: ReleaseVersion.optional(),
});
export type Proven = z.infer<typeof Proven>;
const ProvenFile = z.partialRecord(UpgradableComponent, Proven);

const KEEP = 3;
const fileIn = (dataDir: string) => path.join(dataDir, 'upgrades', 'proven.json');

async function load(dataDir: string): Promise<z.infer<typeof ProvenFile>> {
  const kept = ProvenFile.safeParse(await readPrivateJson(fileIn(dataDir)).catch(() => undefined));
  return kept.success ? kept.data : {};
}

export async function provenReleases(dataDir: string, component: UpgradableComponent): Promise<Proven> {
  return (await load(dataDir))[component] ?? { healthy: [] };
}

/**
 * The floor that a start of this version must respect: none where it has been healthy here, so that a roll-back finds
 * it, and none where a pin names it. Pure.
 */
export const floorForStart = ({ floor, healthy, pinned }: Proven, version: string): string | undefined =>
  pinned === version || healthy.includes(version) ? undefined : floor;

/** The version was healthy: it becomes the first choice, and older ones are refused from now on. Pure. */
export function afterHealthy({ floor, healthy, pinned }: Proven, version: string): Proven {
  const isHigher = floor === undefined || compareReleases(version, floor) > 0;
  return {
    floor: isHigher ? version : floor,
    healthy: [version, ...healthy.filter((each) => each !== version)].slice(0, KEEP),
    // A pin ends with the next version that needs none.
    ...(pinned === version && !isHigher ? { pinned } : {}),
  };
}

/**
 * The version was rolled back. One that was taken to be healthy before is no release to go back to, and no floor any more.
 * Pure.
 */
export function afterRollback({ floor, healthy, pinned }: Proven, version: string): Proven {
  const kept = pinned === undefined || pinned === version ? {} : { pinned };
  if (healthy[0] !== version) return { floor, healthy, ...kept };
  const others = healthy.filter((each) => each !== version);
  const highest = [...others].sort(compareReleases).at(-1);
  return { floor: floor === version ? highest : floor, healthy: others, ...kept };
}

export async function changeProven(
  dataDir: string,
  component: UpgradableComponent,
  change: (proven: Proven) => Proven,
): Promise<void> {
  const all = await load(dataDir);
  await writePrivateJson(fileIn(dataDir), { ...all, [component]: change(all[component] ?? { healthy: [] }) });
}
