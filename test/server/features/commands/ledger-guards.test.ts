import { expect } from 'chai';
import { createCommandLedger } from '../../../../src/features/commands/index.ts';
import type { CommandEnd, CommandEvent, CommandLedger } from '../../../../src/hub/ports.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { CALLER } from '../../../support/feed-client.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SCRIPT = { type: 'script.run', payload: { language: 'bash', content: 'true', timeoutSeconds: 60 } };
const REBOOT = { type: 'agent.reboot', payload: {} };
const OUTPUT = { exitCode: 0, stdout: 'done', stderr: '', truncated: false };
const NO_UUID = 'no uuid';
/** How long after its timeout a command may still report. */
const OVERDUE_SECONDS = 120;

interface Stored {
  status: string;
  reason: string | null;
  attempt: number;
  epoch: string | null;
  node_id: string | null;
  output: unknown;
  error: { code: string } | null;
  progress: unknown;
  late_result: Record<string, unknown> | null;
  has_started: boolean;
  has_finished: boolean;
  due_in: number | null;
}

describe('the guards of the command ledger', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let other: EnrolledDevice;
  let ledger: CommandLedger;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    ledger = createCommandLedger({
      db: app.server.database.hubPool,
      nodeId: 'node-of-this-test',
      encryptor: createEncryptor({ current: 'a-key-that-only-tests-seal-secrets-with', old: [] }),
    });
  });
  after(async () => app.close());
  beforeEach(async () => {
    [device, other] = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
  });

  const sql = <Row extends object>(text: string, values: unknown[] = []) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, text, values);
  async function queue(body: object = SCRIPT, { deviceId } = device): Promise<string> {
    const answer = await app.call('POST', `/devices/${deviceId}/commands`, {
      token: tenant.admin.token,
      body,
    });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(202);
    return answer.body.id;
  }
  const take = (epoch = 1, more: { isUncertain?: boolean; knowsLanes?: boolean } = {}) =>
    ledger.take([{ deviceId: device.deviceId, epoch, knowsLanes: true, ...more }]);
  const taken = async (...args: Parameters<typeof take>) =>
    (await take(...args)).dispatched.map(({ id }) => id);
  const record = (...events: CommandEvent[]) => ledger.record(events);
  const event = (kind: 'accepted' | 'postponed' | 'running', id: string, { deviceId } = device) =>
    ({ kind, id, deviceId, ...(kind === 'postponed' ? { attempt: 1 } : {}) }) as CommandEvent;
  const finished = (id: string, end: CommandEnd, { deviceId } = device): CommandEvent => ({
    kind: 'finished',
    id,
    deviceId,
    end,
  });
  const succeeded: CommandEnd = { status: 'succeeded', output: OUTPUT };
  async function read(id: string): Promise<Stored> {
    const [row] = await sql<Stored>(
      `select status, reason, attempt, epoch, node_id, output, error, progress, late_result,
        started_at is not null as has_started, finished_at is not null as has_finished,
        extract(epoch from due_at - now())::float as due_in
      from commands where id = $1`,
      [id],
    );
    if (row === undefined) throw new Error(`There is no command ${id}.`);
    return row;
  }
  const set = (id: string, changes: string) => sql(`update commands set ${changes} where id = $1`, [id]);
  const statusOf = async (id: string) => (await read(id)).status;

  describe('when it gives out commands', () => {
    it('leaves those that have expired, whether they were sent or not', async () => {
      const [queued, sent, fresh] = [await queue(), await queue(), await queue(REBOOT)];
      await set(queued, `expires_at = now() - interval '1 second'`);
      await set(sent, `status = 'dispatched', epoch = 1, expires_at = now() - interval '1 second'`);
      expect(await taken(2)).to.deep.equal([fresh]);
      expect([(await read(queued)).attempt, (await read(sent)).epoch]).to.deep.equal([0, '1']);
    });

    it('notes the node, the epoch and the attempt, and returns the deadline by the timeout', async () => {
      const id = await queue();
      const { dispatched, changed } = await take(5);
      const [command] = dispatched;
      expect(command).to.include({
        id,
        deviceId: device.deviceId,
        type: 'script.run',
        epoch: 5,
        attempt: 1,
      });
      expect(command?.payload).to.deep.equal(SCRIPT.payload);
      const timeout = await sql<{ s: number }>('select timeout_seconds as s from commands where id = $1', [
        id,
      ]);
      const left = Date.parse(command?.deadline ?? '') - Date.now();
      expect(left / 1000).to.be.closeTo(timeout[0]?.s ?? 0, 30);
      expect(changed).to.have.length(1);
      expect(await read(id)).to.include({
        status: 'dispatched',
        reason: null,
        attempt: 1,
        epoch: '5',
        node_id: 'node-of-this-test',
      });
    });

    it('returns a command without a receipt under later epochs only, as another attempt', async () => {
      const id = await queue();
      expect(await taken(5)).to.deep.equal([id]);
      expect(await taken(4)).to.deep.equal([]);
      expect(await taken(5)).to.deep.equal([]);
      expect(await taken(6)).to.deep.equal([id]);
      expect(await read(id)).to.include({ attempt: 2, epoch: '6' });
    });

    it('returns it under the same epoch when the claim is uncertain', async () => {
      const id = await queue();
      await take(5);
      expect(await taken(5, { isUncertain: true })).to.deep.equal([id]);
      await record(event('accepted', id));
      expect(await taken(5, { isUncertain: true })).to.deep.equal([]);
      expect(await taken(6)).to.deep.equal([]);
    });

    it('returns nothing that has been accepted, runs, or has ended', async () => {
      for (const status of [
        'accepted',
        'running',
        'succeeded',
        'failed',
        'cancelled',
        'timed_out',
        'expired',
      ]) {
        const id = await queue();
        const hasEnded = !['accepted', 'running'].includes(status);
        await set(id, `status = '${status}', epoch = 1${hasEnded ? ', finished_at = now()' : ''}`);
        expect(await taken(9), status).to.deep.equal([]);
        await sql('delete from commands where id = $1', [id]);
      }
    });

    it('counts what runs, and what was sent under this claim, against the places of a lane', async () => {
      const [accepted, running] = [await queue(), await queue()];
      await take(1);
      await record(event('accepted', accepted), event('running', running));
      const next = await queue();
      expect(await taken(1)).to.deep.equal([]);
      await record(finished(running, succeeded));
      expect(await taken(1)).to.deep.equal([next]);
      await queue();
      expect(await taken(1), 'all places are taken by what was accepted and sent').to.deep.equal([]);
    });

    it('has the places of each lane apart', async () => {
      await queue();
      await queue();
      expect(await taken(1), 'all places of scripts').to.have.length(2);
      const [script, reboot] = [await queue(), await queue(REBOOT)];
      expect(await taken(1)).to.deep.equal([reboot]);
      expect(await statusOf(script)).to.equal('queued');
    });

    it('does not count against the places what an earlier claim sent without a receipt', async () => {
      const sent = [await queue(), await queue()];
      expect(await taken(1)).to.have.members(sent);
      const next = await queue();
      expect(await taken(2)).to.have.members(sent);
      expect(await statusOf(next)).to.equal('queued');
    });

    it('gives the commands of each device to that device alone', async () => {
      const [mine, foreign] = [await queue(), await queue(SCRIPT, other)];
      expect(await taken(1)).to.deep.equal([mine]);
      const both = await ledger.take([
        { deviceId: device.deviceId, epoch: 2, knowsLanes: true },
        { deviceId: other.deviceId, epoch: 3, knowsLanes: true },
      ]);
      expect(both.dispatched.map(({ id, epoch }) => [id, epoch])).to.have.deep.members([
        [mine, 2],
        [foreign, 3],
      ]);
    });

    it('names the commands that have to be cancelled on the device, and no others', async () => {
      const [cancelled, runs, ended, foreign] = [
        await queue(),
        await queue(),
        await queue(REBOOT),
        await queue(SCRIPT, other),
      ];
      await take(1);
      await set(cancelled, `status = 'running', cancel_requested_at = now()`);
      await set(ended, `status = 'cancelled', cancel_requested_at = now(), finished_at = now()`);
      await set(foreign, `status = 'running', cancel_requested_at = now()`);
      const answer = await take(1);
      expect(answer.cancelled).to.deep.equal([{ id: cancelled, deviceId: device.deviceId }]);
      expect(await statusOf(runs)).to.equal('dispatched');
    });

    it('leaves one that is being changed at this moment to the next call', async () => {
      const id = await queue();
      const taking = { wasTaken: [] as string[] };
      await app.server.database.hubPool.transaction(async (tx) => {
        await tx.raw(`set local role svc_system`);
        await tx.raw('select id from commands where id = ? for update', [id]);
        taking.wasTaken = await taken(1);
      });
      expect(taking.wasTaken).to.deep.equal([]);
      expect(await taken(1)).to.deep.equal([id]);
    });
  });

  describe('when a device reports', () => {
    it('counts the time from the receipt, and keeps the first begin', async () => {
      const id = await queue();
      await take();
      await record(event('accepted', id));
      const after = await read(id);
      expect(after).to.include({ status: 'accepted', has_started: true });
      const [limit] = await sql<{ s: number }>('select timeout_seconds as s from commands where id = $1', [
        id,
      ]);
      expect(after.due_in ?? 0).to.be.closeTo((limit?.s ?? 0) + OVERDUE_SECONDS, 30);
      await set(id, `started_at = now() - interval '1 hour', due_at = now() + interval '7 seconds'`);
      await record(event('running', id));
      const [begin] = await sql<{ ago: number }>(
        'select extract(epoch from now() - started_at)::float as ago from commands where id = $1',
        [id],
      );
      expect(begin?.ago).to.be.above(3000);
      expect((await read(id)).due_in ?? 0).to.be.below(8);
    });

    it('takes a receipt of what was sent or waits, and of nothing else', async () => {
      for (const [status, becomes] of [
        ['queued', 'accepted'],
        ['dispatched', 'accepted'],
        ['running', 'running'],
        ['succeeded', 'succeeded'],
        ['expired', 'expired'],
      ] as const) {
        const id = await queue();
        const hasEnded = ['succeeded', 'expired'].includes(status);
        await set(id, `status = '${status}', finished_at = ${hasEnded ? 'now()' : 'null'}`);
        const changed = await record(event('accepted', id));
        expect([await statusOf(id), changed.length], status).to.deep.equal([
          becomes,
          becomes === 'accepted' ? 1 : 0,
        ]);
      }
    });

    it('queues again what it postpones, unless it has accepted it', async () => {
      const [sent, accepted] = [await queue(), await queue()];
      await take(3);
      await record(event('accepted', accepted));
      const changed = await record(event('postponed', sent), event('postponed', accepted));
      expect(changed).to.have.length(1);
      expect(await read(sent)).to.include({ status: 'queued', reason: 'device_busy', epoch: null });
      expect(await statusOf(accepted)).to.equal('accepted');
    });

    it('does not queue again what was sent once more since', async () => {
      const sent = await queue();
      await take(3);
      await record(event('postponed', sent));
      await take(3);
      // The answer to the first record was lost, so it is tried again.
      expect(await record(event('postponed', sent))).to.deep.equal([]);
      expect(await statusOf(sent)).to.equal('dispatched');
    });

    it('changes the command that is named, and no other of the device', async () => {
      const [named, beside] = [await queue(), await queue()];
      await take(1);
      for (const kind of ['running', 'postponed', 'accepted'] as const) {
        await set(named, `status = 'dispatched', epoch = 1`);
        const before = await read(beside);
        expect(await record(event(kind, named)), kind).to.have.length(1);
        expect(await read(beside), kind).to.deep.equal({ ...before, due_in: null });
      }
      await set(beside, `status = 'expired', finished_at = now()`);
      await set(named, `status = 'expired', finished_at = now()`);
      await record(finished(named, succeeded));
      expect([(await read(named)).late_result === null, (await read(beside)).late_result]).to.deep.equal([
        false,
        null,
      ]);
    });

    it('does not begin again what has ended', async () => {
      for (const status of ['succeeded', 'failed', 'cancelled', 'timed_out', 'expired']) {
        const id = await queue();
        await set(id, `status = '${status}', finished_at = now()`);
        const progress = { phase: 'copying', percent: 1 };
        const late: CommandEvent = { kind: 'running', id, deviceId: device.deviceId, progress };
        expect(await record(late), status).to.deep.equal([]);
        expect(await read(id)).to.include({ status, progress: null });
      }
    });

    it('keeps no late result of another device', async () => {
      const id = await queue();
      await set(id, `status = 'timed_out', finished_at = now()`);
      await record(finished(id, succeeded, other));
      expect((await read(id)).late_result).to.equal(null);
    });

    it('keeps the last progress, also beside a report without any', async () => {
      const id = await queue();
      const running = (percent: number): CommandEvent => ({
        kind: 'running',
        id,
        deviceId: device.deviceId,
        progress: { phase: 'copying', percent },
      });
      const changed = await record(running(1), running(2));
      expect(changed).to.have.length(1);
      await record(event('running', id));
      const after = await read(id);
      expect(after).to.include({ status: 'running', has_started: true });
      expect(after.progress).to.deep.equal({ phase: 'copying', percent: 2 });
      expect(after.due_in ?? 0).to.be.above(0);
    });

    it('changes nothing of another device', async () => {
      const id = await queue();
      await take();
      const changed = await record(
        event('accepted', id, other),
        event('postponed', id, other),
        event('running', id, other),
        finished(id, succeeded, other),
      );
      expect([changed, await statusOf(id)]).to.deep.equal([[], 'dispatched']);
      // What another device says must not displace what the right one says in the same call.
      await record(finished(id, { status: 'failed' }, other), finished(id, succeeded));
      expect(await statusOf(id)).to.equal('succeeded');
    });

    it('ignores ids that are none, or that are unknown', async () => {
      const id = await queue();
      const changed = await record(
        event('accepted', NO_UUID),
        finished('01890000-0000-7000-8000-000000000001', succeeded),
        event('accepted', id),
      );
      expect(changed).to.have.length(1);
      expect(await record(event('accepted', NO_UUID))).to.deep.equal([]);
    });

    it('ends a command by the first of two results', async () => {
      const id = await queue();
      const failure: CommandEnd = { status: 'failed', error: { code: 'X', message: 'No.' } };
      const results = [succeeded, failure, failure].map((end) => finished(id, end));
      const changed = await record(...results, finished(id.toUpperCase(), failure));
      expect(changed).to.have.length(1);
      await record(finished(id, failure));
      const after = await read(id);
      expect(after).to.include({
        status: 'succeeded',
        error: null,
        late_result: null,
        has_started: true,
        has_finished: true,
      });
      expect(after.output).to.deep.equal(OUTPUT);
    });

    it('ends a command whose id the device has written in capitals', async () => {
      const id = await queue();
      expect(await record(finished(id.toUpperCase(), succeeded))).to.have.length(1);
      expect(await statusOf(id)).to.equal('succeeded');
    });

    it('tells the exit code of a script that succeeded, and none of another end', async () => {
      const [good, bad] = [await queue(), await queue()];
      const changed = await record(
        finished(good, succeeded),
        finished(bad, { status: 'failed', output: OUTPUT, error: { code: 'X', message: 'No.' } }),
      );
      const codes = new Map(changed.map(({ update }) => [update.id, update.exitCode]));
      expect([codes.get(good), codes.get(bad)]).to.deep.equal([0, undefined]);
    });

    it('keeps a result that comes after the end beside it, once, unless it says the same', async () => {
      for (const status of ['timed_out', 'expired', 'cancelled']) {
        const id = await queue();
        await set(id, `status = '${status}', finished_at = now()`);
        await record(finished(id, succeeded));
        await record(finished(id, { status: 'failed' }));
        const after = await read(id);
        expect([after.status, after.late_result?.['status'], after.output]).to.deep.equal([
          status,
          'succeeded',
          null,
        ]);
        expect(after.late_result).to.have.all.keys('status', 'output', 'at');
      }
      const same = await queue();
      await set(same, `status = 'cancelled', finished_at = now()`);
      await record(finished(same, { status: 'cancelled' }));
      expect((await read(same)).late_result).to.equal(null);
    });

    it('makes a failure of a success whose output has another form than agreed', async () => {
      const [wrong, failed, later] = [await queue(), await queue(), await queue(REBOOT)];
      await set(later, `type = 'later.type'`);
      await record(
        finished(wrong, { status: 'succeeded', output: { exitCode: 'none' } }),
        finished(failed, {
          status: 'failed',
          output: { exitCode: 'none' },
          error: { code: 'X', message: 'No.' },
        }),
        finished(later, { status: 'succeeded', output: { any: 1 } }),
      );
      const rows = await Promise.all([wrong, failed, later].map(read));
      expect(rows.map(({ status, output, error }) => [status, output, error?.code])).to.deep.equal([
        ['failed', null, 'INVALID_OUTPUT'],
        ['failed', null, 'X'],
        ['failed', null, 'INVALID_OUTPUT'],
      ]);
    });
  });

  describe('when it sweeps', () => {
    it('ends what waited or took too long, each with its reason, and nothing else', async () => {
      const past = `now() - interval '1 second'`;
      const soon = `now() + interval '1 hour'`;
      const cases = [
        [`status = 'queued', expires_at = ${past}`, 'expired', null],
        [`status = 'dispatched', expires_at = ${past}`, 'timed_out', 'no_receipt'],
        [`status = 'accepted', expires_at = ${past}, due_at = ${past}`, 'timed_out', 'no_result'],
        [`status = 'running', expires_at = ${past}, due_at = ${past}`, 'timed_out', 'no_result'],
        [`status = 'queued', expires_at = ${soon}`, 'queued', null],
        [`status = 'dispatched', expires_at = ${soon}`, 'dispatched', null],
        [`status = 'accepted', expires_at = ${past}, due_at = ${soon}`, 'accepted', null],
        [`status = 'running', expires_at = ${past}, due_at = ${soon}`, 'running', null],
        [
          `status = 'succeeded', expires_at = ${past}, due_at = ${past}, finished_at = now()`,
          'succeeded',
          null,
        ],
      ] as const;
      const ids: string[] = [];
      for (const [changes] of cases) {
        const id = await queue();
        await set(id, changes);
        ids.push(id);
      }
      // The server of this test sweeps as well, so it may have been first.
      await ledger.sweep();
      for (const [n, [changes, status, reason]] of cases.entries()) {
        const after = await read(ids[n] ?? '');
        expect([after.status, after.reason], changes).to.deep.equal([status, reason]);
        expect(after.has_finished, changes).to.equal(n < 4 || n === 8);
      }
    });

    it('leaves what is being changed at this moment to the next sweep', async () => {
      const [waiting, runs] = [await queue(), await queue(REBOOT)];
      const ids = [waiting, runs];
      // The server of this test sweeps as well: if it was first, nothing is left to sweep.
      await set(runs, `status = 'running', due_at = now() - interval '1 second'`);
      await set(waiting, `expires_at = now() - interval '1 second'`);
      await app.server.database.hubPool.transaction(async (tx) => {
        await tx.raw(`set local role svc_system`);
        await tx.raw('select id from commands where id = any(?::uuid[]) for update', [ids]);
        const swept = await ledger.sweep();
        expect(swept.filter(({ update }) => ids.includes(update.id))).to.deep.equal([]);
      });
      await ledger.sweep();
      expect(await Promise.all(ids.map(statusOf))).to.deep.equal(['expired', 'timed_out']);
    });
  });

  describe('when a person cancels', () => {
    const cancel = (id: string) => app.call('POST', `/commands/${id}/cancel`, { token: tenant.admin.token });

    it('ends what was not sent at once, and what was sent by its device', async () => {
      const [waiting, sent] = [await queue(), await queue(REBOOT)];
      await set(sent, `status = 'dispatched', epoch = 1`);
      await cancel(waiting);
      await cancel(sent);
      expect(await read(waiting)).to.include({ status: 'cancelled', reason: 'not_sent', has_finished: true });
      expect(await read(sent)).to.include({ status: 'dispatched', reason: null, has_finished: false });
    });
  });

  describe('when it looks for undelivered work', () => {
    it('finds devices with something to send or to cancel, page by page', async () => {
      const ids = [device, other].map(({ deviceId }) => deviceId).sort();
      await queue();
      const running = await queue(SCRIPT, other);
      await set(running, `status = 'running'`);
      const found = async () => (await ledger.undelivered(undefined, 1000)).filter((id) => ids.includes(id));
      expect(await found()).to.deep.equal([device.deviceId]);
      await set(running, `cancel_requested_at = now()`);
      expect(await found()).to.deep.equal(ids);
      const [first] = await ledger.undelivered(undefined, 1);
      const second = await ledger.undelivered(first, 1);
      expect(second).to.have.length(1);
      expect((second[0] ?? '') > (first ?? '')).to.equal(true);
      await set(running, `status = 'cancelled', finished_at = now()`);
      expect(await found()).to.deep.equal([device.deviceId]);
    });

    it('finds a device to which an earlier server has sent a command after it had left', async () => {
      const found = async () =>
        (await ledger.undelivered(undefined, 1000)).filter((id) => id === device.deviceId);
      const command = await queue();
      await asOwner(
        app.database.ownerUrl,
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason)
        values ($1, $2, 8, 'here', 'connected', now(), 'connected')
        on conflict (device_id) do update set epoch = 8, state = 'connected'`,
        [device.deviceId, tenant.orgId],
      );
      await set(command, `status = 'dispatched', epoch = 7`);
      expect(await found()).to.deep.equal([device.deviceId]);
      await set(command, `epoch = 8`);
      expect(await found()).to.deep.equal([]);
      await set(command, `epoch = 7`);
      await asOwner(
        app.database.ownerUrl,
        `update device_presence set state = 'disconnected' where device_id = $1`,
        [device.deviceId],
      );
      expect(await found()).to.deep.equal([]);
    });
  });

  describe('when it lists jobs', () => {
    const caller = () =>
      ({ ...CALLER, scope: 'partner', partnerId: tenant.partnerId, orgAccess: 'all' }) as const;

    it('shows the open ones of a device, the newest first, or the one that is named', async () => {
      const [first, second, ended] = [await queue(), await queue(), await queue()];
      await set(ended, `status = 'succeeded', finished_at = now()`);
      await queue(SCRIPT, other);
      const jobs = await ledger.jobs(caller(), { deviceId: device.deviceId });
      expect(jobs.map(({ id }) => id)).to.deep.equal([second, first]);
      const [one, ...more] = await ledger.jobs(caller(), { jobId: ended });
      expect([one?.id, one?.state, more.length]).to.deep.equal([ended, 'succeeded', 0]);
    });

    it('shows those of an organization, and none of another tenant', async () => {
      const id = await queue();
      const inOrg = await ledger.jobs(caller(), { orgId: tenant.orgId });
      expect(inOrg.map((job) => job.id)).to.include(id);
      const stranger = await buildTenant(app);
      const theirs = { ...caller(), partnerId: stranger.partnerId };
      expect(await ledger.jobs(theirs, {})).to.deep.equal([]);
      for (const question of [{ deviceId: device.deviceId }, { orgId: tenant.orgId }]) {
        const refusal = await ledger.jobs(theirs, question).catch((error: unknown) => error);
        expect((refusal as { code: string }).code).to.be.oneOf(['not_found', 'forbidden']);
      }
    });
  });
});
