import { clock, type Timer } from '../../clock.ts';
import type { Offer, OfferQuestion, UpgradeOffers } from '../../hub/ports.ts';
import type { Logger } from '../../platform/logger.ts';
import { type HeartbeatAck, UPGRADE_CAPABILITY } from '../../protocol/index.ts';
import type { UpgradePause } from '../maintenance-windows/index.ts';
import type { AgentUpdateSettings } from '../partners/index.ts';
import { type LiveRollout, effectiveSettings, type KnownReleases, type Platform } from './resolve-target.ts';
import type { EffectiveSettings, PinnedComponent } from './upgrade.schema.ts';
import { assessUpgrades, type Pause, type Rules, stableUntil } from './assess-upgrades.ts';
import { note, nothingOutdated, type Outdated, type BoardRows } from './offer-cache.queries.ts';
import type { HeldAttempt } from './attempts.ts';
import type { AgentRelease } from '../releases/index.ts';

interface Entry {
  release: AgentRelease;
  /** Undefined until first used: few releases are ever a target, and a signature takes half a millisecond. */
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
class BoardReleases implements KnownReleases {
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

/** The maintenance windows that keep back upgrades, by device. Few devices are in one at a time. */
class UpgradePauses {
  readonly #byWindow = new Map<string, UpgradePause[]>();
  readonly #byDevice = new Map<string, UpgradePause[]>();

  of(deviceId: string): readonly Pause[] {
    return this.#byDevice.get(deviceId) ?? NO_PAUSES;
  }

