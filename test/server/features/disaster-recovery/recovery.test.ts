import { expect } from 'chai';
import {
  followLeftovers,
  beginDueRehearsals,
} from '../../../../src/features/disaster-recovery/execution.work.ts';
import type { AuditEntry } from '../../../../src/platform/http/audit.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import type { JobUpdate } from '../../../../src/protocol/index.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson } from '../../../support/factories.ts';
import { graceOver } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { testClock } from '../../../support/test-clock.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';
import {
  buildRecoveryWorld,
  payloadOf,
  type RecoveryWorld,
} from '../../../support/disaster-recovery/recovery-support.ts';

interface Step {
  state: string;
  deviceName: string;
  error: { code: string } | null;
  cleanup: string;
  rtoSeconds: number | null;
}
interface Execution {
  id: string;
  status: string;
  groups: { name: string; status: string; steps: Step[] }[];
  report: { leftovers: number; abortSeconds: number };
  haltReason: string;
}

/** Less than the longest pause of a leader, so that its devices are in time with what they answer. */
const LOOK_MS = 250;

describe('recovery plans', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let world: RecoveryWorld;
  let planId: string;

  before(async () => {
    app = await createStoreApp();
    world = await buildRecoveryWorld(app);
    for (const device of world.devices) await device.connect(app);
    planId = await world.createPlan();
  });
  after(async () => {
    for (const device of world?.devices ?? []) device.close();
    await app?.close();
  });
  beforeEach(() => world.reset());

  /** Waits for it while the leaders of executions look again and again, at times that the clock brings nearer. */
  const led = <T>(read: () => Promise<T> | T, fits: (value: T) => boolean): Promise<T> =>
    eventually(async () => {
      await testClock.advance(LOOK_MS);
      testClock.jump(-LOOK_MS);
      return read();
    }, fits);
  const endOf = (id: string) =>
    led(
      () => world.read(id),
      ({ finishedAt }) => finishedAt !== null,
    );
  const states = ({ groups }: Execution) =>
    groups.flatMap(({ steps }) => steps.map(({ deviceName, state }) => `${deviceName} ${state}`));
  const orders = (type: string) =>
    world.devices.flatMap(({ log }) => log.filter((frame) => frame.type === type).map(payloadOf));
  const alerts = async () =>
    (await world.send('GET', `/alerts?orgId=${world.orgId}&kind=recovery_failed`)).body.data.map(
      ({ status }: { status: string }) => status,
    );

  it('are rehearsed in isolation and in order, and leave nothing behind', async () => {
    const watcher = await connectDashboard(app, world.admin.token);
    const updates: JobUpdate[] = [];
    watcher.socket.on('job:update', (update: JobUpdate) => updates.push(update));
    await watcher.send('jobs:subscribe', {});
    const id = await world.execute(planId, 'rehearsal', { note: 'Quarterly' });
    const ended = await endOf(id);
    expect(ended.status, JSON.stringify(ended)).to.equal('completed');
    expect(ended.report).to.include({ rtoMet: true, rpoMet: true, leftovers: 0, abortSeconds: null });
    expect(ended.report.rpoSeconds).to.be.within(3590, 3700);
    expect(states(ended).every((state) => state.endsWith('completed'))).to.equal(true);
    expect(world.left(), 'folders and machines').to.deep.equal([]);
    expect(world.at(1).types()).to.deep.equal([
      'backup.restore',
      'recovery.check',
      'script.run',
      'recovery.discard-restore',
    ]);
    for (const { targetPath, from } of orders('backup.restore')) {
      expect([targetPath, from]).to.deep.equal([undefined, undefined]);
    }
    expect(orders('backup.vm-from-image')[0]?.network).to.deep.equal({
      type: 'user',
      isIsolated: true,
      forwards: [5432],
    });
    expect(orders('backup.vm-instant-boot')[0]?.network).to.include({ isIsolated: true });
    const ofMachine = orders('recovery.check').find(({ check }) => check?.port === 45_432);
    expect(ofMachine?.check).to.deep.equal({ type: 'tcp', host: '127.0.0.1', port: 45_432 });
    expect(orders('script.run')[0]?.parameters).to.deep.include({ EXECUTION_TYPE: 'rehearsal' });
    const last = await led(
      () => updates.filter((update) => update.id === id).at(-1),
      (update) => update?.state === 'completed',
    );
    expect(last).to.include({ kind: 'dr', done: 6, total: 6 });
    watcher.close();
    await app.server.chainWriter.flush();
    const trail = await world.send('GET', `/audit-logs/logs?orgId=${world.orgId}&action=recovery.execute`);
    expect(trail.body.data[0].resource).to.include({ id });
    expect(trail.body.data[0].details).to.include({ executionType: 'rehearsal', note: 'Quarterly' });
  });

  it('fail over to their targets, and fail back what has changed there', async () => {
    // A path of the configuration that the device never had.
    world.at(0).script = (frame) =>
      payloadOf(frame).from === '/etc/app.conf' ? { error: 'PATH_MISSING' } : undefined;
    const over = await endOf(await world.execute(planId, 'failover'));
    expect(over.status, JSON.stringify(over)).to.equal('completed');
    expect(orders('recovery.discard-restore')).to.deep.equal([]);
    const restored = orders('backup.restore').map(({ targetPath, from }) => [from, targetPath]);
    expect(restored).to.have.deep.members([
      [undefined, '/srv/dr'],
      ['/srv/data', '/srv/data'],
      ['/etc/app.conf', '/etc/app.conf'],
      ['/srv/data', '/srv/data'],
      [undefined, '/srv/own'],
    ]);
    expect(orders('backup.vm-from-image')[0]?.network).to.deep.equal({
      type: 'user',
      isIsolated: false,
      forwards: [5432],
    });
    const plan = (await world.send('GET', `/dr/plans/${planId}`)).body;
    expect(plan.failedOverDevices).to.equal(6);
    expect(plan.failedOver.map(({ deviceName }: Step) => deviceName)).to.have.members(
      world.devices.map((_, index) => `srv-${index}`),
    );
    const refused = async (body: object, status: number) => {
      const answer = await world.send('POST', `/dr/plans/${planId}/execute`, body);
      expect(answer.status, JSON.stringify(answer.body)).to.equal(status);
      return answer.body.error as string;
    };
    expect(await refused({ executionType: 'failover' }, 409)).to.contain('failback');
    expect(await refused({ executionType: 'failback' }, 400)).to.match(/saveMachines.*srv-2, srv-4/);
    expect((await world.send('DELETE', `/dr/plans/${planId}`)).status).to.equal(409);

    const both = { executionType: 'failback', machinesAreBack: true, saveMachines: true };
    expect(await refused(both, 400)).to.contain('saveMachines');
    expect(await refused({ executionType: 'rehearsal', saveMachines: true }, 400)).to.contain('failback');

    await world.reset();
    const back = await endOf(await world.execute(planId, 'failback', { machinesAreBack: true }));
    expect(back.status, JSON.stringify(back)).to.equal('completed');
    expect(orders('backup.run').map(({ paths }) => paths)).to.have.deep.members([
      ['/srv/dr/srv/data', '/srv/dr/etc/app.conf'],
      ['/srv/data', '/etc/app.conf'],
      ['/srv/data'],
      ['/srv/own/srv/data', '/srv/own/etc/app.conf'],
    ]);
    const home = world
      .at(0)
      .log.filter(({ type }) => type === 'backup.restore')
      .map(payloadOf);
    expect(home.map(({ from, targetPath }) => [from, targetPath])).to.deep.equal([
      ['/srv/dr/srv/data', '/srv/data'],
      ['/srv/dr/etc/app.conf', '/etc/app.conf'],
    ]);
    expect((await world.send('GET', `/dr/plans/${planId}`)).body).to.deep.include({
      failedOverDevices: 0,
      failedOver: [],
    });
    expect(await refused({ executionType: 'failback' }, 400)).to.contain('no device');
  });

  it('back up machines that have failed over, and keep their marks until a person has brought them back', async () => {
    const machinesOnly = await world.post('/dr/plans', { orgId: world.orgId, name: 'Machines' });
    await world.post(`/dr/plans/${machinesOnly.id}/groups`, {
      name: 'All',
      sequence: 0,
      devices: [world.entry(2, 3, { type: 'vm' }), world.entry(4, 3, { type: 'instant' })],
    });
    const failedOver = async () =>
      (await world.send('GET', `/dr/plans/${machinesOnly.id}`)).body.failedOverDevices as number;
    const perform = async (type: string, more: object = {}) =>
      endOf(await world.execute(machinesOnly.id, type, more));
    expect((await perform('failover')).status).to.equal('completed');
    const made = [...world.at(3).machines];
    const saved = await perform('failback', { saveMachines: true });
    expect(saved.status, JSON.stringify(saved)).to.equal('completed');
    expect(orders('backup.vm-save').map(({ restoreId }) => restoreId)).to.have.members(made);
    expect(await failedOver()).to.equal(2);
    for (const { snapshotId } of saved.groups[0].steps) {
      const snapshot = (await world.send('GET', `/backup/snapshots/${snapshotId}`)).body;
      expect(snapshot).to.deep.include({ deviceId: world.at(3).id, backupType: 'system_image' });
    }
    // It is no image of the host, so nobody restores it in the place of the host.
    const ofHost = await world.post('/dr/plans', { orgId: world.orgId, name: 'Host' });
    const devices = [world.entry(3, 2, { type: 'instant' })];
    await world.post(`/dr/plans/${ofHost.id}/groups`, { name: 'Host', sequence: 0, devices });
    const rehearsed = await endOf(await world.execute(ofHost.id, 'rehearsal'));
    const [step] = rehearsed.groups[0].steps;
    expect(saved.groups[0].steps.map((each: { snapshotId: string }) => each.snapshotId)).not.to.contain(
      step.snapshotId,
    );

    const bringBack = await perform('failback', { machinesAreBack: true });
    expect(bringBack.status).to.equal('completed');
    expect(await failedOver()).to.equal(0);

    await world.reset();
    expect((await perform('failover')).status).to.equal('completed');
    world.at(3).machines.clear();
    const gone = await perform('failback', { saveMachines: true });
    expect(gone.groups[0].steps[0].error.code).to.equal('MACHINE_MISSING');
    expect(await failedOver()).to.equal(2);
    await perform('failback', { machinesAreBack: true });
  });

  it('halt behind a check that fails, take everything down and raise an alert, which the next success resolves', async () => {
    world.at(1).script = ({ type }) =>
      type === 'recovery.check'
        ? { output: { passed: false, message: 'The connection was refused.', attempts: 9, seconds: 9 } }
        : undefined;
    const ended = await endOf(await world.execute(planId, 'rehearsal'));
    expect(ended.status).to.equal('failed');
    expect(states(ended)).to.deep.equal([
      'srv-0 failed',
      'srv-1 completed',
      'srv-2 skipped',
      'srv-3 skipped',
      'srv-4 skipped',
      'srv-5 skipped',
    ]);
    expect(ended.haltReason).to.equal('srv-0: The connection was refused.');
    expect(ended.report).to.include({ rtoSeconds: null, rtoMet: false, leftovers: 0 });
    expect(world.left()).to.deep.equal([]);
    expect(await alerts()).to.deep.equal(['active']);
    // A server whose clock is ahead has ended this one: the later execution counts nevertheless.
    await asOwner(
      app.database.ownerUrl,
      `update dr_executions set finished_at = finished_at + interval '1 hour' where id = $1`,
      [ended.id],
    );
    await world.reset();
    expect((await endOf(await world.execute(planId, 'rehearsal'))).status).to.equal('completed');
    expect(await alerts()).to.deep.equal(['resolved']);
  });

  it('go on without a device that is gone, and take down what it has when it returns', async () => {
    const gone = world.at(1);
    gone.script = ({ type }) => (type === 'recovery.check' ? 'hold' : undefined);
    const id = await world.execute(planId, 'rehearsal');
    await led(gone.held, ({ length }) => length === 1);
    gone.close();
    await graceOver(app, gone.id);
    const changed = await inSystem(app, (tx) =>
      tx('device_presence')
        .where({ device_id: gone.id, state: 'disconnected' })
        .update({ since: new Date(Date.now() - 6 * 60_000) }),
    );
    expect(changed).to.equal(1);
    // The date moves as well: by it the leader gives the device up.
    const ended = await eventually(
      async () => {
        await testClock.advance(1000);
        return world.read(id);
      },
      ({ finishedAt }) => finishedAt !== null,
    );
    testClock.reset();
    expect(ended.status).to.equal('failed');
    const [first] = ended.groups[0].steps;
    expect(first.error.code).to.equal('DEVICE_OFFLINE');
    expect(ended.report.leftovers).to.equal(1);
    expect(ended.haltReason).to.contain('could not be taken down yet');
    expect(world.left()).to.have.length(1);
    gone.script = () => undefined;
    await gone.connect(app);
    // Looks for work that was not delivered.
    await app.settle();
    await led(world.left, ({ length }) => length === 0);
    const { hub, secrets, database } = app.server;
    const audit = undefined as never;
    const jobs = { enqueue: () => Promise.reject(new Error('no job is needed')) } as never;
    await eventually(
      async () => {
        const work = undefined as never;
        await followLeftovers({ db: database.jobPool, hub, secrets, jobs, work, audit, log: quietLog });
        return (await world.read(id)).report.leftovers;
      },
      (left) => left === 0,
      20_000,
    );
  });

  it('take down the rest of what is left, if one part of it cannot be', async () => {
    const id = await world.execute(planId, 'rehearsal');
    await endOf(id);
    const [broken = '', other = ''] = await inSystem(app, async (tx) => {
      const ids: string[] = await tx('dr_actions')
        .where({ phase: 'cleanup' })
        .whereIn('step_id', tx('dr_steps').where({ execution_id: id }).select('id'))
        .orderBy('id')
        .limit(2)
        .pluck('id');
      await tx('dr_actions')
        .whereIn('id', ids)
        .update({ state: 'failed', finished_at: tx.raw(`now() - interval '1 day'`) });
      await tx('dr_actions')
        .where({ id: ids[0] })
        .update({ spec: JSON.stringify({ does: 'unknown' }) });
      await tx('dr_executions')
        .where({ id })
        .update({ report: tx.raw(`report || '{"leftovers": 2}'`) });
      return ids;
    });
    const { hub, secrets, database } = app.server;
    const jobs = { enqueue: () => Promise.reject(new Error('no job is needed')) } as never;
    await followLeftovers({
      db: database.jobPool,
      hub,
      secrets,
      jobs,
      work: undefined as never,
      audit: undefined as never,
      log: quietLog,
    });
    const states = await inSystem(app, (tx) =>
      tx('dr_actions').whereIn('id', [broken, other]).orderBy('id').pluck('state'),
    );
    expect(states[0]).to.equal('failed');
    expect(states[1]).not.to.equal('failed');
    await inSystem(app, (tx) => tx('dr_actions').where({ id: broken }).update({ state: 'succeeded' }));
  });

  const MOMENTS: [string, number, string][] = [
    ['files are restored', 1, 'backup.restore'],
    ['a service is checked', 1, 'recovery.check'],
    ['a script runs', 1, 'script.run'],
    ['a machine is made', 3, 'backup.vm-from-image'],
    ['a machine boots', 5, 'backup.vm-instant-boot'],
    ['a machine is checked', 5, 'recovery.check'],
    ['things are taken down', 1, 'recovery.discard-restore'],
  ];
  for (const [moment, index, type] of MOMENTS) {
    it(`are aborted while ${moment}`, async () => {
      const device = world.at(index);
      device.script = (frame) => (frame.type === type ? 'hold' : undefined);
      const id = await world.execute(planId, 'rehearsal');
      await led(device.held, ({ length }) => length > 0);
      const answer = await world.send('POST', `/dr/executions/${id}/abort`);
      expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
      if (type === 'recovery.discard-restore') await device.release();
      const ended: Execution = await endOf(id);
      expect(ended.status, JSON.stringify(ended)).to.equal('aborted');
      expect(ended.report.leftovers).to.equal(0);
      expect(ended.report.abortSeconds).to.be.lessThan(20);
      expect(world.left(), 'folders and machines').to.deep.equal([]);
      if (type !== 'recovery.discard-restore') expect(device.stopped).to.deep.equal([type]);
      const again = await world.send('POST', `/dr/executions/${id}/abort`);
      expect(again.status).to.equal(400);
    });
  }

  it('are rehearsed by their schedule', async () => {
    const scheduled = await world.createPlan({ rehearsalSchedule: { frequency: 'daily', time: '03:00' } });
    const plan = () => world.send('GET', `/dr/plans/${scheduled}`);
    expect((await plan()).body.nextRehearsalAt).to.match(/T03:00:00/);
    // Else the server's own round of the minute might be first.
    testClock.stop();
    await inSystem(app, (tx) =>
      tx('dr_plans')
        .where({ id: scheduled })
        .update({ next_rehearsal_at: new Date(Date.now() - 1000) }),
    );
    const recorded: string[] = [];
    const parts = {
      db: app.server.database.jobPool,
      log: quietLog,
      jobs: { enqueue: () => Promise.resolve({ id: '', added: true }) },
      audit: {
        record: (_tx: unknown, { action, actor }: AuditEntry) =>
          Promise.resolve(void recorded.push(`${action} ${actor.kind}`)),
        committed: () => {},
      },
    };
    for (let round = 0; round < 2; round++) {
      await beginDueRehearsals(parts as never, new AbortController().signal);
    }
    testClock.run();
    expect(recorded).to.deep.equal(['recovery.execute system']);
    const { data } = (await world.send('GET', `/dr/executions?planId=${scheduled}`)).body;
    expect(data).to.have.length(1);
    expect(data[0]).to.include({ trigger: 'schedule', executionType: 'rehearsal', createdBy: null });
    expect(new Date((await plan()).body.nextRehearsalAt).getTime()).to.be.greaterThan(Date.now());
    // Nobody leads it, and the abort brings a leader.
    await world.send('POST', `/dr/executions/${data[0].id}/abort`);
    expect((await endOf(data[0].id)).status).to.equal('aborted');
  });

  it('refuse what cannot be worked off', async () => {
    const { id } = await world.post('/dr/plans', { orgId: world.orgId, name: 'Empty' });
    const plan = `/dr/plans/${id}`;
    const bad = async (method: string, path: string, body: object, field: string) => {
      const answer = await world.send(method, path, body);
      expect(answer.status, JSON.stringify(answer.body)).to.equal(400);
      expect(JSON.stringify(answer.body.details)).to.contain(field);
    };
    await bad('POST', `${plan}/execute`, { executionType: 'rehearsal' }, 'no groups');
    const files = { type: 'files' };
    const group = (more: object) => ({
      name: 'G',
      sequence: 1,
      devices: [world.entry(0, 1, files)],
      ...more,
    });
    const first = await world.post(`${plan}/groups`, group({}));
    const second = await world.post(
      `${plan}/groups`,
      group({ dependsOnGroupId: first.id, devices: [world.entry(1, 1, files)] }),
    );
    const groups = `${plan}/groups`;
    await bad('PATCH', `${groups}/${first.id}`, { dependsOnGroupId: second.id }, 'lead back');
    await bad('PATCH', `${groups}/${first.id}`, { sequence: 2 }, 'must not be higher');
    const other = await buildRecoveryWorld(app);
    const third = (entry: object) => group({ devices: [{ ...world.entry(2, 2, files), ...entry }] });
    await bad('POST', groups, third({ deviceId: other.at(0).id }), 'devices.0.deviceId');
    await bad('POST', groups, third({ targetDeviceId: other.at(0).id }), 'devices.0.targetDeviceId');
    await bad('POST', groups, third({ deviceId: world.at(0).id }), 'twice');
    await bad('POST', groups, third({ restore: { type: 'files', targetPath: '/' } }), 'targetPath');
    await bad('POST', groups, third({ checks: [{ type: 'tcp', port: 70_000 }] }), 'port');
    await bad('POST', groups, third({ checks: [{ type: 'script', scriptId: planId }] }), 'scriptId');
    expect((await world.send('DELETE', `${groups}/${first.id}`)).status).to.equal(409);
    await world.send('PATCH', plan, { status: 'archived' });
    await bad('POST', `${plan}/execute`, { executionType: 'rehearsal' }, 'archived');

    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: world.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const foreign = other.admin;
    const execution = await world.execute(planId, 'rehearsal');
    const denied: [string, string, object | undefined, number, typeof viewer][] = [
      ['POST', `/dr/plans/${planId}/execute`, { executionType: 'rehearsal' }, 403, viewer],
      ['POST', `/dr/executions/${execution}/abort`, {}, 403, viewer],
      ['PATCH', plan, { name: 'Mine' }, 403, viewer],
      ['POST', `/dr/plans/${planId}/execute`, { executionType: 'rehearsal' }, 403, world.technician],
      ['GET', `/dr/plans/${planId}`, undefined, 404, foreign],
      ['PATCH', plan, { name: 'Mine' }, 404, foreign],
      ['POST', groups, third({}), 404, foreign],
      ['PATCH', `${groups}/${first.id}`, { name: 'Mine' }, 404, foreign],
      ['DELETE', plan, undefined, 404, foreign],
      ['POST', `/dr/plans/${planId}/execute`, { executionType: 'rehearsal' }, 404, foreign],
      ['GET', `/dr/executions/${execution}`, undefined, 404, foreign],
      ['POST', `/dr/executions/${execution}/abort`, {}, 404, foreign],
      ['POST', `/dr/plans/${planId}/execute`, { executionType: 'rehearsal' }, 409, world.admin],
    ];
    for (const [method, path, body, status, person] of denied) {
      const answer = await world.send(method, path, body, person);
      expect(answer.status, `${method} ${path} ${JSON.stringify(answer.body)}`).to.equal(status);
    }
    const listed = await world.send('GET', `/dr/executions?planId=${planId}`, undefined, foreign);
    expect(listed.body.data).to.deep.equal([]);
    await endOf(execution);
  });
});
