import type { HeartbeatAck } from '../../../../protocol/index.ts';
import type { AgentRelease } from '../../registry/release.model.ts';
import type { KnownReleases, Platform } from '../../targets/target-question.ts';
import type { PinnedComponent } from '../../targets/target.schema.ts';

interface Entry {
  release: AgentRelease;
  /** Undefined until somebody asks: few releases are ever a target, and a signature takes half a millisecond. */
  isTrusted: boolean | undefined;
  /** One list for all devices that are offered the release in the same way. */
  upgrade: Map<string, HeartbeatAck['upgrade']>;
}

/** How a device comes to be offered a release. */
interface Why {
  /** A pin names the version, so the device installs it also if it has run a higher one. */
  isPinned: boolean;
  /** A person has asked for it, so the device does not wait after a failure. */
  isRequested: boolean;
}

/** The releases of agent and watchdog in memory, and how they are offered. */
export class BoardReleases implements KnownReleases {
  readonly #entries = new Map<string, Entry>();
  readonly #promoted = new Map<string, string>();
  readonly #isTrusted: (release: AgentRelease) => boolean;
  readonly #baseUrl: () => string;

  constructor(
    releases: readonly AgentRelease[],
    isTrusted: (release: AgentRelease) => boolean,
    baseUrl: () => string,
  ) {
    this.#isTrusted = isTrusted;
    this.#baseUrl = baseUrl;
    for (const release of releases) {
      const { component, os, architecture, version, promoted } = release;
      const place = placeOf(component, { osType: os, architecture });
      this.#entries.set(`${place} ${version}`, { release, isTrusted: undefined, upgrade: new Map() });
      if (promoted) this.#promoted.set(place, version);
    }
  }

  promoted(component: PinnedComponent, platform: Platform): string | undefined {
    return this.#promoted.get(placeOf(component, platform));
  }

  build(
    component: PinnedComponent,
    version: string,
    platform: Platform,
  ): 'trusted' | 'untrusted' | undefined {
    const entry = this.#entry(component, version, platform);
    if (entry === undefined) return undefined;
    entry.isTrusted ??= this.#isTrusted(entry.release);
    return entry.isTrusted ? 'trusted' : 'untrusted';
  }

  /** As the heartbeat's answer offers it. */
  upgrade(
    component: PinnedComponent,
    version: string,
    platform: Platform,
    { isPinned, isRequested }: Why,
  ): HeartbeatAck['upgrade'] {
    const entry = this.#entry(component, version, platform);
    if (entry === undefined) return [];
    const key = `${isPinned} ${isRequested}`;
    const known = entry.upgrade.get(key);
    if (known !== undefined) return known;
    const upgrade = [
      {
        ...asUpgrade(entry.release, this.#baseUrl()),
        ...(isPinned ? { pinned: true } : {}),
        ...(isRequested ? { requested: true } : {}),
      },
    ];
    entry.upgrade.set(key, upgrade);
    return upgrade;
  }

  #entry(component: PinnedComponent, version: string, platform: Platform): Entry | undefined {
    return this.#entries.get(`${placeOf(component, platform)} ${version}`);
  }
}

const placeOf = (component: string, { osType, architecture }: Platform) =>
  `${component} ${osType} ${architecture}`;

function asUpgrade(release: AgentRelease, baseUrl: string): HeartbeatAck['upgrade'][number] {
  const { component, version, os, architecture, sha256, size, signature, keyId, downloadUrl } = release;
  const query = new URLSearchParams({ component, os, architecture });
  const url = downloadUrl ?? `${baseUrl}/api/v1/agent-versions/${version}/download?${query.toString()}`;
  return { component, version, url, sha256, size, signature, keyId };
}
