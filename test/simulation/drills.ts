import type { Scene } from './auditor.ts';
import type { Drill, Parts } from './drills/drill.ts';
import * as devices from './drills/devices.ts';
import * as servers from './drills/servers.ts';
import * as stores from './drills/stores.ts';
import * as work from './drills/work.ts';

const DRILLS: readonly Drill[] = [work, devices, servers, stores].flatMap((drills) => Object.values(drills));

/** One of the drills, as the seed chooses. */
export async function drill(scene: Scene, parts: Parts): Promise<void> {
  const { world } = scene;
  const next = world.random('drills').pick(DRILLS);
  world.history.note('world', `drill: ${next.name}`);
  await next(scene, parts);
}
