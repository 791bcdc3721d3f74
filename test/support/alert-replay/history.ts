import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../../src/clock.ts';
import type { MetricSample } from '../../../src/protocol/index.ts';
import { Chance } from './chance.ts';

/** Weeks in the life of devices, made from a seed: believable, and nasty. Pure. */

export interface Message {
  at: number;
  samples: MetricSample[];
}

export interface ConnectionTurn {
  at: number;
  state: 'connected' | 'disconnected';
}

export interface MachineEvent {
  /** When it happened. */
  happenedAt: number;
  /** When the server was told. */
  at: number;
}

export interface DeviceHistory {
  messages: Message[];
  turns: ConnectionTurn[];
  events: MachineEvent[];
  /** When the server was told of a minute that was sampled, or of an event. */
  toldAt(what: 'sample' | 'event', at: number): number;
  /** Whether the device has the volume at that time. */
  hasVolume(volume: string, at: number): boolean;
  /** The figure of the processor at a moment, which differs from the average of the minute. */
  heartbeatAt(at: number): { cpuPercent: number; ramPercent: number; diskPercent: number };
}

/** The clock of the device is ahead for these minutes of its history, or behind. */
export interface WrongClock {
  from: number;
  to: number;
  aheadMinutes: number;
}

/** How an agent sends: five samples together, an hour in each message after an outage, the oldest first. */
const TOGETHER = 5;
const MOST = 60;
const GIB = 2 ** 30;

interface Stretch {
  /** Minutes of the history. */
  from: number;
  to: number;
  state: 'connected' | 'cut off' | 'switched off';
}

export function historyOf(
  seed: number,
  {
    from,
    days,
    serverDown,
    wrongClocks = [],
  }: {
    from: number;
    days: number;
    serverDown: readonly { from: number; to: number }[];
    wrongClocks?: readonly WrongClock[];
  },
): DeviceHistory {
  const chance = new Chance(seed);
  const minutes = (days * DAY_MS) / MINUTE_MS;
  const stretches = withServerDown(stretchesOf(chance, minutes), serverDown, from);
  const figures = figuresOf(chance, minutes);
  // All messages of devices come at full five minutes and some seconds, so that a server takes them together.
  const seconds = (seed % 2) * 7 + 11;
  const messages: Message[] = [];
  const arrivals = new Map<number, number>();
  const turns: ConnectionTurn[] = [];
  let kept: { datedAt: number; sample: MetricSample }[] = [];
  /** An agent sends one message after another, so that what it samples meanwhile does not overtake what it had kept. */
  let nextAt = 0;
  const send = (at: number) => {
    while (kept.length > 0) {
      const together = kept.slice(0, MOST);
      kept = kept.slice(MOST);
      const arrivesAt = Math.max(at, nextAt);
      nextAt = arrivesAt + 2 * SECOND_MS;
      messages.push({ at: arrivesAt, samples: together.map(({ sample }) => sample) });
      for (const { datedAt } of together) {
        // What is a little ahead counts as taken when it arrives.
        const countsAt = Math.min(datedAt, arrivesAt);
        arrivals.set(countsAt - (countsAt % MINUTE_MS), arrivesAt);
      }
    }
  };
  for (const stretch of stretches) {
    const begin = from + stretch.from * MINUTE_MS;
    if (stretch.state === 'connected') {
      const at = begin + chance.whole(1, 9) * SECOND_MS;
      turns.push({ at, state: 'connected' });
      if (kept.length > 0) send(at + 1500);
    } else if (turns.at(-1)?.state === 'connected') {
      turns.push({ at: begin + chance.whole(1, 5) * SECOND_MS, state: 'disconnected' });
    }
    if (stretch.state === 'switched off') continue;
    for (let minute = stretch.from; minute < stretch.to; minute += 1) {
      const takenAt = from + minute * MINUTE_MS + seconds * SECOND_MS;
      const clock = wrongClocks.find((one) => minute >= one.from && minute < one.to);
      const datedAt = takenAt + (clock?.aheadMinutes ?? 0) * MINUTE_MS;
      kept.push({ datedAt, sample: { at: new Date(datedAt).toISOString(), ...figures(minute) } });
      if (stretch.state === 'connected' && minute % TOGETHER === TOGETHER - 1) send(takenAt + 500);
    }
  }
  const events = eventsOf(chance, stretches, { from, minutes });
  const told = { sample: arrivals, event: new Map(events.map(({ happenedAt, at }) => [happenedAt, at])) };
  return {
    messages,
    turns,
    events,
    toldAt: (what, at) => told[what].get(at) ?? at,
    hasVolume: (name, at) =>
      figures(Math.floor((at - from) / MINUTE_MS)).volumes?.some((one) => one?.volume === name) === true,
    heartbeatAt(at) {
      const { cpuPercent = 0, ramPercent = 0, volumes = [] } = figures(Math.floor((at - from) / MINUTE_MS));
      // An instant is above the average as often as below it.
      const instant = Math.min(100, Math.max(0, cpuPercent + (Math.floor(at / 1000) % 2 === 0 ? 25 : -25)));
      const [first] = volumes;
      return {
        cpuPercent: instant,
        ramPercent,
        diskPercent: (100 * (first?.usedBytes ?? 0)) / (first?.totalBytes ?? 1),
      };
    },
  };
}

