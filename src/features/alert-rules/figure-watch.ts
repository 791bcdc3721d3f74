import { clock, MINUTE_MS } from '../../clock.ts';
import type { PresenceRecord } from '../../hub/ports.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystemStatement } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ConditionOf } from './alert-rule.schema.ts';
import {
  type DeviceMatch,
  type MatchChange,
  matchValues,
  READ_MATCHES,
  WRITE_MATCHES,
} from './match.queries.ts';
import { followFigures, type Match } from './metric-match.ts';
import type { RuleBook } from './rule-book.ts';
import {
  type Figures,
  figuresOf,
  ruleMetric,
  type RuleMetricName,
  type TimedSeries,
} from './rule-metrics.ts';

/** Devices that send samples do so each five minutes at most. Others are judged by their heartbeats. */
const SAMPLES_COUNT_MS = 15 * MINUTE_MS;

type HeardFigures = Pick<PresenceRecord, 'deviceId' | 'metrics'> & Partial<Pick<PresenceRecord, 'presence'>>;

interface SampledFigures {
  deviceId: string;
  /** The oldest first. */
  stretches: readonly TimedSeries[];
}

interface Parts {
  db: Db;
  log: Logger;
  book: Pick<RuleBook, 'metricRulesOf'>;
}

/**
 * Compares the figures that devices report with the rules about metrics, and stores on which devices a condition is met.
 * Nothing about a device is kept in memory between two reports: how long a figure is beyond its threshold survives a
 * restart, and a device that connects to another server.
 */
export class FigureWatch {
  readonly #parts: Parts;
  /** When each device sent samples last, by monotonic time. */
  readonly #sampledAt = new Map<string, number>();
  #forgottenAt = clock.monotonic();
  /** The newest heartbeat of each device that was not compared yet. */
  #heard = new Map<string, { at: number; metrics: NonNullable<HeardFigures['metrics']> }>();
  #following: Promise<void> = Promise.resolve();
  #isFollowing = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Compares samples that were stored. A failure costs the comparison and nothing else: the next figures come soon. */
  async sampled(reports: readonly SampledFigures[]): Promise<void> {
    const now = clock.monotonic();
    for (const { deviceId } of reports) this.#sampledAt.set(deviceId, now);
    this.#forget(now);
    const figures = new Map<string, DeviceFigures>();
    for (const { deviceId, stretches } of reports) {
      const known = figures.get(deviceId);
      if (known instanceof SampledDevice) known.add(stretches);
      else figures.set(deviceId, new SampledDevice(stretches));
    }
    await this.#follow(figures);
  }

  /** Compares the figures of heartbeats, for devices that send no samples. Returns at once. */
  heard(records: readonly HeardFigures[]): void {
    const at = clock.now();
    const since = clock.monotonic() - SAMPLES_COUNT_MS;
    for (const { deviceId, metrics, presence } of records) {
      // The end of a connection is recorded with the figures of the last heartbeat.
      if (metrics === null || presence?.state === 'disconnected') continue;
      if ((this.#sampledAt.get(deviceId) ?? Number.NEGATIVE_INFINITY) > since) continue;
      this.#heard.set(deviceId, { at, metrics });
    }
    if (this.#isFollowing || this.#heard.size === 0) return;
    this.#isFollowing = true;
    this.#following = this.#followHeard().finally(() => {
      this.#isFollowing = false;
    });
  }

  /** Resolves when the heartbeats so far are compared. */
  async settle(): Promise<void> {
    await this.#following;
  }

  async #followHeard(): Promise<void> {
    while (this.#heard.size > 0) {
      const figures = new Map<string, DeviceFigures>();
      for (const [deviceId, { at, metrics }] of this.#heard) {
        figures.set(deviceId, new HeardDevice(at, metrics));
      }
      this.#heard = new Map();
      await this.#follow(figures);
    }
  }

  #forget(now: number): void {
    if (now - this.#forgottenAt < SAMPLES_COUNT_MS) return;
    this.#forgottenAt = now;
    for (const [deviceId, at] of this.#sampledAt) {
      if (now - at > SAMPLES_COUNT_MS) this.#sampledAt.delete(deviceId);
    }
  }

  async #follow(figures: ReadonlyMap<string, DeviceFigures>): Promise<void> {
    const { db, log, book } = this.#parts;
    try {
      const known = await withSystemStatement<DeviceMatch>(
        db,
        'read which conditions are met on devices',
        { ...READ_MATCHES, values: [[...figures.keys()]] },
        () => true,
      );
      const devices = byDevice(known ?? []);
      const changes = [...devices].flatMap(([deviceId, { orgId, matches }]) => {
        const device = figures.get(deviceId);
        if (device === undefined) return [];
        return book
          .metricRulesOf(orgId)
          .flatMap(({ id, condition }) =>
            changesOf({ ruleId: id, deviceId, condition }, device, matches.get(id) ?? NO_MATCHES),
          );
      });
      if (changes.length === 0) return;
      await withSystemStatement(
        db,
        'write which conditions are met on devices',
        { ...WRITE_MATCHES, values: matchValues(changes) },
        () => true,
      );
    } catch (error) {
      log.warn({ err: error, devices: figures.size }, 'alerts.figures_not_compared');
    }
  }
}

