import type { Tx } from '../../../platform/db/transaction.ts';
import { AgentRelease } from '../registry/release.model.ts';
import type { LiveRollout } from '../rollouts/wave.ts';
import type { IsTrusted, ReleaseTrust } from './release-trust.ts';
import type { KnownReleases, Platform } from './target-question.ts';
import { type EffectiveSettings, PinnedComponent } from './target.schema.ts';

/** Reads the releases of a platform that can be a target: the promoted, the pinned and those that are rolled out. */
export async function knownReleases(
  tx: Tx,
  { osType, architecture }: Platform,
  { pins, rollouts }: Pick<EffectiveSettings, 'pins'> & { rollouts: readonly LiveRollout[] },
  trust: ReleaseTrust,
): Promise<KnownReleases> {
  const wanted = [pins.agent.value, pins.watchdog.value, ...rollouts.map(({ version }) => version)];
  const releases = await readReleases(tx, wanted).where({ os: osType, architecture });
  return releasesAmong(releases, await trust.verifier(releases));
}

/** The same for all platforms, where one version is rolled out. Signatures are judged where a release is offered. */
export async function knownReleasesOfAll(tx: Tx, version: string): Promise<KnownReleases> {
  return releasesAmong(await readReleases(tx, [version]), () => true);
}

const readReleases = (tx: Tx, versions: readonly string[]) =>
  AgentRelease.query(tx)
    .whereIn('component', PinnedComponent.options)
    .where((either) => {
      void either.where({ promoted: true }).orWhereIn('version', versions);
    });

function releasesAmong(releases: readonly AgentRelease[], isTrusted: IsTrusted): KnownReleases {
  const find = (component: PinnedComponent, { osType, architecture }: Platform) =>
    releases.filter(
      (one) => one.component === component && one.os === osType && one.architecture === architecture,
    );
  return {
    promoted: (component, platform) => find(component, platform).find(({ promoted }) => promoted)?.version,
    build(component, version, platform) {
      const release = find(component, platform).find((one) => one.version === version);
      if (release === undefined) return undefined;
      return isTrusted(release) ? 'trusted' : 'untrusted';
    },
  };
}
