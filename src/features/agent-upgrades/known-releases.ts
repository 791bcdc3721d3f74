import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AgentRelease, type ReleaseKeys, compareVersions } from '../releases/index.ts';
import type { LiveRollout, KnownReleases, Platform } from './resolve-target.ts';
import { type EffectiveSettings, PinnedComponent } from './upgrade.schema.ts';
import type { Context } from '../../platform/context.ts';
import { invalid } from '../../platform/errors.ts';
import type { Db } from '../../platform/db/pool.ts';

type IsTrusted = (release: AgentRelease) => boolean;

/** Checks the signatures of releases in requests of tenants, who cannot read the keys. */
export class ReleaseTrust {
  readonly #db: Db;
  readonly #keys: ReleaseKeys;
  #known: { ids: ReadonlySet<string>; isTrusted: IsTrusted } | undefined;

  /** @param db  another pool than that of requests: a request holds a connection of its own while it waits here */
  constructor(db: Db, keys: ReleaseKeys) {
    this.#db = db;
    this.#keys = keys;
  }

  /** Reads the keys again only if a release has one that is not known yet, as after a rotation. */
  async verifier(releases: readonly Pick<AgentRelease, 'keyId'>[]): Promise<IsTrusted> {
    const known = this.#known;
    if (known !== undefined && releases.every(({ keyId }) => known.ids.has(keyId))) return known.isTrusted;
    this.#known = await withSystem(this.#db, 'read the keys that sign releases', async (tx) => ({
      ids: new Set((await this.#keys.publicKeys(tx)).keys()),
      isTrusted: await this.#keys.verifier(tx),
    }));
    return this.#known.isTrusted;
  }
}

/** Named in the refusal of another one. */
const LISTED_MAX = 50;

/** The pins of `settings.agentUpdates`, as a request sends them. */
type SentPins = { [C in PinnedComponent]?: string | null | undefined } | null | undefined;

/** Throws unless each version that is pinned is registered for its component: nothing could be upgraded to another one. */
export async function assertRegisteredPins({ tx }: Pick<Context, 'tx'>, pins: SentPins): Promise<void> {
  for (const component of PinnedComponent.options) {
    const pin = pins?.[component];
    if (pin == null || pin === 'latest') continue;
    const rows = await AgentRelease.query(tx).where({ component }).distinct('version');
    const versions = rows.map(({ version }) => version).toSorted((a, b) => compareVersions(b, a));
    if (versions.some((version) => version === pin)) continue;
    const known = versions.slice(0, LISTED_MAX).join(', ');
    const more = versions.length > LISTED_MAX ? ', …' : '';
    throw invalid(
      `body.settings.agentUpdates.pins.${component}`,
      versions.length === 0
        ? `must be "latest": no version of the ${component} is registered`
        : `must be "latest" or a registered version: ${known}${more}`,
    );
  }
}

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

/** The same for all platforms, if one version is rolled out. Signatures are judged when a release is offered. */
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
