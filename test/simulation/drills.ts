import type { Scene } from './auditor.ts';
import type { Drill, Parts } from './drills/drill.ts';
import * as claims from './drills/claims.ts';
import * as devices from './drills/devices.ts';
import * as servers from './drills/servers.ts';
import * as stores from './drills/stores.ts';
import * as work from './drills/work.ts';

const DRILLS: readonly Drill[] = [work, devices, claims, servers, stores].flatMap((drills): Drill[] =>
  Object.values(drills),
);

/** One of the drills, as the seed chooses. @param only  the name of the only one to choose from */
export async function drill(scene: Scene, parts: Parts, only?: string): Promise<void> {
  const { world } = scene;
  const next = world.random('drills').pick(DRILLS.filter(({ name }) => only === undefined || name === only));
  world.history.note('world', `drill: ${next.name}`);
  await next(scene, parts);
}
