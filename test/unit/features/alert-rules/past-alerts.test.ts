import { expect } from 'chai';
import {
  alertsOfTurns,
  eventTurns,
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

describe('the absences of a device', () => {
  const gone = (at: number) => ({ at: at * MINUTE, state: 'disconnected', reason: 'socket_closed' }) as const;
  const back = (at: number) => ({ at: at * MINUTE, state: 'connected', reason: 'connected' }) as const;
  const turns = (...presence: Parameters<typeof offlineTurns>[1][number][]) =>
    offlineTurns({ kind: 'offline', forMinutes: 30 }, presence, { from: 0, to: TO }).map(({ at, isMet }) => [
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

  it('that began before do not count again', () => {
    expect(turns(gone(-100), back(50))).to.deep.equal([[false, 52]]);
    expect(turns(gone(-10), back(50))).to.deep.equal([
      [true, 20],
      [false, 52],
    ]);
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
