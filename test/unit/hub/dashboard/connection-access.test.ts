import { expect } from 'chai';
import sinon from 'sinon';
import { type ConnectionAccess, DashboardAccess } from '../../../../src/hub/dashboard/dashboard-access.ts';
import type { Caller } from '../../../../src/platform/context.ts';
import { AppError } from '../../../../src/platform/errors.ts';
import { CALLER } from '../../../support/feed-client.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const NOW = Date.parse('2026-01-31T08:00:00Z');
const RECHECK_MS = 15_000;
const RETRY_MS = 1000;
const ID = '018f0000-0000-7000-8000-000000000001';
const PERSON: Caller = {
  ...CALLER,
  userId: ID,
  orgIds: ['a', 'b'],
  permissions: new Set(['sites:read', 'devices:read']),
};

describe('the rights of a connection, by a clock that the test moves,', () => {
  let clock: sinon.SinonFakeTimers;
  let all: DashboardAccess;
  let access: ConnectionAccess;
  let lookUps: number;
  let answer: Caller | Error;
  let lost: number;
  let devicesChanged: number;
  let log: ReturnType<typeof recordingLog>;

  const admit = (caller = PERSON) =>
    (access = all.admit({
      caller,
      async authenticate() {
        lookUps += 1;
        if (answer instanceof Error) throw answer;
        return answer;
      },
      onLost: () => void (lost += 1),
      onDevicesChanged: () => void (devicesChanged += 1),
    }));
  const start = (recheckMs?: number) =>
    (all = new DashboardAccess({ log: log.log, isInTouch: () => true, recheckMs }));

  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    [lookUps, lost, devicesChanged] = [0, 0, 0];
    answer = PERSON;
    log = recordingLog();
    start();
    admit();
  });
  afterEach(() => {
    access.close();
    clock.restore();
  });

  it('are looked up every fifteen seconds, or as often as was set', async () => {
    await clock.tickAsync(RECHECK_MS - 1);
    expect(lookUps).to.equal(0);
    await clock.tickAsync(1);
    expect(lookUps).to.equal(1);
    await clock.tickAsync(RECHECK_MS);
    expect([lookUps, lost, devicesChanged]).to.deep.equal([2, 0, 0]);
    access.close();
    lookUps = 0;
    start(100);
    admit();
    await clock.tickAsync(1000);
    expect(lookUps).to.equal(10);
  });

  it('are looked up every second after a failure, which is logged once', async () => {
    answer = new AppError('unavailable', 'The database is away.');
    await clock.tickAsync(RECHECK_MS + 3 * RETRY_MS);
    expect([lookUps, lost]).to.deep.equal([4, 0]);
    expect(log.lines.map(({ event }) => event)).to.deep.equal(['hub.dashboard_recheck_failed']);
    answer = PERSON;
    await clock.tickAsync(RETRY_MS);
    expect(lookUps).to.equal(5);
    await clock.tickAsync(RECHECK_MS - 1);
    expect(lookUps).to.equal(5);
  });

  it('refuse work with the time of the next look-up while they are unknown', async () => {
    answer = new Error('connection reset');
    await clock.tickAsync(RECHECK_MS);
    const refusal = (await access.current().catch((error: unknown) => error)) as AppError;
    expect([refusal.code, refusal.retryAfterMs]).to.deep.equal(['unavailable', RETRY_MS]);
  });

  it('end the connection once when the credential is no longer valid', async () => {
    answer = new AppError('unauthenticated', 'The session has ended.');
    await access.recheck();
    await access.recheck();
    expect([lost, clock.countTimers()]).to.deep.equal([1, 0]);
    all.recheckAll();
    expect(lookUps).to.equal(1);
  });

  for (const [what, more] of [
    ['scope', { scope: 'organization' }],
    ['partner', { partnerId: 'other' }],
    ['access to organizations', { orgAccess: PERSON.orgAccess === 'all' ? 'listed' : 'all' }],
    ['organizations', { orgIds: ['a', 'c'] }],
    ['role', { roleId: 'other' }],
    ['permissions', { permissions: new Set(['sites:read']) }],
  ] as [string, Partial<Caller>][]) {
    it(`end the connection when the ${what} of the caller has changed`, async () => {
      answer = { ...PERSON, ...more };
      await access.recheck();
      expect(lost).to.equal(1);
    });
  }

  it('go on with a caller who has the same rights in another order, or another name', async () => {
    const same: Caller = {
      ...PERSON,
      name: 'Another name',
      orgIds: ['b', 'a'],
      permissions: new Set(['devices:read', 'sites:read']),
    };
    answer = same;
    await access.recheck();
    expect([lost, access.caller === same, await access.current()]).to.deep.equal([0, true, same]);
  });

  it('report that they may cover other devices, once for each change of that', async () => {
    await access.recheck();
    expect(devicesChanged).to.equal(0);
    all.changed([{ kind: 'person', id: ID, partnerId: null }]);
    await clock.tickAsync(0);
    expect([lookUps, devicesChanged]).to.deep.equal([2, 0]);
    all.recheckAll();
    await clock.tickAsync(0);
    expect([lookUps, devicesChanged]).to.deep.equal([3, 1]);
    await access.recheck();
    expect(devicesChanged).to.equal(1);
    access.close();
    admit({ ...PERSON, scope: 'system' });
    answer = { ...PERSON, scope: 'system' };
    all.changed([{ kind: 'partner', id: ID, partnerId: null }]);
    await clock.tickAsync(0);
    expect(devicesChanged).to.equal(2);
  });

  it('report other devices also after a failed look-up', async () => {
    answer = new Error('connection reset');
    await access.recheck({ devices: true });
    expect(devicesChanged).to.equal(0);
    answer = PERSON;
    await clock.tickAsync(RETRY_MS);
    expect(devicesChanged).to.equal(1);
  });

  it('report nothing of a connection that was closed during the look-up', async () => {
    const checking = access.recheck({ devices: true });
    access.close();
    await checking;
    expect([devicesChanged, lost, clock.countTimers()]).to.deep.equal([0, 0, 0]);
    const ended = (await access.current().catch((error: unknown) => error)) as AppError;
    expect(ended.code).to.equal('unauthenticated');
  });

  it('do not end a connection again that was closed during the look-up', async () => {
    answer = new AppError('unauthenticated', 'The session has ended.');
    const checking = access.recheck();
    access.close();
    await checking;
    expect(lost).to.equal(0);
  });

  describe('are looked up just after the end of the credential', () => {
    const untilLookUp = async (validMs: number) => {
      access.close();
      admit({ ...PERSON, validUntil: new Date(NOW + validMs) });
      for (let ms = 0; ms <= RECHECK_MS; ms += 10) {
        if (lookUps > 0) return ms;
        await clock.tickAsync(10);
      }
      return undefined;
    };
    it('when that comes before the next look-up', async () => {
      expect(await untilLookUp(5000)).to.equal(5020);
    });
    it('but not when it comes later, or has passed', async () => {
      expect(await untilLookUp(RECHECK_MS)).to.equal(RECHECK_MS);
      clock.setSystemTime(NOW);
      lookUps = 0;
      expect(await untilLookUp(0)).to.equal(RECHECK_MS);
    });
  });
});