  /**
   * Takes what was read of some windows, or of all, in place of what was known of them.
   * @returns whether anything was or is known of them
   */
  replace(windowIds: ReadonlySet<string> | undefined, pauses: readonly UpgradePause[]): boolean {
    const former = [...(windowIds ?? this.#byWindow.keys())].flatMap((id) => this.#byWindow.get(id) ?? []);
    for (const one of former) {
      this.#byWindow.delete(one.windowId);
      const others = (this.#byDevice.get(one.deviceId) ?? []).filter((other) => other !== one);
      if (others.length === 0) this.#byDevice.delete(one.deviceId);
      else this.#byDevice.set(one.deviceId, others);
    }
    for (const one of pauses) {
      add(this.#byWindow, one.windowId, one);
      add(this.#byDevice, one.deviceId, one);
    }
    return former.length + pauses.length > 0;
  }
}

function add<T>(lists: Map<string, T[]>, key: string, one: T): void {
  const others = lists.get(key);
  if (others === undefined) lists.set(key, [one]);
  else others.push(one);
}

/** Changes within this time are read together. */
const GATHER_MS = 50;
const RETRY_MS = 1000;
/** How often it is checked that notices still arrive. */
const TOUCH_MS = 1000;
/** An organization that is not known, or an outdated board, is asked about again after this time. */
const UNKNOWN_FOR_MS = 5000;
const NOTHING: HeartbeatAck['upgrade'] = [];
const NONE_HELD: readonly HeldAttempt[] = [];
const NO_PAUSES: readonly Pause[] = [];

interface Parts {
  /** Reads what is outdated. @param switched  devices whose switch is held */
  read: (outdated: Outdated, switched: readonly string[]) => Promise<BoardRows>;
  baseUrl: () => string;
  /** Whether notices of changes reach this server now. */
  isInTouch: () => boolean;
  log: Logger;
}

/**
 * All that decides about the upgrades of devices, in the memory of each server: the settings of each organization, the
 * releases, the rollouts, and the few devices that are being upgraded, were asked for, or have failed. It offers nothing
 * while it may be out of date (docs/decisions/agent-update-targets.md).
 */
export class UpgradeOfferCache implements UpgradeOffers {
  readonly #parts: Parts;
  readonly #organizations = new Map<string, { partnerId: string; settings: AgentUpdateSettings }>();
  readonly #partners = new Map<string, AgentUpdateSettings>();
  /** The switches for upgrades of devices that were changed while this server runs. */
  readonly #switches = new Map<string, boolean>();
  readonly #attempts = new Map<string, HeldAttempt[]>();
  readonly #pauses = new UpgradePauses();
  #releases: BoardReleases;
  #rollouts: readonly LiveRollout[] = [];
  /** By organization; computed on demand. */
  readonly #effective = new Map<string, EffectiveSettings>();
  readonly #nothingUntil = new Map<number, Offer>();
  #revision = 0;
  #isComplete = false;
  #wasInTouch = true;
  #outdated: Outdated = nothingOutdated();
  #timer: Timer | undefined;
  #touchTimer: Timer | undefined;
  #reading: Promise<void> | undefined;
  #isClosed = false;
  #onDevice: (deviceId: string) => void = () => {};

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#releases = new BoardReleases([], () => false, parts.baseUrl);
  }

  get revision(): number {
    return this.#revision;
  }

  /** The number of devices whose attempts are held. */
  get heldDevices(): number {
    return this.#attempts.size;
  }

  /** Reads everything. A server whose database is away starts all the same, and offers nothing until it is back. */
  async start(): Promise<void> {
    this.#outdated.everything = true;
    this.#touchTimer = clock
      .setInterval(() => {
        const isInTouch = this.#parts.isInTouch();
        if (isInTouch !== this.#wasInTouch) this.#changed();
        this.#wasInTouch = isInTouch;
      }, TOUCH_MS)
      .unref();
    await this.#read();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    clock.clear(this.#touchTimer);
    await this.#reading;
  }

  /** Reads now what was announced. */
  async settle(): Promise<void> {
    await this.#reading;
    if (this.#timer === undefined) return;
    clock.clear(this.#timer);
    this.#timer = undefined;
    await this.#read();
  }

  /** @param payloads  as the database announces them */
  notified(payloads: readonly string[]): void {
    for (const payload of payloads) note(this.#outdated, payload);
    this.#readLater(GATHER_MS);
  }

  /** Notices may have been missed. */
  mayHaveMissed(): void {
    this.#outdated.everything = true;
    this.#readLater(0);
  }

  onDeviceChanged(listener: (deviceId: string) => void): void {
    this.#onDevice = listener;
  }

  offer(question: OfferQuestion, now: number): Offer {
    const { deviceId, orgId, machine } = question.identity;
    const rules = this.#rulesOf(orgId);
    if (rules === undefined) {
      return { upgrade: NOTHING, revision: this.#revision, until: now + UNKNOWN_FOR_MS };
    }
    const held = this.#attempts.get(deviceId) ?? NONE_HELD;
    const canUpgrade = question.capabilities?.includes(UPGRADE_CAPABILITY) ?? machine.canUpgrade;
    const at = new Date(now);
    const pauses = this.#pauses.of(deviceId);
    const until = stableUntil(rules, pauses, held, at);
    const offered = assessUpgrades(
      {
        deviceId,
        agentVersion: question.agentVersion,
        watchdogVersion: question.watchdogVersion,
        pauses,
        device: {
          osType: machine.osType,
          architecture: machine.architecture,
          // The agent follows its own switch, which it may not have heard of yet.
          autoUpdate: question.autoUpdate !== false && (this.#switches.get(deviceId) ?? machine.autoUpdate),
          capabilities: canUpgrade ? [UPGRADE_CAPABILITY] : [],
          connected: true,
        },
      },
      rules,
      held,
      at,
    ).find(({ state }) => state === 'offered');
    if (offered !== undefined && offered.target !== null) {
      const { component, target, isAsked: isRequested } = offered;
      const isPinned = rules.settings.pins[component].value !== 'latest';
      const upgrade = this.#releases.upgrade(component, target, machine, { isPinned, isRequested });
      return { upgrade, revision: this.#revision, until };
    }
    return held.length === 0 ? this.#nothing(until) : { upgrade: NOTHING, revision: this.#revision, until };
  }

  /** The rollout in which a device of the organization is upgraded to this version, if that is how it gets it. */
  rolloutOf(orgId: string, component: PinnedComponent, version: string): string | null {
    const rules = this.#rulesOf(orgId);
    const isStaged =
      rules?.settings.policy.value === 'staged' && rules.settings.pins[component].value === 'latest';
    if (!isStaged) return null;
    return rules.rollouts.find((one) => one.component === component && one.version === version)?.id ?? null;
  }

  /** `undefined` for an organization that is not known, and while what is known may be outdated. */
  #rulesOf(orgId: string): Rules | undefined {
    if (!this.#isComplete || !this.#parts.isInTouch()) return undefined;
    const settings = this.#effective.get(orgId) ?? this.#computed(orgId);
    return settings === undefined
      ? undefined
      : { settings, releases: this.#releases, rollouts: this.#rollouts };
  }

  #computed(orgId: string): EffectiveSettings | undefined {
    const organization = this.#organizations.get(orgId);
    const partner = organization === undefined ? undefined : this.#partners.get(organization.partnerId);
    if (organization === undefined || partner === undefined) return undefined;
    const settings = effectiveSettings({ organization: organization.settings, partner });
    this.#effective.set(orgId, settings);
    return settings;
  }

  /** One answer for all devices whose window changes at the same time. */
  #nothing(until: number): Offer {
    const known = this.#nothingUntil.get(until);
    if (known !== undefined) return known;
    const offer = { upgrade: NOTHING, revision: this.#revision, until };
    this.#nothingUntil.set(until, offer);
    return offer;
  }

  #changed(): void {
    this.#revision += 1;
    this.#effective.clear();
    this.#nothingUntil.clear();
  }

  #readLater(ms: number): void {
    if (this.#isClosed) return;
    this.#timer ??= clock.setTimeout(() => {
      this.#timer = undefined;
      void this.#read();
    }, ms);
  }

  /** One at a time; what is announced meanwhile is read by the next one. */
  #read(): Promise<void> {
    this.#reading ??= this.#readOutdated().then((retryMs) => {
      this.#reading = undefined;
      if (retryMs !== undefined) this.#readLater(retryMs);
    });
    return this.#reading;
  }

  /** @returns after how long to read again */
  async #readOutdated(): Promise<number | undefined> {
    const outdated = this.#outdated;
    this.#outdated = nothingOutdated();
    try {
      this.#apply(outdated, await this.#parts.read(outdated, [...this.#switches.keys()]));
      const { everything, releases, rollouts, ...sets } = this.#outdated;
      const isOutdated = everything || releases || rollouts;
      return isOutdated || Object.values(sets).some(({ size }) => size > 0) ? GATHER_MS : undefined;
    } catch (error) {
      if (this.#isComplete) this.#parts.log.warn({ err: error }, 'upgrades.board_not_read');
      this.#isComplete = false;
      this.#outdated.everything = true;
      this.#changed();
      return RETRY_MS;
    }
  }

  #apply(outdated: Outdated, rows: BoardRows): void {
    const { everything } = outdated;
    if (everything) {
      for (const map of [this.#organizations, this.#partners]) map.clear();
      this.#isComplete = true;
    }
    for (const id of outdated.organizations) this.#organizations.delete(id);
    for (const id of outdated.partners) this.#partners.delete(id);
    for (const { id, partnerId, settings } of rows.organizations ?? []) {
      this.#organizations.set(id, { partnerId, settings });
    }
    for (const { id, settings } of rows.partners ?? []) this.#partners.set(id, settings);
    if (rows.releases !== undefined) {
      const { rows: releases, isTrusted } = rows.releases;
      this.#releases = new BoardReleases(releases, isTrusted, this.#parts.baseUrl);
    }
    this.#rollouts = rows.rollouts ?? this.#rollouts;
    const hasPaused = this.#pauses.replace(everything ? undefined : outdated.windows, rows.pauses ?? []);
    const concernsMany =
      rows.organizations ??
      rows.partners ??
      rows.releases ??
      rows.rollouts ??
      (everything || hasPaused || undefined);
    if (concernsMany !== undefined) this.#changed();
    for (const { id, autoUpdate } of rows.switches) this.#switches.set(id, autoUpdate);
    this.#applyAttempts(outdated, rows.attempts ?? []);
  }

  #applyAttempts({ everything, devices }: Outdated, attempts: NonNullable<BoardRows['attempts']>): void {
    if (everything) this.#attempts.clear();
    for (const deviceId of devices) this.#attempts.delete(deviceId);
    for (const { deviceId, ...attempt } of attempts) {
      add<HeldAttempt>(this.#attempts, deviceId, attempt);
    }
    for (const deviceId of devices) this.#onDevice(deviceId);
  }
}
