import { expect } from 'chai';
import fc from 'fast-check';
import {
  alertsOfTurns,
  eventTurns,
  metricTurns,
  offlineTurns,
  type Turn,
} from '../../../../src/features/alert-rules/past-alerts.ts';

const MINUTE = 60_000;
const TO = 1000 * MINUTE;

describe('the alerts that a rule would have raised', () => {
  const turn = (at: number, isMet: boolean, key = ''): Turn => ({
    at: at * MINUTE,
    key,
    isMet,
    what: `at ${at}`,
  });
  const alerts = (turns: Turn[], cooldownMinutes = 0) =>
    alertsOfTurns(turns, { cooldownMinutes, to: TO }).map(({ raisedAt, resolvedAt }) => [
      raisedAt / MINUTE,
      resolvedAt === null ? null : resolvedAt / MINUTE,
    ]);

  it('are as many as the condition was met', () => {
    expect(alerts([turn(5, true), turn(9, false), turn(20, true)])).to.deep.equal([
      [5, 9],
      [20, null],
    ]);
  });

  it('count each volume, and resolve when all are well', () => {
    expect(
      alerts([turn(5, true, 'C:'), turn(7, true, 'D:'), turn(8, false, 'C:'), turn(9, false, 'D:')]),
    ).to.deep.equal([
      [5, 9],
      [7, 9],
    ]);
  });

  it('do not count a volume again that the alert names already', () => {
    const again = [turn(5, true, 'C:'), turn(7, true, 'D:'), turn(8, false, 'D:'), turn(9, true, 'D:')];
    expect(alerts(again)).to.deep.equal([
      [5, null],
      [7, null],
    ]);
    // The alert was raised anew without it.
    expect(alerts([...again.slice(0, 3), turn(9, true, 'E:'), turn(10, true, 'D:')])).to.deep.equal([
      [5, null],
      [7, null],
      [9, null],
      [10, null],
    ]);
  });

  it('wait for the end of the cooldown', () => {
    const flapping = [turn(5, true), turn(9, false), turn(12, true), turn(15, false), turn(30, true)];
    expect(alerts(flapping, 60)).to.deep.equal([
      [5, 9],
      [69, null],
    ]);
    expect(alerts([...flapping, turn(40, false)], 60)).to.deep.equal([[5, 9]]);
    expect(alerts(flapping, 5)).to.deep.equal([
      [5, 9],
      [14, 15],
      [30, null],
    ]);
  });
});

describe('the alerts of a preview', () => {
  /** As rounds see it: by what is met at a moment and what the alert names, not by what has turned. */
  function raisedByRounds(turns: readonly Turn[], cooldownMinutes: number): number[] {
    const met = new Set<string>();
    let names: ReadonlySet<string> | undefined;
    let resolvedAt = Number.NEGATIVE_INFINITY;
    const raised: number[] = [];
    for (let minute = 0; minute < TO / MINUTE; minute += 1) {
      const now = minute * MINUTE;
      for (const { key, isMet, at } of turns) {
        if (at !== now) continue;
        if (isMet) met.add(key);
        else met.delete(key);
        if (met.size === 0 && names !== undefined) {
          names = undefined;
          resolvedAt = now;
        }
      }
      const isNews =
        met.size > 0 && (names === undefined || [...met].some((key) => names?.has(key) === false));
      if (!isNews || now < resolvedAt + cooldownMinutes * MINUTE) continue;
      names = new Set(met);
      raised.push(minute);
    }
    return raised;
  }

  it('are those of rounds each minute, whatever turns in between', () => {
    const steps = fc.array(
      fc.record({ gap: fc.integer({ min: 1, max: 40 }), key: fc.constantFrom('C:', 'D:', 'E:') }),
      {
        maxLength: 40,
      },
    );
    fc.assert(
      fc.property(steps, fc.constantFrom(0, 5, 60), (all, cooldownMinutes) => {
        const met = new Set<string>();
        let at = 0;
        const turns = all.flatMap(({ gap, key }): Turn[] => {
          at += gap * MINUTE;
          if (at >= TO) return [];
          const isMet = !met.has(key);
          if (isMet) met.add(key);
          else met.delete(key);
          return [{ at, key, isMet, what: '' }];
        });
        const alerts = alertsOfTurns(turns, { cooldownMinutes, to: TO });
        expect(alerts.map(({ raisedAt }) => raisedAt / MINUTE)).to.deep.equal(
          raisedByRounds(turns, cooldownMinutes),
        );
      }),
    );
  });
});