interface DeviceFigures {
  /** Undefined if the device says nothing about the metric. */
  of(metric: RuleMetricName): readonly Figures[] | undefined;
  /** Whether the device names its volumes. */
  readonly namesVolumes: boolean;
}

class SampledDevice implements DeviceFigures {
  readonly namesVolumes = true;
  readonly #stretches: TimedSeries[];
  readonly #known = new Map<RuleMetricName, readonly Figures[] | undefined>();

  constructor(stretches: readonly TimedSeries[]) {
    this.#stretches = [...stretches];
  }

  add(stretches: readonly TimedSeries[]): void {
    this.#stretches.push(...stretches);
  }

  of(metric: RuleMetricName): readonly Figures[] | undefined {
    if (!this.#known.has(metric)) this.#known.set(metric, this.#read(metric));
    return this.#known.get(metric);
  }

  #read(metric: RuleMetricName): readonly Figures[] | undefined {
    const [first, ...others] = this.#stretches.map((stretch) => figuresOf(metric, stretch));
    if (first === undefined) return undefined;
    if (others.length === 0) return first.length === 0 ? undefined : first;
    const points = new Map<string, Figures['points'][number][]>();
    for (const { label, points: some } of [first, ...others].flat()) {
      points.set(label, [...(points.get(label) ?? []), ...some]);
    }
    if (points.size === 0) return undefined;
    return [...points].map(([label, all]) => ({ label, points: all.sort((a, b) => a.at - b.at) }));
  }
}

class HeardDevice implements DeviceFigures {
  readonly namesVolumes = false;
  readonly #at: number;
  readonly #metrics: NonNullable<HeardFigures['metrics']>;

  constructor(at: number, metrics: NonNullable<HeardFigures['metrics']>) {
    this.#at = at;
    this.#metrics = metrics;
  }

  of(metric: RuleMetricName): readonly Figures[] | undefined {
    if (metric !== 'cpuPercent' && metric !== 'ramPercent' && metric !== 'diskPercent') return undefined;
    return [{ label: '', points: [{ at: this.#at, value: this.#metrics[metric] }] }];
  }
}

type Matches = ReadonlyMap<string, Match>;
const NO_MATCHES: Matches = new Map();

/** The matches of each device by rule and label. */
function byDevice(rows: readonly DeviceMatch[]) {
  const devices = new Map<string, { orgId: string; matches: Map<string, Map<string, Match>> }>();
  for (const { deviceId, orgId, ruleId, label, since, through, isMet } of rows) {
    const device = devices.get(deviceId) ?? { orgId, matches: new Map<string, Map<string, Match>>() };
    devices.set(deviceId, device);
    if (ruleId === null || since === null || through === null) continue;
    const ofRule = device.matches.get(ruleId) ?? new Map<string, Match>();
    device.matches.set(ruleId, ofRule);
    ofRule.set(label ?? '', {
      since: since.getTime(),
      through: through.getTime(),
      isMet: isMet === true,
      value: 0,
    });
  }
  return devices;
}

interface Watched {
  ruleId: string;
  deviceId: string;
  condition: ConditionOf<'metric'>;
}

function changesOf(watched: Watched, device: DeviceFigures, matches: Matches): MatchChange[] {
  const { condition, ...key } = watched;
  const figures = device.of(condition.metric);
  if (figures === undefined) return [];
  const isOfVolumes = ruleMetric(condition.metric).isOfVolumes === true;
  // Just after a start of the server, a heartbeat may come before the first samples.
  if (isOfVolumes && !device.namesVolumes && [...matches.keys()].some((label) => label !== '')) return [];
  const changes = figures.flatMap(({ label, points }) => {
    const change = changeOf(condition, matches.get(label), points);
    return change === undefined ? [] : [{ ...key, label, ...change }];
  });
  if (!isOfVolumes || matches.size === 0) return changes;
  const present = new Set(figures.map(({ label }) => label));
  for (const [label, { since, through, value }] of matches) {
    // The volume is gone.
    if (!present.has(label)) {
      changes.push({ ...key, label, since, through, value, cleared: null, state: 'over' });
    }
  }
  return changes;
}

function changeOf(
  condition: ConditionOf<'metric'>,
  before: Match | undefined,
  points: Figures['points'],
): Omit<MatchChange, 'ruleId' | 'deviceId' | 'label'> | undefined {
  const { match, turns } = followFigures(condition, before, points);
  if (match !== undefined) {
    const { isMet, ...rest } = match;
    // A condition that goes on being met is not written again.
    const isKnown = before?.isMet === true && isMet && turns.length === 0;
    if (isKnown || match.through === before?.through) return undefined;
    return { ...rest, cleared: null, state: isMet ? 'met' : 'begun' };
  }
  const cleared = turns.at(-1);
  const met = before?.isMet === true ? undefined : turns.findLast(({ isMet }) => isMet);
  if (met !== undefined && cleared !== undefined) {
    const { since, value } = met;
    return { since, through: cleared.at, value, cleared: cleared.value, state: 'passed' };
  }
  if (before === undefined) return undefined;
  const { since, through, value } = before;
  return { since, through: cleared?.at ?? through, value, cleared: cleared?.value ?? null, state: 'over' };
}
