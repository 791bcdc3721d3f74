import { fraction } from '../../../src/agent/simulator/synthetic-machine.ts';

/** The faults of a run: nothing but a seed decides them, so that a run can be repeated. */

export const SERVERS = ['north', 'south', 'east'] as const;
export type ServerName = (typeof SERVERS)[number];

/** What each server speaks to over a network that can fail; `clients` are agents, dashboards and requests. */
export const LINKS = ['redis', 'postgres', 'clients'] as const;
export type Link = (typeof LINKS)[number];

export type FaultTarget =
  | { kind: 'kill' | 'freeze'; server: ServerName }
  | { kind: 'cut' | 'black-hole' | 'slow'; server: ServerName; link: Link }
  | { kind: 'restart'; service: 'redis' | 'postgres' };
export type FaultKind = FaultTarget['kind'];

export type Fault = FaultTarget & {
  /** After the beginning of its round. */
  startsMs: number;
  lastsMs: number;
};

/** One or two faults whose times may overlap, and the pause after the last of them has been mended. */
export interface Round {
  faults: Fault[];
  pauseMs: number;
}

export interface ScheduleLimits {
  /** Rounds are added until they last this long together. */
  totalMs: number;
  /** No fault lasts longer, whatever its kind. */
  longestMs?: number;
  mayRestartPostgres?: boolean;
  /** Targets that are left out, such as those from which clients need a minute to recover. */
  without?: (target: FaultTarget) => boolean;
}

const LASTS_MS: Readonly<Record<FaultKind, readonly [number, number]>> = {
  kill: [500, 8000],
  freeze: [3000, 15_000],
  cut: [1000, 12_000],
  'black-hole': [3000, 15_000],
  slow: [3000, 12_000],
  restart: [500, 8000],
};
export const FAULT_KINDS = Object.keys(LASTS_MS);
const PAUSE_MS = [500, 6000] as const;
const TWO_AT_ONCE = 0.4;
/** The second fault of a round begins within this time after the first. */
const APART_MS = 4000;

const allTargets: readonly FaultTarget[] = [
  ...SERVERS.flatMap((server): FaultTarget[] => [
    { kind: 'kill', server },
    { kind: 'kill', server },
    { kind: 'freeze', server },
    ...LINKS.flatMap((link): FaultTarget[] => [
      { kind: 'cut', server, link },
      { kind: 'black-hole', server, link },
      { kind: 'slow', server, link },
    ]),
  ]),
  { kind: 'restart', service: 'redis' },
  { kind: 'restart', service: 'redis' },
  { kind: 'restart', service: 'postgres' },
  { kind: 'restart', service: 'postgres' },
];

export function schedule(seed: number, limits: ScheduleLimits): Round[] {
  const { totalMs, longestMs = Number.POSITIVE_INFINITY, mayRestartPostgres = true, without } = limits;
  let draws = 0;
  const random = () => fraction(seed, ++draws);
  const between = ([least, most]: readonly [number, number]) => Math.round(least + random() * (most - least));
  const targets = allTargets.filter(
    (target) => (mayRestartPostgres || subjectOf(target) !== 'postgres') && without?.(target) !== true,
  );
  const faultOf = (among: readonly FaultTarget[], startsMs: number): Fault[] => {
    const target = among[Math.floor(random() * among.length)];
    if (target === undefined) return [];
    return [{ ...target, startsMs, lastsMs: Math.min(between(LASTS_MS[target.kind]), longestMs) }];
  };

  const rounds: Round[] = [];
  for (let left = totalMs; left > 0; ) {
    const faults = faultOf(targets, 0);
    const first = faults[0];
    if (first === undefined) break;
    if (random() < TWO_AT_ONCE) {
      const others = targets.filter((target) => subjectOf(target) !== subjectOf(first));
      faults.push(...faultOf(others, between([0, Math.min(APART_MS, longestMs)])));
    }
    const round = { faults, pauseMs: Math.min(between(PAUSE_MS), longestMs) };
    rounds.push(round);
    left -= lengthOf(round);
  }
  return rounds;
}

export const lengthOf = ({ faults, pauseMs }: Round): number =>
  Math.max(...faults.map(({ startsMs, lastsMs }) => startsMs + lastsMs)) + pauseMs;

/** What a fault happens to; two faults at a time happen to two different things. */
export function subjectOf(target: FaultTarget): string {
  if ('service' in target) return target.service;
  return 'link' in target ? `${target.server}–${target.link}` : target.server;
}

export const describeFault = (fault: Fault): string =>
  `${fault.kind} ${subjectOf(fault)} for ${(fault.lastsMs / 1000).toFixed(1)} s`;
