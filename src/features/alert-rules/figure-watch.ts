import { clock, MINUTE_MS } from '../../clock.ts';
import type { PresenceRecord } from '../../hub/ports.ts';
import { groupedBy } from '../../platform/grouped-by.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystemStatement } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Metrics } from '../../protocol/index.ts';
import { type DeviceFigures, HeardFigures, SampledFigures } from './device-figures.ts';
import {
  type DeviceMatch,
  type MatchChange,
  matchValues,
  READ_MATCHES,
  READ_ORGANIZATIONS,
  WRITE_MATCHES,
} from './match.queries.ts';
import { BREAK_MS, followFigures, type Match } from './metric-match.ts';
import type { RuleBook } from './rule-book.ts';
import { type Figures, ruleMetric, type TimedSeries } from './rule-metrics.ts';
import type { MetricRule } from './rule-set.ts';

/** Devices that send samples do so each five minutes at most. Others are judged by their heartbeats. */
const SAMPLES_COUNT_MS = 15 * MINUTE_MS;
/** While a condition begins to be met, its row is written this often. In between, memory knows the last figures. */
const WRITTEN_EVERY_MS = 20 * MINUTE_MS;

/** So many matches of one device are written at once, the ends first. Others follow with the next figures. */
const CHANGES_MAX = 500;

type HeardRecord = Pick<PresenceRecord, 'deviceId' | 'metrics'> & Partial<Pick<PresenceRecord, 'presence'>>;

interface SampledDevice {
  deviceId: string;
  orgId: string;
  /** The oldest first. */
  stretches: readonly TimedSeries[];
}

interface Parts {
  db: Db;
  log: Logger;
  book: Pick<RuleBook, 'metricRulesOf'>;
  /** How long a device that is heard may take to send its first samples (default 15 minutes). */
  firstSamplesMs?: number;
}

/** What this server remembers of a device. It may be forgotten at any time. */
interface Remembered {
  /** When it sent samples, by monotonic time. */
  sampledAt: number | undefined;
  /** When its last figures were taken. */
  lastAt: number;
}

/**
 * Compares the figures that devices report with the rules about metrics, and stores on which devices a condition is met.
 * What is stored is enough: how long a figure is beyond its threshold survives a restart, and a device that connects to
 * another server.
 */
export class FigureWatch {
  readonly #parts: Parts;
  readonly #remembered = new Map<string, Remembered>();
  #forgottenAt = clock.monotonic();
  /** The devices that are heard without samples: since when, and when last, by monotonic time. */
  readonly #withoutSamples = new Map<string, { since: number; lastAt: number }>();
  /** The newest heartbeat of each device that was not compared yet. */
  #heard = new Map<string, { at: number; metrics: Metrics }>();
  #following: Promise<void> = Promise.resolve();
  #isFollowing = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Compares samples that were stored. A failure costs the comparison and nothing else: the next figures come soon. */
  async sampled(devices: readonly SampledDevice[]): Promise<void> {
    const figures = new Map<string, SampledFigures>();
    for (const { deviceId, orgId, stretches } of devices) {
      this.#withoutSamples.delete(deviceId);
      const known = figures.get(deviceId);
      figures.set(deviceId, known?.and(stretches) ?? new SampledFigures(orgId, stretches));
    }
    await this.#follow(figures, clock.monotonic());
  }

  /** Compares the figures of heartbeats, for devices that send no samples. Returns at once. */
  heard(records: readonly HeardRecord[]): void {
    const at = clock.now();
    for (const { deviceId, metrics, presence } of records) {
      // The end of a connection is recorded with the figures of the last heartbeat.
      if (metrics === null || presence?.state === 'disconnected') continue;
      if (!this.#maySample(deviceId)) this.#heard.set(deviceId, { at, metrics });
    }
    if (this.#isFollowing || this.#heard.size === 0) return;
    this.#isFollowing = true;
    this.#following = this.#followHeard().finally(() => {
      this.#isFollowing = false;
    });
  }

  /**
   * Whether the device sends samples, or has not been heard for long enough to know. The figure of a heartbeat is of an
   * instant; beside averages of minutes it would raise what no history shows.
   */
  #maySample(deviceId: string): boolean {
    const now = clock.monotonic();
    const sampledAt = this.#remembered.get(deviceId)?.sampledAt;
    if (sampledAt !== undefined && now - sampledAt <= SAMPLES_COUNT_MS) return true;
    const since = this.#withoutSamples.get(deviceId)?.since ?? sampledAt ?? now;
    this.#withoutSamples.set(deviceId, { since, lastAt: now });
    return now - since < (this.#parts.firstSamplesMs ?? SAMPLES_COUNT_MS);
  }

  /** Resolves when the heartbeats so far are compared. */
  async settle(): Promise<void> {
    await this.#following;
  }

