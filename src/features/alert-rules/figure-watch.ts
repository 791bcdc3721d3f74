import { clock, MINUTE_MS } from '../../clock.ts';
import type { PresenceRecord } from '../../hub/ports.ts';
import { groupedBy } from '../../platform/grouped-by.ts';
import type { Db } from '../../platform/db/pool.ts';
import { arrayLiteral } from '../../platform/db/statement.ts';
import { withSystemStatement, withSystemStatements } from '../../platform/db/transaction.ts';
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
import { type Figures, isBeyond, isCleared, ruleMetric, type TimedSeries } from './rule-metrics.ts';
import type { MetricRule, RuleSet } from './rule-set.ts';

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

/**
 * Compares the figures that devices report with the rules about metrics, and stores on which devices a condition is met.
 * What is stored is enough: how long a figure is beyond its threshold survives a restart, and a device that connects to
 * another server.
 */
export class FigureWatch {
  readonly #parts: Parts;
  /** When devices sent samples, by monotonic time. What this server remembers of devices may be forgotten at any time. */
  readonly #sampledAt = new Map<string, number>();
  /** When the last figures were taken of the devices on which a condition is met or begins to be. */
  readonly #lastAt = new Map<string, number>();
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
      if (this.#withoutSamples.size > 0) this.#withoutSamples.delete(deviceId);
      const known = figures.get(deviceId);
      figures.set(deviceId, known?.and(stretches) ?? new SampledFigures(orgId, stretches));
    }
    await this.#follow(figures, clock.monotonic());
  }

  /** Compares the figures of heartbeats, for devices that send no samples. Returns at once. */
  heard(records: readonly HeardRecord[]): void {
    const at = clock.now();
    const now = clock.monotonic();
    for (const { deviceId, metrics, presence } of records) {
      // The end of a connection is recorded with the figures of the last heartbeat.
      if (metrics === null || presence?.state === 'disconnected') continue;
      const isBack = presence?.state === 'connected';
      if (!this.#maySample(deviceId, now, isBack)) this.#heard.set(deviceId, { at, metrics });
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
   * @param isBack  it has just connected: the time in which it was away is none in which it sent no samples
   */
  #maySample(deviceId: string, now: number, isBack: boolean): boolean {
    const sampledAt = this.#sampledAt.get(deviceId);
    if (sampledAt !== undefined && now - sampledAt <= SAMPLES_COUNT_MS) return true;
    const heard = this.#withoutSamples.get(deviceId);
    const heardSince =
      heard !== undefined && now - heard.lastAt <= SAMPLES_COUNT_MS ? heard.since : undefined;
    const since = heardSince ?? (isBack ? now : (sampledAt ?? now));
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
    const read = { ...READ_MATCHES, values: [arrayLiteral([...figures.keys()])] };
    try {
      await withSystemStatements(db, 'compare figures with the conditions of rules', async (run) => {
        const changes = this.#compare(figures, await run<DeviceMatch>(read), sampledAt);
        if (changes.length > 0) await run({ ...WRITE_MATCHES, values: matchValues(changes) });
      });
    } catch (error) {
      log.warn({ err: error, devices: figures.size }, 'alerts.figures_not_compared');
    }
  }

  #compare(
    figures: ReadonlyMap<string, DeviceFigures>,
    rows: readonly DeviceMatch[],
    sampledAt: number | undefined,
  ): MatchChange[] {
    const { book } = this.#parts;
    const matches = groupedBy(rows, (row) => row.place);
    const changes: MatchChange[] = [];
    let place = 0;
    for (const [deviceId, device] of figures) {
      place += 1;
      if (sampledAt !== undefined) this.#sampledAt.set(deviceId, sampledAt);
      const rules = book.metricRulesOf(device.orgId);
      const beyond = rules.beyond(device);
      const known = matches.get(place);
      if (beyond.length === 0 && known === undefined) this.#lastAt.delete(deviceId);
      else {
        changes.push(...this.#changesOf(deviceId, device, { rules, beyond, rows: known ?? [] }));
        this.#lastAt.set(deviceId, device.span.last);
      }
    }
    return changes;
  }

  #changesOf(
    deviceId: string,
    device: DeviceFigures,
    { rules, beyond, rows }: { rules: RuleSet; beyond: readonly MetricRule[]; rows: readonly DeviceMatch[] },
  ): MatchChange[] {
    const through = this.#seenThrough(deviceId, device);
    const matches = groupedBy(rows, ({ ruleId }) => ruleId);
    const followed = new Set(beyond);
    for (const ruleId of matches.keys()) {
      const rule = rules.get(ruleId);
      if (rule !== undefined) followed.add(rule);
    }
    const changes: MatchChange[] = [];
    for (const rule of followed) {
      const known = matches.get(rule.id) ?? [];
      if (isAsBefore(rule, device, known)) continue;
      changes.push(...changesOfRule(deviceId, rule, device, matchesOf(known, through)));
    }
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
    const lastAt = this.#lastAt.get(deviceId);
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
    for (const [deviceId, at] of this.#sampledAt) {
      if (now - at > SAMPLES_COUNT_MS) this.#sampledAt.delete(deviceId);
    }
    for (const [deviceId, at] of this.#lastAt) {
      if (clock.now() - at > SAMPLES_COUNT_MS) this.#lastAt.delete(deviceId);
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

/**
 * Whether the condition of a rule goes on being met where it was, and begins nowhere else, so that nothing is written. Most
 * conditions that are met go on for hours, and following each of their figures is what costs most.
 */
function isAsBefore(
  { condition }: MetricRule,
  device: DeviceFigures,
  matches: readonly DeviceMatch[],
): boolean {
  const figures = device.of(condition.metric);
  if (figures === undefined) return true;
  let known = 0;
  for (const { label, points } of figures) {
    const match = matches.find((one) => one.label === label);
    if (match?.isMet === false) return false;
    if (match !== undefined) known += 1;
    for (const { value } of points) {
      if (match === undefined ? isBeyond(condition, value) : isCleared(condition, value)) return false;
    }
  }
  // Else a volume is gone.
  return known === matches.length;
}

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
  const met = before?.isMet === true ? undefined : turns.findLast(({ isMet }) => isMet);
  const isBegun = match?.isMet === false;
  const wasMet = before?.isMet === true || met !== undefined;
  if (match !== undefined && !(isBegun && wasMet)) {
    const { isMet, since, through, value } = match;
    if (before !== undefined && turns.length === 0 && before.since === since) {
      // A condition that goes on being met is not written again, and one that begins to be met seldom.
      if (isMet || through - before.writtenThrough < WRITTEN_EVERY_MS) return undefined;
    }
    return { since, through, value, cleared: null, state: isMet ? 'met' : 'begun' };
  }
  const again = match === undefined ? undefined : { since: match.since, through: match.through };
  const cleared = turns.at(-1);
  if (met !== undefined && cleared !== undefined) {
    const { since, value } = met;
    return { since, through: cleared.at, value, cleared: cleared.value, state: 'passed', again };
  }
  if (before === undefined) return undefined;
  const { since, through, value } = before;
  return {
    since,
    through: cleared?.at ?? through,
    value,
    cleared: cleared?.value ?? null,
    state: 'over',
    again,
  };
}
