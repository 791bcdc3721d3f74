import { expect } from 'chai';
import { watchBackups } from '../../../../src/features/backup/watch.work.ts';
import { type CommandFrame, COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice, graceOver } from '../../../support/fake-device.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';
import { anObject, createStoreApp, inSystem, request } from '../../../support/backup/store-support.ts';

/** The life of a backup job with a scripted device: what it says, and what the store has received. */

describe('a backup job', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let configId: string;
  let enrolled: EnrolledDevice;
  let device: FakeDevice;

  before(async () => {
    // There is no engine on the server: the repositories are made already.
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
  });
  after(async () => app?.close());
  beforeEach(async () => {
    enrolled = await buildDevice(app, tenant.orgId);
    device = await connectDevice(app, enrolled.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    const { deviceId } = enrolled;
    await addRepository(deviceId);
    await app.settle();
    const present = await inSystem(app, (tx) =>
      tx('device_presence').where({ device_id: deviceId, state: 'connected' }),
    );
    expect(present).to.have.length(1);
  });
  afterEach(() => device.close());

  const addRepository = (deviceId: string, of = configId, provider = 'server') =>
    inSystem(app, (tx) =>
      tx.raw(
        `insert into backup_repositories (id, org_id, device_id, config_id, provider, encryption_key_id, key_version, initialized_at)
        values (new_row_id(), ?, ?, ?, ?, ?, 1, now())`,
        [tenant.orgId, deviceId, of, provider, tenant.keyId],
      ),
    );
  const start = async (of = configId) => {
    const answer = await tenant.send('POST', `/backup/jobs/run/${enrolled.deviceId}`, { configId: of });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return { id: String(answer.body.id), frame: await device.nextCommand() };
  };
  const jobOf = async (id: string) => (await tenant.send('GET', `/backup/jobs/${id}`)).body;
  const until = (id: string, isSo: (job: Awaited<ReturnType<typeof jobOf>>) => boolean) =>
    eventually(() => jobOf(id), isSo, 15_000);
  const ended = (id: string) => until(id, ({ finishedAt }) => finishedAt !== null);

  interface Payload {
    repository: { destination: { path: string; user: string; secret: { secretRef: string } } };
  }
  const credentialOf = ({ payload, secrets = {} }: CommandFrame) => {
    const { destination } = (payload as Payload).repository;
    const secret = secrets[destination.secret.secretRef] ?? '';
    return { repositoryId: destination.path.split('/')[2] ?? '', user: destination.user, id: '', secret };
  };
  const upload = async (frame: CommandFrame) => {
    const { content, name } = anObject();
    const credential = credentialOf(frame);
    const answer = await request(
      app.url,
      credential.repositoryId,
      credential,
      ['POST', `snapshots/${name}`],
      {
        body: content,
      },
    );
    return { name, status: answer.status };
  };
  const output = (snapshotId: string | null, more = {}) => ({
    status: 'completed',
    snapshotId,
    filesNew: 3,
    filesChanged: 1,
    filesUnmodified: 6,
    bytesProcessed: 1000,
    bytesAdded: 400,
    seconds: 2,
    unreadable: { count: 0, paths: [] },
    ...more,
  });

  it('shows how far the device is, and becomes a snapshot that counts from its arrival', async () => {
    const { id, frame } = await start();
    await device.send('command:progress', {
      id: frame.id,
      seq: 0,
      phase: 'backing_up',
      percent: 40,
      done: 400,
      total: 1000,
    });
    const running = await until(id, ({ progress }) => progress.percent === 40);
    expect(running).to.include({ status: 'running', waitingFor: null });
    expect(running.progress).to.include({ phase: 'backing_up', doneBytes: 400, totalBytes: 1000 });
    const { name, status } = await upload(frame);
    expect(status).to.equal(200);
    await device.succeed(frame, output(null, { takenAt: '2026-01-02T03:04:05Z' }));
    const job = await ended(id);
    expect(job).to.include({ status: 'completed', addedBytes: 400 });
    const shown = (await tenant.send('GET', `/backup/snapshots/${job.snapshotId}`)).body;
    expect(shown).to.deep.include({ paths: ['/home'], takenAt: '2026-01-02T03:04:05.000Z' });
    const [snapshot] = await inSystem(app, (tx) => tx('backup_snapshots').where({ job_id: id }));
    const [object] = await inSystem(app, (tx) => tx('backup_objects').where({ name, type: 'snapshots' }));
    expect(snapshot).to.include({ engine_id: name, is_partial: false, id: job.snapshotId });
    expect(snapshot.received_at).to.deep.equal(object.arrived_at);
    expect((await upload(frame)).status, 'after the end').to.equal(401);
  });

  it('lists what could not be read', async () => {
    const { id, frame } = await start();
    const { name } = await upload(frame);
    const unreadable = { count: 7, paths: [{ path: '/home/x', message: 'permission denied' }] };
    await device.succeed(frame, output(name, { status: 'partial', unreadable, takenAt: 'noon' }));
    const job = await ended(id);
    expect(job).to.deep.include({
      status: 'partial',
      unreadable,
      error: null,
    });
    const { takenAt } = (await tenant.send('GET', `/backup/snapshots/${job.snapshotId}`)).body;
    expect(takenAt).to.equal(null);
  });

  it('counts more than it names, and says what is never backed up', async () => {
    const { id, frame } = await start();
    const { name } = await upload(frame);
    const leftOut = { count: 1, paths: [{ path: '/home/chroot/proc', message: 'proc' }] };
    const unreadable = { count: 1000, paths: [] };
    const shadowCopies = { used: true, problems: [{ volume: 'd:\\', message: 'No provider.' }], isCut: true };
    await device.succeed(frame, output(name, { status: 'partial', unreadable, leftOut, shadowCopies }));
    expect(await ended(id)).to.deep.include({ unreadable, leftOut, shadowCopies });
  });

  const backUp = async (of: string, more: Record<string, unknown>) => {
    const { id, frame } = await start(of);
    const { name } = await upload(frame);
    await device.succeed(frame, output(name, more));
    return ended(id);
  };
  const standing = async () => {
    await watchBackups(app.server.database.jobPool, new AbortController().signal);
    const { body } = await tenant.send('GET', `/alerts?deviceId=${enrolled.deviceId}&status=active`);
    return body.data.filter(({ kind }: { kind: string }) => kind === 'backup_empty');
  };

  it('of nothing is partial, with a reason and an alert that lasts until there are files again', async () => {
    const nothing = { filesNew: 0, filesChanged: 0, filesUnmodified: 0, bytesProcessed: 0 };
    const empty = await backUp(configId, nothing);
    expect(empty).to.deep.include({
      status: 'partial',
      error: { code: 'BACKUP_EMPTY', message: 'The snapshot has no files: everything was excluded.' },
    });
    const named = await backUp(configId, { ...nothing, emptySources: ['/home'] });
    expect(named.error.message).to.equal('The snapshot has no files: /home had none.');
    const [alert] = await standing();
    expect(alert.message).to.contain('no files of /home.');
    expect(await backUp(configId, {})).to.include({ status: 'completed', error: null });
    expect(await standing()).to.deep.equal([]);
  });

  it('of a source that has become empty is partial for as long as an earlier snapshot has files of it', async () => {
    const paths = { linux: ['/etc', '/mnt/data', '/srv/new'] };
    const { id: ofThree } = await tenant.createConfig({ name: 'Three', sources: { paths } });
    await addRepository(enrolled.deviceId, ofThree);
    expect(await backUp(ofThree, { emptySources: ['/srv/new'] })).to.include({ status: 'completed' });
    for (const _again of [1, 2]) {
      const job = await backUp(ofThree, { emptySources: ['/mnt/data', '/srv/new'] });
      expect(job.status).to.equal('partial');
      expect(job.error).to.deep.equal({
        code: 'BACKUP_EMPTY',
        message:
          'The snapshot has no files of /mnt/data, and earlier ones have. Is a disk not mounted there?',
      });
      expect(await standing()).to.have.length(1);
    }
    await inSystem(app, (tx) =>
      tx('backup_snapshots')
        .where({ config_id: ofThree, lacks_files: false })
        .update({ removed_at: tx.fn.now(), removed_because: 'retention' }),
    );
    const settled = await backUp(ofThree, { emptySources: ['/mnt/data', '/srv/new'] });
    expect(settled).to.include({ status: 'completed' });
    expect(await standing()).to.deep.equal([]);
  });

  it('is no backup if the device claims a snapshot that has not arrived', async () => {
    const { id, frame } = await start();
    await device.succeed(frame, output('c'.repeat(64)));
    const job = await ended(id);
    expect(job).to.include({ status: 'failed', snapshotId: null });
    expect(job.error.code).to.equal('SNAPSHOT_MISSING');
  });

  it('is no backup if the device claims another snapshot than the one that has arrived', async () => {
    const { id, frame } = await start();
    await upload(frame);
    await device.succeed(frame, output('c'.repeat(64)));
    const job = await ended(id);
    expect(job).to.include({ status: 'failed', snapshotId: null });
    expect(job.error.code).to.equal('SNAPSHOT_MISSING');
    expect(await inSystem(app, (tx) => tx('backup_snapshots').where({ job_id: id }))).to.deep.equal([]);
  });

  it('fails with the code of the device, and keeps a snapshot that has arrived as a partial one', async () => {
    const { id, frame } = await start();
    await upload(frame);
    await device.fail(frame, 'INTERRUPTED', 'The agent was stopped.');
    const job = await ended(id);
    expect(job.error).to.deep.equal({ code: 'INTERRUPTED', message: 'The agent was stopped.' });
    const [snapshot] = await inSystem(app, (tx) => tx('backup_snapshots').where({ job_id: id }));
    expect(snapshot).to.deep.include({ is_partial: true, paths: ['/home'] });
  });

  it('to a disk of the device reports what is free there, and nothing if it did not fit', async () => {
    const { id: ofDisk } = await tenant.createConfig({
      name: 'Disk',
      provider: 'local',
      details: { path: '/mnt/disk' },
    });
    await addRepository(enrolled.deviceId, ofDisk, 'local');
    const free = async () => {
      const [row] = await inSystem(app, (tx) =>
        tx('backup_repositories').where({ device_id: enrolled.deviceId, config_id: ofDisk }),
      );
      return [row.destination_free_bytes, row.destination_total_bytes];
    };
    const first = await start(ofDisk);
    await device.succeed(first.frame, {
      ...output('a'.repeat(64)),
      destinationRoom: { freeBytes: 700, totalBytes: 1000 },
    });
    expect(await ended(first.id)).to.include({ status: 'completed' });
    expect(await free()).to.deep.equal(['700', '1000']);
    const second = await start(ofDisk);
    await device.fail(second.frame, 'DESTINATION_FULL', 'No space.');
    expect((await ended(second.id)).error.code).to.equal('DESTINATION_FULL');
    expect(await free()).to.deep.equal(['0', '1000']);
    // An earlier agent says nothing of it.
    const third = await start(ofDisk);
    await device.succeed(third.frame, output('b'.repeat(64)));
    await ended(third.id);
    expect((await free())[0]).to.equal(null);
  });

  it('is cancelled: at once while it waits, and by the device when it runs', async () => {
    const { id, frame } = await start();
    expect((await tenant.send('POST', `/backup/jobs/${id}/cancel`)).status).to.equal(200);
    await eventually(
      () => device.cancelled,
      (cancelled) => cancelled.includes(frame.id),
    );
    await device.finish(frame, { status: 'cancelled' });
    expect(await ended(id)).to.include({ status: 'cancelled', snapshotId: null });
    expect((await tenant.send('POST', `/backup/jobs/${id}/cancel`)).status).to.equal(409);

    device.close();
    const { deviceId } = await buildDevice(app, tenant.orgId);
    await addRepository(deviceId);
    const waiting = await tenant.send('POST', `/backup/jobs/run/${deviceId}`, { configId });
    expect(waiting.body).to.include({ waitingFor: 'device' });
    const cancelled = await tenant.send('POST', `/backup/jobs/${waiting.body.id}/cancel`);
    expect(cancelled.body).to.include({ status: 'cancelled' });
  });

  it('is cancelled also in the moment in which its device reports', async () => {
    const { id, frame } = await start();
    await device.send('command:progress', { id: frame.id, phase: 'backing_up', percent: 1 });
    // From here on, nothing but the cancellation touches the command.
    await until(id, ({ status }) => status === 'running');
    let cancelling: ReturnType<typeof tenant.send> | undefined;
    await inSystem(app, async (tx) => {
      await tx('commands').where({ id: frame.id }).forUpdate().first('id');
      cancelling = tenant.send('POST', `/backup/jobs/${id}/cancel`);
      const { rows: own } = await tx.raw<{ rows: { pid: number }[] }>('select pg_backend_pid() as pid');
      const waiting = () =>
        inSystem(app, (other) =>
          other.raw<{ rows: unknown[] }>(
            'select 1 from pg_locks where not granted and ? = any(pg_blocking_pids(pid))',
            [own[0]!.pid],
          ),
        );
      await eventually(waiting, ({ rows }) => rows.length > 0);
      // As the trigger that passes the report of the device on.
      await tx('work').where({ id }).update({ updated_at: tx.fn.now() });
    });
    expect((await cancelling)!.status).to.equal(200);
    await device.finish(frame, { status: 'cancelled' });
    await ended(id);
  });

  it('that failed in silence is completed by a late result, if its snapshot has arrived', async () => {
    const { id, frame } = await start();
    const { name } = await upload(frame);
    await inSystem(app, (tx) =>
      tx('commands').where({ id: frame.id }).update({
        status: 'timed_out',
        reason: 'no_result',
        finished_at: tx.fn.now(),
      }),
    );
    await app.settle();
    const failed = await ended(id);
    expect(failed.error.code).to.equal('TIMED_OUT');
    await device.succeed(frame, output(name));
    const job = await until(id, ({ status }) => status === 'completed');
    expect(job).to.include({ error: null, finishedAt: failed.finishedAt });
  });

  it('whose command has expired waits for its device again, and nothing can be written for it until then', async () => {
    const { id, frame } = await start();
    device.close();
    await graceOver(app, enrolled.deviceId);
    await inSystem(app, (tx) =>
      tx('commands').where({ id: frame.id }).update({ status: 'expired', finished_at: tx.fn.now() }),
    );
    await app.settle();
    const waiting = await until(id, ({ status }) => status === 'pending');
    expect(waiting).to.include({ startedAt: null, finishedAt: null, waitingFor: 'device' });
    expect((await upload(frame)).status).to.equal(401);
  });

  it('whose command was never sent is given to its device once more, with another credential', async () => {
    const { id, frame } = await start();
    await inSystem(app, (tx) =>
      tx('commands').where({ id: frame.id }).update({ status: 'expired', finished_at: tx.fn.now() }),
    );
    await app.settle();
    const again = await device.nextCommand();
    expect(again.id).not.to.equal(frame.id);
    expect((await upload(frame)).status).to.equal(401);
    expect((await upload(again)).status).to.equal(200);
    expect((again.payload as { jobId: string }).jobId).to.equal(id);
  });

  it('is refused at once if the server would have to make the repository and has no engine', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const answer = await tenant.send('POST', `/backup/jobs/run/${deviceId}`, { configId });
    expect([answer.status, answer.body.code]).to.deep.equal([503, 'ENGINE_MISSING']);
    expect(answer.body.details).to.deep.equal({ code: 'ENGINE_MISSING' });
    expect((await tenant.send('GET', `/backup/jobs?deviceId=${deviceId}`)).body.data).to.deep.equal([]);
  });

  it('leaves no secret in what is stored', async () => {
    const { id, frame } = await start();
    const secrets = Object.values(frame.secrets ?? {});
    expect(secrets).to.have.length(2);
    await upload(frame);
    await device.succeed(frame, output(null));
    await ended(id);
    const tables = [
      'commands',
      'command_secrets',
      'backup_jobs',
      'backup_store_credentials',
      'background_jobs',
    ];
    const stored = (await storedText(app, [...tables, 'audit_logs'])) + JSON.stringify(app.log);
    for (const secret of secrets) expect(stored).not.to.include(secret);
  });

  it('is seen and begun within its tenant only', async () => {
    const { id } = await start();
    const stranger = await buildBackupTenant(app);
    expect((await stranger.send('GET', `/backup/jobs/${id}`)).status).to.equal(404);
    expect((await stranger.send('POST', `/backup/jobs/${id}/cancel`)).status).to.equal(404);
    expect((await stranger.send('POST', `/backup/jobs/run/${enrolled.deviceId}`, {})).status).to.equal(404);
    expect((await stranger.send('GET', '/backup/jobs')).body.data).to.deep.equal([]);
    const foreign = await buildDevice(app, stranger.orgId);
    const mixed = await stranger.send('POST', `/backup/jobs/run/${foreign.deviceId}`, { configId });
    expect(mixed.status).to.equal(400);
  });

  it('is found by its status, device and time', async () => {
    const { id } = await start();
    const found = async (query: string) =>
      (await tenant.send('GET', `/backup/jobs?${query}`)).body.data.map((job: { id: string }) => job.id);
    const today = new Date().toISOString().slice(0, 10);
    expect(await found(`deviceId=${enrolled.deviceId}&date=${today}`)).to.deep.equal([id]);
    expect(await found(`deviceId=${enrolled.deviceId}&to=2020-01-01T00:00:00Z`)).to.deep.equal([]);
    expect(await found(`deviceId=${enrolled.deviceId}&status=canceled`)).to.deep.equal([]);
  });
});