  async #followHeard(): Promise<void> {
    const { db, log } = this.#parts;
    while (this.#heard.size > 0) {
      const heard = this.#heard;
      this.#heard = new Map();
      const figures = new Map<string, HeardFigures>();
      try {
        const devices = await withSystemStatement<{ deviceId: string; orgId: string }>(
          db,
          'read the organizations of devices',
          { ...READ_ORGANIZATIONS, values: [[...heard.keys()]] },
          () => true,
        );
        for (const { deviceId, orgId } of devices ?? []) {
          const heartbeat = heard.get(deviceId);
          if (heartbeat === undefined) continue;
          figures.set(deviceId, new HeardFigures(orgId, heartbeat.at, heartbeat.metrics));
        }
      } catch (error) {
        log.warn({ err: error, devices: heard.size }, 'alerts.figures_not_compared');
      }
      await this.#follow(figures, undefined);
    }
  }

  /** @param sampledAt  the present in monotonic time if the figures are samples */
  async #follow(figures: ReadonlyMap<string, DeviceFigures>, sampledAt: number | undefined): Promise<void> {
    const { db, log } = this.#parts;
    if (figures.size === 0) return;
    this.#forget();
    try {
      const rows = await withSystemStatement<DeviceMatch>(
        db,
        'read which conditions are met on devices',
        { ...READ_MATCHES, values: [[...figures.keys()]] },
        () => true,
      );
      const matches = groupedBy(rows ?? [], ({ deviceId }) => deviceId);
      const changes: MatchChange[] = [];
      for (const [deviceId, device] of figures) {
        changes.push(...this.#changesOf(deviceId, device, matches.get(deviceId) ?? []));
        this.#remembered.set(deviceId, {
          sampledAt: sampledAt ?? this.#remembered.get(deviceId)?.sampledAt,
          lastAt: device.span.last,
        });
      }
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

  #changesOf(deviceId: string, device: DeviceFigures, rows: readonly DeviceMatch[]): MatchChange[] {
    const rules = this.#parts.book.metricRulesOf(device.orgId);
    const beyond = rules.beyond((metric) => device.rangeOf(metric));
    if (beyond.length === 0 && rows.length === 0) return [];
    const through = this.#seenThrough(deviceId, device);
    const matches = groupedBy(rows, ({ ruleId }) => ruleId);
    const followed = new Set(beyond);
    for (const ruleId of matches.keys()) {
      const rule = rules.get(ruleId);
      if (rule !== undefined) followed.add(rule);
    }
    const changes = [...followed].flatMap((rule) =>
      changesOfRule(deviceId, rule, device, matchesOf(matches.get(rule.id) ?? [], through)),
    );
    if (changes.length <= CHANGES_MAX) return changes;
    const isOver = ({ state }: MatchChange) => (state === 'over' ? 0 : 1);
    return changes.sort((a, b) => isOver(a) - isOver(b)).slice(0, CHANGES_MAX);
  }

  /**
   * Up to when the figures of a device are known to follow each other, by what this server remembers. If it remembers
   * nothing, because it has just started or the device was connected to another one, the time that was written last is
   * not far behind.
   */
  #seenThrough(deviceId: string, { span }: DeviceFigures): (stored: number) => number {
    const lastAt = this.#remembered.get(deviceId)?.lastAt;
    return (stored) => {
      if (lastAt !== undefined && lastAt >= stored) return lastAt;
      const isNear = span.first > stored && span.first - stored <= WRITTEN_EVERY_MS + BREAK_MS;
      return isNear ? Math.max(stored, span.first - BREAK_MS) : stored;
    };
  }

  #forget(): void {
    const now = clock.monotonic();
    if (now - this.#forgottenAt < SAMPLES_COUNT_MS) return;
    this.#forgottenAt = now;
    for (const [deviceId, { lastAt }] of this.#remembered) {
      if (clock.now() - lastAt > SAMPLES_COUNT_MS) this.#remembered.delete(deviceId);
    }
    for (const [deviceId, { lastAt }] of this.#withoutSamples) {
      if (now - lastAt > SAMPLES_COUNT_MS) this.#withoutSamples.delete(deviceId);
    }
  }
}

interface StoredMatch extends Match {
  /** Until when the row says that it was seen. */
  writtenThrough: number;
}

/** By label. */
type Matches = ReadonlyMap<string, StoredMatch>;

const matchesOf = (rows: readonly DeviceMatch[], through: (stored: number) => number): Matches =>
  new Map(
    rows.map(({ label, since, isMet, through: writtenThrough }) => [
      label,
      { since, through: through(writtenThrough), isMet, value: 0, writtenThrough },
    ]),
  );

function changesOfRule(
  deviceId: string,
  { id: ruleId, condition }: MetricRule,
  device: DeviceFigures,
  matches: Matches,
): MatchChange[] {
  const figures = device.of(condition.metric);
  if (figures === undefined) return [];
  const isOfVolumes = ruleMetric(condition.metric).isOfVolumes === true;
  // Just after a start of the server, a heartbeat may come before the first samples.
  if (isOfVolumes && !device.namesVolumes && [...matches.keys()].some((label) => label !== '')) return [];
  const key = { ruleId, deviceId };
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
  condition: MetricRule['condition'],
  before: StoredMatch | undefined,
  points: Figures['points'],
): Omit<MatchChange, 'ruleId' | 'deviceId' | 'label'> | undefined {
  const { match, turns } = followFigures(condition, before, points);
  if (match !== undefined) {
    const { isMet, since, through, value } = match;
    if (before !== undefined && turns.length === 0 && before.since === since) {
      // A condition that goes on being met is not written again, and one that begins to be met seldom.
      if (isMet || through - before.writtenThrough < WRITTEN_EVERY_MS) return undefined;
    }
    return { since, through, value, cleared: null, state: isMet ? 'met' : 'begun' };
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
