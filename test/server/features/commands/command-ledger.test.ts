import { expect } from 'chai';
import { createCommandLedger } from '../../../../src/features/commands/index.ts';
import type { CommandLedger } from '../../../../src/hub/ports.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { CALLER } from '../../../support/feed-client.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SCRIPT = { type: 'script.run', payload: { language: 'bash', content: 'true', timeoutSeconds: 60 } };
const REBOOT = { type: 'agent.reboot', payload: {} };

describe('the command ledger', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let ledger: CommandLedger;
  const ends: string[][] = [];
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    ledger = createCommandLedger({
      db: app.server.database.hubPool,
      nodeId: 'node-of-this-test',
      encryptor: createEncryptor({ current: 'a-key-that-only-tests-seal-secrets-with', old: [] }),
      onEnded: (types) => ends.push([...types]),
    });
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  async function queue(...commands: { type: string; payload: object }[]): Promise<string[]> {
    const ids: string[] = [];
    for (const body of commands) {
      const path = `/devices/${device.deviceId}/commands`;
      const { body: command } = await app.call('POST', path, { token: tenant.admin.token, body });
      ids.push(command.id);
    }
    return ids;
  }

  async function take({ knowsLanes = true, epoch = 1 } = {}): Promise<string[]> {
    const { dispatched } = await ledger.take([{ deviceId: device.deviceId, epoch, knowsLanes }]);
    return dispatched.map(({ id }) => id).sort();
  }

  const set = (table: 'organizations' | 'partners', id: string, status: string) =>
    asOwner(app.database.ownerUrl, `update ${table} set status = $2 where id = $1`, [id, status]);

  for (const [table, id] of [
    ['organizations', () => tenant.orgId],
    ['partners', () => tenant.partnerId],
  ] as const) {
    it(`keeps back what was queued before one of the ${table} was suspended, until it is active again`, async () => {
      const [script = ''] = await queue(SCRIPT);
      await set(table, id(), 'suspended');
      try {
        expect(await take()).to.deep.equal([]);
        expect(await ledger.undelivered(undefined, 1000)).to.not.include(device.deviceId);
      } finally {
        await set(table, id(), 'active');
      }
      expect(await ledger.undelivered(undefined, 1000)).to.include(device.deviceId);
      expect(await take()).to.deep.equal([script]);
    });

    it(`does not send a command again whose receipt is missing while one of the ${table} is suspended`, async () => {
      const [script = ''] = await queue(SCRIPT);
      expect(await take()).to.deep.equal([script]);
      await set(table, id(), 'suspended');
      try {
        expect(await take({ epoch: 2 })).to.deep.equal([]);
      } finally {
        await set(table, id(), 'active');
      }
    });
  }

  it('still asks a device of a suspended organization to end what it runs', async () => {
    const [script = ''] = await queue(SCRIPT);
    await take();
    await app.call('POST', `/commands/${script}/cancel`, { token: tenant.admin.token });
    await set('organizations', tenant.orgId, 'suspended');
    try {
      const { cancelled } = await ledger.take([{ deviceId: device.deviceId, epoch: 1, knowsLanes: true }]);
      expect(cancelled).to.deep.equal([{ id: script, deviceId: device.deviceId }]);
    } finally {
      await set('organizations', tenant.orgId, 'active');
    }
  });

  it('gives each lane its own places, in the order of creation', async () => {
    const [one = '', two = '', three = '', reboot = ''] = await queue(SCRIPT, SCRIPT, SCRIPT, REBOOT);
    expect(await take()).to.deep.equal([one, two, reboot].sort());
    expect(await take()).to.deep.equal([]);
    const end = { status: 'succeeded', output: {} } as const;
    await ledger.record([{ kind: 'finished', id: reboot, deviceId: device.deviceId, end }]);
    expect(await take(), 'a free place of another lane').to.deep.equal([]);
    await ledger.record([{ kind: 'finished', id: one, deviceId: device.deviceId, end }]);
    expect(await take()).to.deep.equal([three]);
  });

  it('says which commands have ended, once for each', async () => {
    const [script = '', reboot = ''] = await queue(SCRIPT, REBOOT);
    await take();
    ends.length = 0;
    const { deviceId } = device;
    const end = { status: 'failed' } as const;
    await ledger.record([{ kind: 'running', id: script, deviceId }]);
    expect(ends).to.deep.equal([]);
    await ledger.record([{ kind: 'finished', id: reboot, deviceId, end }]);
    await ledger.record([{ kind: 'finished', id: reboot, deviceId, end }]);
    await ledger.record([{ kind: 'finished', id: script, deviceId, end }]);
    expect(ends).to.deep.equal([['agent.reboot'], ['script.run']]);
  });

  it('gives an agent that knows no lanes two commands at once, whatever they are', async () => {
    const [one = '', two = '', reboot = ''] = await queue(SCRIPT, SCRIPT, REBOOT);
    expect(await take({ knowsLanes: false })).to.deep.equal([one, two].sort());
    expect(await take({ knowsLanes: false })).to.deep.equal([]);
    const end = { status: 'failed' } as const;
    await ledger.record([{ kind: 'finished', id: one, deviceId: device.deviceId, end }]);
    expect(await take({ knowsLanes: false })).to.deep.equal([reboot]);
  });

  it('puts a type of another release into the lane for work', async () => {
    const unknown = await queue(SCRIPT, SCRIPT, SCRIPT);
    await asOwner(
      app.database.ownerUrl,
      `update commands set type = 'later.type' where id = any($1::uuid[])`,
      [unknown],
    );
    const [reboot = ''] = await queue(REBOOT);
    expect(await take()).to.deep.equal([...unknown.slice(0, 2), reboot].sort());
  });

  it('says of its answers that they are as old as the question, so that a change of the meantime is newer', async () => {
    const [id = ''] = await queue(SCRIPT);
    const { deviceId } = device;
    const caller = { ...CALLER, scope: 'partner', partnerId: tenant.partnerId, orgAccess: 'all' } as const;
    const hold = 'do $$ begin lock table commands in access exclusive mode; perform pg_sleep(0.5); end $$';
    const held = asOwner(app.database.ownerUrl, hold);
    await eventually(
      () =>
        asOwner<{ held: number }>(
          app.database.ownerUrl,
          `select count(*)::int as held from pg_locks
          where relation = 'commands'::regclass and mode = 'AccessExclusiveLock' and granted`,
        ),
      ([row]) => row?.held === 1,
    );
    const asked = ledger.jobs(caller, { deviceId });
    await held;
    const changedAt = Date.now();
    const [job] = await asked;
    expect(job).to.include({ id, state: 'queued' });
    expect(Date.parse(job?.at ?? '')).to.be.below(changedAt);
  });
});