describe('the absences of a device', () => {
  const gone = (at: number) => ({ at: at * MINUTE, state: 'disconnected', reason: 'socket_closed' }) as const;
  const back = (at: number) => ({ at: at * MINUTE, state: 'connected', reason: 'connected' }) as const;
  const turns = (...presence: Parameters<typeof offlineTurns>[1][number][]) =>
    offlineTurns({ kind: 'offline', forMinutes: 30 }, presence, { to: TO }).map(({ at, isMet }) => [
      isMet,
      at / MINUTE,
    ]);

  it('count from the threshold on, until the device has been back for a while', () => {
    expect(turns(gone(10), back(35))).to.deep.equal([]);
    expect(turns(gone(10), back(50), gone(51), back(60))).to.deep.equal([
      [true, 40],
      [false, 62],
    ]);
    expect(turns(gone(990))).to.deep.equal([]);
    expect(turns(gone(900))).to.deep.equal([[true, 930]]);
  });

  it('count again after a return that was too short', () => {
    expect(turns(gone(10), back(50), gone(51), back(90))).to.deep.equal([
      [true, 40],
      [true, 81],
      [false, 92],
      [false, 92],
    ]);
  });

  it('that end when their time comes, or returns that do, are over before a round can see them', () => {
    expect(turns(gone(10), back(40), gone(42), back(60))).to.deep.equal([]);
    expect(turns(gone(10), back(50), gone(52), back(90))).to.deep.equal([
      [true, 40],
      [true, 82],
      [false, 92],
      [false, 92],
    ]);
    const due = turns(gone(10), back(50), gone(52.1), back(90));
    expect(due).to.deep.equal([
      [true, 40],
      [false, 52],
      [true, 82.1],
      [false, 92],
    ]);
  });

  it('that are over at the end of a cooldown are not raised then, even after a return that was too short', () => {
    const presence = [gone(10), back(50), gone(60), back(111), gone(112.5), back(150)];
    const alerts = (to: number) =>
      alertsOfTurns(offlineTurns({ kind: 'offline', forMinutes: 30 }, [...presence, gone(to)], { to: TO }), {
        cooldownMinutes: 60,
        to: TO,
      }).map(({ raisedAt, resolvedAt }) => [raisedAt / MINUTE, (resolvedAt ?? 0) / MINUTE]);
    expect(alerts(900)).to.deep.equal([
      [40, 52],
      [142.5, 152],
      [930, 0],
    ]);
  });

  it('that began with the loss of a server count when its devices have had the time to come back', () => {
    const lost = { at: 0, state: 'disconnected', reason: 'node_lost' } as const;
    const condition = { kind: 'offline', forMinutes: 5 } as const;
    expect(offlineTurns(condition, [lost, back(8)], { to: TO })).to.deep.equal([]);
    expect(offlineTurns(condition, [lost, back(20)], { to: TO }).map(({ at }) => at / MINUTE)).to.deep.equal([
      10, 22,
    ]);
  });
});

describe('the volumes of a device', () => {
  const condition = {
    kind: 'metric',
    metric: 'diskPercent',
    operator: 'greaterThanOrEquals',
    threshold: 90,
    forMinutes: 0,
  } as const;
  const series = (label: string, from: number, values: number[]) => ({
    label,
    points: values.map((value, n) => ({ at: (from + n) * MINUTE, value })),
  });
  const turns = (...figures: ReturnType<typeof series>[]) =>
    metricTurns(condition, figures).map(({ at, key, isMet }) => [key, isMet, at / MINUTE]);
  const minutes = (count: number, value: number) => Array.from({ length: count }, () => value);

  it('end an alert when they are taken out, and begin one when they are put in again', () => {
    expect(
      turns(series('C:', 0, minutes(30, 10)), {
        label: 'E:',
        points: [...series('', 3, [95, 95]).points, ...series('', 20, [95]).points],
      }),
    ).to.deep.equal([
      ['E:', true, 3],
      ['E:', false, 9],
      ['E:', true, 20],
      ['E:', false, 25],
    ]);
  });

  it('are not gone while the whole device says nothing, or for a few samples', () => {
    const c = {
      label: 'C:',
      points: [...series('', 0, minutes(5, 10)).points, ...series('', 60, minutes(9, 10)).points],
    };
    expect(
      turns(c, { label: 'E:', points: [...series('', 4, [95]).points, ...series('', 64, [95]).points] }),
    ).to.deep.equal([['E:', true, 4]]);
  });
});

describe('the events of a device', () => {
  const condition = { kind: 'event', source: 'Disk', count: 3, withinMinutes: 10 } as const;
  const turns = (...times: number[]) =>
    eventTurns(
      condition,
      times.map((at) => ({ at: at * MINUTE, what: 'Disk' })),
    ).map(({ at, isMet }) => [isMet, at / MINUTE]);

  it('meet the condition when so many happen within the time, and for that time after the last', () => {
    expect(turns(1, 2)).to.deep.equal([]);
    expect(turns(1, 6, 12)).to.deep.equal([]);
    expect(turns(1, 6, 11, 15)).to.deep.equal([
      [true, 11],
      [false, 25],
    ]);
    expect(turns(1, 2, 3, 40, 41, 42)).to.deep.equal([
      [true, 3],
      [false, 13],
      [true, 42],
      [false, 52],
    ]);
  });
});