/** Days of work between outages of minutes and of nights, and now and then a connection that flaps. */
function stretchesOf(chance: Chance, minutes: number): Stretch[] {
  const stretches: Stretch[] = [];
  const end = () => stretches.at(-1)?.to ?? 0;
  const add = (state: Stretch['state'], length: number) => {
    const from = end();
    const to = Math.min(minutes, from + length);
    if (to > from) stretches.push({ from, to, state });
  };
  while (end() < minutes) {
    add('connected', chance.whole(300, 3600));
    const what = chance.share();
    if (what < 0.3) add('cut off', chance.whole(6, 240));
    else if (what < 0.6) add('switched off', chance.whole(4, 900));
    else if (what < 0.75) {
      // Gone for longer than a rule allows, back for a moment, and gone again.
      for (let n = chance.whole(2, 6); n > 0; n -= 1) {
        add('cut off', chance.whole(2, 50));
        add('connected', chance.whole(1, 12));
      }
    } else if (what < 0.9) add('switched off', chance.whole(1, 4));
    else add('cut off', chance.whole(1, 4));
  }
  return stretches;
}

/** Without their server, devices that are on go on sampling. */
function withServerDown(
  stretches: readonly Stretch[],
  serverDown: readonly { from: number; to: number }[],
  begin: number,
): Stretch[] {
  const down = serverDown.map(({ from, to }) => ({
    from: (from - begin) / MINUTE_MS,
    to: (to - begin) / MINUTE_MS,
  }));
  return down.reduce<Stretch[]>(
    (all, gap) =>
      all.flatMap((stretch) => {
        const cut = { from: Math.max(stretch.from, gap.from), to: Math.min(stretch.to, gap.to) };
        if (stretch.state !== 'connected' || cut.from >= cut.to) return [stretch];
        return [
          { ...stretch, to: cut.from },
          { ...cut, state: 'cut off' as const },
          { ...stretch, from: cut.to },
        ].filter(({ from, to }) => to > from);
      }),
    [...stretches],
  );
}

/** Round a threshold of 90, with peaks of a minute and of hours, figures exactly at it, and volumes that come and go. */
function figuresOf(chance: Chance, minutes: number): (minute: number) => Omit<MetricSample, 'at'> {
  const cpu = new Float32Array(minutes);
  const ram = new Float32Array(minutes);
  const swap = new Float32Array(minutes);
  const load = new Float32Array(minutes);
  const disk = new Float32Array(minutes);
  const stick = new Float32Array(minutes).fill(-1);
  for (const [series, rest] of [
    [cpu, 25],
    [ram, 45],
    [load, 30],
    [swap, 20],
  ] as const) {
    for (let at = 0; at < minutes; at += 1) series[at] = rest + chance.share() * 20;
    for (let at = chance.whole(10, 900); at < minutes; at += chance.whole(60, 1500)) {
      const kind = chance.share();
      const length = kind < 0.4 ? chance.whole(1, 4) : chance.whole(5, 120);
      const peakOf = (): number => {
        if (kind < 0.65) return 91 + chance.share() * 9;
        // Flapping round the threshold, and about the one that clears.
        if (kind < 0.9) return 76 + chance.share() * 18;
        return 90;
      };
      for (let n = at; n < Math.min(minutes, at + length); n += 1) series[n] = peakOf();
      at += length;
    }
  }
  let used = 60 + chance.share() * 20;
  for (let at = 0; at < minutes; at += 1) {
    used += 0.01 + chance.share() * 0.02;
    // Somebody cleans up, or not quite enough.
    if (used > 97 || chance.share() < 0.0006) used -= chance.share() < 0.5 ? 3 : 25;
    disk[at] = Math.min(99, Math.max(20, used));
  }
  for (let at = chance.whole(0, 2000); at < minutes; at += chance.whole(600, 4000)) {
    const length = chance.whole(30, 800);
    const percent = chance.share() < 0.6 ? 92 + chance.share() * 7 : 50;
    for (let n = at; n < Math.min(minutes, at + length); n += 1) stick[n] = percent;
    at += length;
  }
  return (minute) => {
    const volumes = [{ volume: 'C:', usedBytes: (disk[minute] ?? 0) * GIB, totalBytes: 100 * GIB }];
    const plugged = stick[minute] ?? -1;
    if (plugged >= 0) volumes.push({ volume: 'E:', usedBytes: plugged * GIB, totalBytes: 100 * GIB });
    return {
      cpuPercent: cpu[minute] ?? 0,
      ramPercent: ram[minute] ?? 0,
      swapPercent: swap[minute] ?? 0,
      load: load[minute] ?? 0,
      volumes,
    };
  };
}

/** Single errors and storms of them. */
function eventsOf(
  chance: Chance,
  stretches: readonly Stretch[],
  { from, minutes }: { from: number; minutes: number },
): MachineEvent[] {
  const events: MachineEvent[] = [];
  for (let at = chance.whole(20, 2000); at < minutes; at += chance.whole(100, 3000)) {
    const count = chance.share() < 0.3 ? 1 : chance.whole(2, 8);
    for (let n = 0; n < count; n += 1) {
      const minute = at + chance.share() * 18;
      const stretch = stretches.find(({ to }) => to > minute);
      // Those of an outage are told after it, and count as they are told: a preview differs there.
      if (stretch?.state !== 'connected') continue;
      const happenedAt = Math.floor(from + minute * MINUTE_MS);
      events.push({ happenedAt, at: happenedAt + 5000 });
    }
  }
  return events.sort((a, b) => a.at - b.at);
}
