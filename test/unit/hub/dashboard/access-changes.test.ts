import { expect } from 'chai';
import sinon from 'sinon';
import {
  type AccessChange,
  concernOf,
  readAccessChange,
  type DashboardAccess,
  AccessChanges,
} from '../../../../src/hub/dashboard/dashboard-access.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { AgentCredentials } from '../../../../src/hub/ports.ts';
import type { Caller } from '../../../../src/platform/context.ts';
import { CALLER } from '../../../support/feed-client.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const id = (n: number) => `018f0000-0000-7000-8000-${String(n).padStart(12, '0')}`;
const MINE = id(1);
const OTHER = id(2);
const NONE = { rights: false, devices: false };
const RIGHTS = { rights: true, devices: false };
const DEVICES = { rights: true, devices: true };
const change = (kind: AccessChange['kind'], of = MINE, partnerId: string | null = null): AccessChange => ({
  kind,
  id: of,
  partnerId,
});

describe('a change of rights or tenants concerns a caller', () => {
  const caller = (more: Partial<Caller>): Caller =>
    ({
      ...CALLER,
      userId: null,
      sessionId: null,
      roleId: null,
      apiKeyId: null,
      partnerId: null,
      orgId: null,
      orgIds: [],
      ...more,
    }) as Caller;

  for (const [kind, field] of [
    ['person', 'userId'],
    ['session', 'sessionId'],
    ['role', 'roleId'],
    ['api_key', 'apiKeyId'],
  ] as const) {
    it(`when it is about the ${kind} of the caller, and about no other`, () => {
      expect(concernOf(change(kind), caller({ [field]: MINE }))).to.deep.equal(RIGHTS);
      expect(concernOf(change(kind), caller({ [field]: OTHER }))).to.deep.equal(NONE);
      const others = { userId: MINE, sessionId: MINE, roleId: MINE, apiKeyId: MINE, [field]: null };
      expect(concernOf(change(kind), caller(others))).to.deep.equal(NONE);
    });
  }

  it('when it is about the partner, by the scope of the caller', () => {
    const concern = (more: Partial<Caller>) => concernOf(change('partner'), caller(more));
    expect(concern({ scope: 'partner', partnerId: MINE })).to.deep.equal(RIGHTS);
    expect(concern({ scope: 'partner', partnerId: OTHER })).to.deep.equal(NONE);
    expect(concern({ scope: 'organization' })).to.deep.equal(RIGHTS);
    expect(concern({ scope: 'system' })).to.deep.equal(DEVICES);
  });

  it('when it is about an organization that the caller sees', () => {
    const concern = (more: Partial<Caller>) => concernOf(change('organization', MINE, id(9)), caller(more));
    expect(concern({ scope: 'system' })).to.deep.equal(DEVICES);
    expect(concern({ scope: 'organization', orgAccess: 'listed', orgIds: [MINE] })).to.deep.equal(DEVICES);
    expect(concern({ scope: 'organization', orgAccess: 'listed', orgIds: [OTHER] })).to.deep.equal(NONE);
    expect(concern({ scope: 'partner', orgAccess: 'all', partnerId: id(9) })).to.deep.equal(DEVICES);
    expect(concern({ scope: 'partner', orgAccess: 'all', partnerId: OTHER })).to.deep.equal(NONE);
    expect(concern({ scope: 'partner', orgAccess: 'listed', partnerId: id(9) })).to.deep.equal(NONE);
  });

  it('never when it is about an agent', () => {
    expect(concernOf(change('agent'), caller({ scope: 'system', userId: MINE }))).to.deep.equal(NONE);
  });

  it('is read from its announcement, if this version knows it', () => {
    expect(readAccessChange(JSON.stringify(change('role')))).to.deep.equal(change('role'));
    expect(readAccessChange(JSON.stringify({ ...change('role'), kind: 'later' }))).to.equal(undefined);
    expect(readAccessChange('no json')).to.equal(undefined);
  });
});

