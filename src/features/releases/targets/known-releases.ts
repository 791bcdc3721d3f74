import type { Tx } from '../../../platform/db/transaction.ts';
import { AgentRelease } from '../registry/release.model.ts';
import type { KnownReleases, Platform } from './target-question.ts';
import { type EffectiveSettings, PinnedComponent } from './target.schema.ts';

/** Reads the releases of a platform that can be a target under these settings: the promoted and the pinned ones. */
export async function knownReleases(
  tx: Tx,
  { osType, architecture }: Platform,
  { pins }: EffectiveSettings,
): Promise<KnownReleases> {
  const releases = await AgentRelease.query(tx)
    .select('component', 'version', 'promoted')
    .where({ os: osType, architecture })
    .whereIn('component', PinnedComponent.options)
    .where((either) => {
      void either.where({ promoted: true }).orWhereIn('version', [pins.agent.value, pins.watchdog.value]);
    });
  const isHere = (asked: Platform) => asked.osType === osType && asked.architecture === architecture;
  return {
    promoted: (component, platform) =>
      isHere(platform)
        ? releases.find((one) => one.component === component && one.promoted)?.version
        : undefined,
    // The server signs what it registers and verifies what it promotes; the agent verifies all that it installs.
    build: (component, version, platform) =>
      isHere(platform) && releases.some((one) => one.component === component && one.version === version)
        ? 'trusted'
        : undefined,
  };
}