describe('changes of rights and tenants', () => {
  let clock: sinon.SinonFakeTimers;
  let registry: ActorRegistry;
  let changes: AccessChanges;
  let calls: unknown[][];
  let lapsed: { deviceId: string; code: string }[];
  let asked: string[][];
  let failures: number;
  let gate: Promise<void>;
  let log: ReturnType<typeof recordingLog>;
  const start = (hasLive = true) =>
    (changes = new AccessChanges({
      registry,
      log: log.log,
      credentials: {
        forget: (which: unknown) => void calls.push(['forget', which]),
        async lapsed(ids: readonly string[]) {
          asked.push([...ids]);
          await gate;
          if (failures-- > 0) throw new Error('the database is away');
          return lapsed.filter(({ deviceId }) => ids.includes(deviceId));
        },
      } as unknown as AgentCredentials,
      dashboards: {
        changed: (all: unknown) => void calls.push(['dashboards', all]),
        recheckAll: () => void calls.push(['recheck all']),
      } as unknown as DashboardAccess,
      live: hasLive ? { resync: () => void calls.push(['resync']) } : undefined,
    }));
  const connect = (deviceId: string, orgId = id(10), partnerId = id(20)) =>
    registry.put({
      deviceId,
      identity: { orgId, partnerId },
      stop: (...args: unknown[]) => void calls.push(['stop', deviceId, ...args]),
    } as unknown as DeviceActor);
  const announce = (...all: AccessChange[]) => changes.changed(all.map((one) => JSON.stringify(one)));
  const settle = () => clock.tickAsync(0);

  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    registry = new ActorRegistry();
    [calls, lapsed, asked] = [[], [], []];
    failures = 0;
    gate = Promise.resolve();
    log = recordingLog();
    start();
  });
  afterEach(() => {
    changes.close();
    clock.restore();
  });

  it('of people reach the dashboards only', async () => {
    connect('device-1');
    announce(change('person'), change('role', OTHER));
    await settle();
    expect(calls).to.deep.equal([['dashboards', [change('person'), change('role', OTHER)]]]);
    expect(asked).to.deep.equal([]);
  });

  it('of agents are checked for those that are connected here', async () => {
    connect(MINE);
    announce(change('agent'), change('agent', OTHER));
    await settle();
    expect(calls.slice(1)).to.deep.equal([['forget', [MINE, OTHER]]]);
    expect(asked).to.deep.equal([[MINE]]);
    announce(change('agent', OTHER));
    await settle();
    expect(asked).to.have.length(1);
  });

  it('of agents end the connections of those that waited for approval', async () => {
    connect(MINE);
    registry.put({
      deviceId: OTHER,
      isPending: true,
      identity: { orgId: id(10), partnerId: id(20) },
      stop: (...args: unknown[]) => void calls.push(['stop', OTHER, ...args]),
    } as unknown as DeviceActor);
    announce(change('agent'), change('agent', OTHER));
    await settle();
    expect(calls.slice(2)).to.deep.equal([['stop', OTHER, undefined, 'socket_closed']]);
  });

  it('of agents are settled when all of them are checked', async () => {
    let open = () => {};
    gate = new Promise((resolve) => (open = resolve));
    connect(MINE);
    announce(change('agent'));
    let isSettled = false;
    const settling = changes.settle().then(() => (isSettled = true));
    await settle();
    expect(isSettled).to.equal(false);
    open();
    await settling;
    expect(asked).to.deep.equal([[MINE]]);
  });

  it('of tenants are checked for their connected devices', async () => {
    connect('by organization', MINE);
    connect('by partner', id(11), OTHER);
    connect('of another', id(12), id(22));
    announce(change('organization'), change('partner', OTHER));
    await settle();
    expect(calls.slice(1)).to.deep.equal([['forget', 'all'], ['resync']]);
    expect(asked).to.deep.equal([['by organization', 'by partner']]);
  });

  it('end the connections of devices that may not be connected any more, with the reason if they are decommissioned', async () => {
    for (const name of ['gone', 'suspended', 'good']) connect(name, MINE);
    lapsed = [
      { deviceId: 'gone', code: 'DECOMMISSIONED' },
      { deviceId: 'suspended', code: 'TENANT_INACTIVE' },
      { deviceId: 'elsewhere', code: 'DECOMMISSIONED' },
    ];
    announce(change('organization'));
    await settle();
    expect(calls.slice(3)).to.deep.equal([
      ['stop', 'gone', { afterMs: 3_600_000, reason: 'decommissioned' }, 'socket_closed'],
      ['stop', 'suspended', undefined, 'socket_closed'],
    ]);
  });

  it('that this version does not know have everything checked', async () => {
    connect('device-1');
    changes.changed([JSON.stringify(change('person')), 'something later']);
    await settle();
    expect(calls).to.deep.equal([['forget', 'all'], ['recheck all'], ['resync']]);
    expect(asked).to.deep.equal([['device-1']]);
  });

  it('have everything checked even if there are no live filters', async () => {
    start(false);
    changes.recheckAll();
    announce(change('partner'));
    await settle();
    expect(calls.map(([what]) => what)).to.deep.equal(['forget', 'recheck all', 'dashboards', 'forget']);
    expect(asked).to.deep.equal([]);
  });

  it('are checked for a thousand devices at once, and one call after another', async () => {
    for (let n = 0; n < 1001; n++) connect(`device ${n}`);
    let open = () => {};
    gate = new Promise((resolve) => (open = resolve));
    changes.recheckAll();
    changes.recheckAll();
    await settle();
    expect(asked.map(({ length }) => length)).to.deep.equal([1000]);
    open();
    await settle();
    // The devices of the first call are checked again, because the second change may have come after it was read.
    expect(asked.map(({ length }) => length)).to.deep.equal([1000, 1000, 1]);
    expect(new Set(asked.flat()).size).to.equal(1001);
    changes.recheckAll();
    await settle();
    expect(asked).to.have.length(5);
  });

  it('are checked a second later when that fails', async () => {
    connect('device-1', MINE);
    lapsed = [{ deviceId: 'device-1', code: 'TENANT_INACTIVE' }];
    failures = 2;
    announce(change('organization'));
    await clock.tickAsync(999);
    expect(asked).to.have.length(1);
    expect(log.lines[0]).to.include({ event: 'hub.agents_not_rechecked', devices: 1 });
    await clock.tickAsync(1001);
    expect(asked).to.have.length(3);
    expect(calls.at(-1)?.[0]).to.equal('stop');
    await clock.tickAsync(60_000);
    expect([asked.length, clock.countTimers()]).to.deep.equal([3, 0]);
  });

  it('are not checked any more when the server stops', async () => {
    connect('device-1', MINE);
    failures = 100;
    announce(change('organization'));
    await settle();
    changes.close();
    // Without the pause before the next attempt, which would keep a closing server waiting.
    await changes.settle();
    await clock.tickAsync(60_000);
    expect([asked.length, clock.countTimers()]).to.deep.equal([1, 0]);
  });
});
