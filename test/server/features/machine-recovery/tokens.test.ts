import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newToken } from '../../../../src/platform/secrets/tokens.ts';
import { eventually } from '../../../support/eventually.ts';
import { sharedTestApp, type Answer, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';
import { inSystem, request } from '../../../support/backup/store-support.ts';
import { buildPerson, giveSecondFactor } from '../../../support/factories.ts';
import { buildVaultDevice } from '../../../support/backup/vaults/vault-support.ts';

/** A recovery token opens one snapshot for one machine, once. */
describe('recovery tokens', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let other: BackupTenant;
  let snapshotId: string;
  let repositoryId: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    other = await buildBackupTenant(app);
    const config = await tenant.createConfig({ sources: { kind: 'image' } });
    const device = await buildVaultDevice(app, tenant, config.id);
    repositoryId = device.sourceId;
    await device.addSnapshot(1, { backup_type: 'system_image' });
    await device.addSnapshot(2);
    const images = `/backup/snapshots?deviceId=${device.deviceId}&backupType=system_image`;
    const { body } = await tenant.send('GET', images);
    expect(body.data).to.have.length(1);
    snapshotId = body.data[0].id;
  });
  after(async () => app?.close());

  const create = async (more: object = {}): Promise<Answer['body']> => {
    const answer = await tenant.send('POST', '/backup/bmr/token', { snapshotId, ...more });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body;
  };
  const machine = { hostname: 'rescue', agentVersion: '1.0.0', bootMode: 'bios' };
  const call = (what: string, body: object) => app.call('POST', `/backup/bmr/${what}`, { body });
  const start = (token: string, session?: string) =>
    call('authenticate', { token, machine, ...(session === undefined ? {} : { session }) });
  const result = (status: 'completed' | 'failed') => ({
    status,
    bytesRestored: 10,
    validated: status === 'completed',
    disks: [],
    warnings: [],
    error: status === 'completed' ? null : { code: 'TARGET_TOO_SMALL', message: 'Too small.' },
  });
  const read = async (id: string) => (await tenant.send('GET', `/backup/bmr/token/${id}`)).body;
  const refused = async (answer: Promise<Answer>, sentence: RegExp) => {
    const { status, body } = await answer;
    expect(status, JSON.stringify(body)).to.equal(401);
    expect(body.error).to.match(sentence);
  };
  const liveCredentials = () =>
    inSystem(app, (tx) =>
      tx('backup_store_credentials').where({ repository_id: repositoryId }).whereNull('ended_at'),
    );

  it('begin a recovery with a credential of the one repository and what opens it', async () => {
    const { id, token, command, status, expiresAt } = await create();
    expect(token).to.match(/^mrec_/);
    expect(command).to.contain('--token -').and.not.contain(token);
    expect(status).to.equal('active');
    expect(Date.parse(expiresAt) - Date.now()).to.be.within(23.9 * 3_600_000, 24 * 3_600_000);

    const { status: code, body } = await start(token);
    expect(code, JSON.stringify(body)).to.equal(200);
    expect(body.repository.path).to.equal(`/backup-store/${repositoryId}/`);
    expect(body.repository.password).to.have.length.greaterThan(20);
    const [credential, ...more] = await liveCredentials();
    expect(more).to.deep.equal([]);
    expect(credential).to.include({ id: body.repository.user, role: 'reader' });
    expect(await read(id)).to.deep.include({ status: 'authenticated', sessionStatus: 'running', machine });

    const { session } = body;
    const progress = { phase: 'writing', disk: 'sda', done: 5, total: 10 };
    expect((await call('progress', { token, session, progress })).status).to.equal(200);
    expect((await read(id)).progress).to.deep.equal(progress);
    expect((await call('complete', { token, session, result: result('completed') })).status).to.equal(200);
    expect(await read(id)).to.deep.include({ status: 'used', sessionStatus: 'completed' });
    expect(await liveCredentials()).to.deep.equal([]);

    const kept = await storedText(app, ['backup_recovery_tokens', 'backup_store_credentials', 'audit_logs']);
    for (const secret of [token, session, body.repository.secret, body.repository.password]) {
      expect(kept).not.to.contain(secret);
    }
    const actions = await eventually(
      async () =>
        (await inSystem(app, (tx) => tx('audit_logs').where({ resource_id: id }))).map(
          ({ action }) => action,
        ),
      (found) => found.length >= 3,
    );
    expect(actions).to.have.members([
      'backup.bmr.authenticate',
      'backup.bmr.complete',
      'backup.bmr.token.create',
    ]);
  });

  it('are refused a second time, to everybody else', async () => {
    const { token } = await create();
    const { session } = (await start(token)).body;
    await refused(start(token), /Another machine has begun/);
    await refused(start(token, newToken('recoverySession')), /Another machine has begun/);
    await refused(
      call('progress', {
        token,
        session: newToken('recoverySession'),
        progress: { phase: 'x', done: 1, total: 1 },
      }),
      /Another machine/,
    );
    // The first machine goes on, with another credential in place of the one before.
    const again = await start(token, session);
    expect(again.status).to.equal(200);
    expect(again.body.session).to.equal(undefined);
    expect((await liveCredentials()).map(({ id }) => id)).to.deep.equal([again.body.repository.user]);
    // One that has failed can be begun again by the same machine, and one that has not can't.
    await call('complete', { token, session, result: result('failed') });
    expect((await start(token, session)).status).to.equal(200);
    await call('complete', { token, session, result: result('completed') });
    await refused(start(token, session), /has been used/);
    await refused(call('complete', { token, session, result: result('completed') }), /has been used/);
  });

  it('end when the person who created them loses the right, also in the middle of a recovery', async () => {
    const losses: [string, (id: string) => Promise<Answer>][] = [
      ['disabled', (id) => tenant.send('PATCH', `/users/${id}`, { status: 'disabled' })],
      [
        'demoted',
        (id) =>
          tenant.send('POST', `/users/${id}/role`, { roleId: SYSTEM_ROLES.partnerViewer, orgAccess: 'all' }),
      ],
    ];
    for (const [how, lose] of losses) {
      const { partnerId } = tenant;
      const creator = await giveSecondFactor(app, await buildPerson(app, { scope: 'partner', partnerId }));
      const made = async () =>
        (await tenant.send('POST', '/backup/bmr/token', { snapshotId }, creator)).body as { token: string };
      const [begun, unused] = [await made(), await made()];
      const { session, repository } = (await start(begun.token)).body;
      const read = async () =>
        (
          await request(
            app.url,
            repositoryId,
            { id: repository.user, user: repository.user, secret: repository.secret },
            ['HEAD', 'config'],
          )
        ).status;
      expect(await read(), how).to.not.equal(401);
      expect((await lose(creator.id)).status, how).to.equal(200);
      expect(await read(), how).to.equal(401);
      // Few, because refusals are counted by address.
      const refusal = /has no right to it any more/;
      if (how === 'disabled') await refused(start(unused.token), refusal);
      else {
        const progress = { phase: 'x', done: 1, total: 1 };
        await refused(call('progress', { token: begun.token, session, progress }), refusal);
      }
    }
  });

  it('begin one recovery if many begin at once', async () => {
    const { token } = await create();
    const answers = await Promise.all(Array.from({ length: 6 }, () => start(token)));
    expect(answers.map(({ status }) => status)).to.have.members([200, 401, 401, 401, 401, 401]);
  });

  it('are refused once they have expired or were revoked, also in the middle', async () => {
    const expired = await create();
    await inSystem(app, (tx) =>
      tx('backup_recovery_tokens')
        .where({ id: expired.id })
        .update({ expires_at: new Date(Date.now() - 1) }),
    );
    await refused(start(expired.token), /has expired/);
    expect((await read(expired.id)).status).to.equal('expired');

    const unused = await create();
    expect((await tenant.send('DELETE', `/backup/bmr/token/${unused.id}`)).body.status).to.equal('revoked');
    await refused(start(unused.token), /has been revoked/);
    expect((await tenant.send('DELETE', `/backup/bmr/token/${unused.id}`)).status).to.equal(409);

    const running = await create();
    const { session } = (await start(running.token)).body;
    await tenant.send('DELETE', `/backup/bmr/token/${running.id}`);
    expect(await liveCredentials()).to.not.deep.include({ job_id: running.id });
    await refused(start(running.token, session), /has been revoked/);
    await refused(
      call('complete', { token: running.token, session, result: result('completed') }),
      /has been revoked/,
    );
  });

  it('are made for an image of the own tenant, and for nothing else', async () => {
    const path = '/backup/bmr/token';
    expect((await other.send('POST', path, { snapshotId })).status).to.be.oneOf([403, 404]);
    const { id } = await create();
    for (const [method, where] of [
      ['GET', `${path}/${id}`],
      ['DELETE', `${path}/${id}`],
    ] as const) {
      expect((await other.send(method, where)).status).to.equal(404);
    }
    expect((await other.send('GET', `${path}?snapshotId=${snapshotId}`)).body.data).to.deep.equal([]);
    const { body } = await tenant.send('GET', '/backup/snapshots?limit=100');
    const files = body.data.find((each: { backupType: string }) => each.backupType === 'file');
    expect((await tenant.send('POST', path, { snapshotId: files.id })).status).to.equal(400);
    for (const wrong of [
      { expiresInHours: 169 },
      { expiresInHours: 0 },
      { restoreType: 'selective' },
      { targetConfig: { disks: [] } },
    ]) {
      expect((await tenant.send('POST', path, { snapshotId, ...wrong })).status).to.equal(400);
    }
  });

  it('cannot be guessed', async () => {
    const { token } = await create();
    const statuses: number[] = [];
    for (let tried = 0; tried < 30; tried += 1) statuses.push((await start(newToken('recovery'))).status);
    expect(statuses.slice(20)).to.deep.equal(Array.from({ length: 10 }, () => 429));
    expect(statuses).not.to.include(200);
    // Nor does what only looks like a token reach the database, or a right one get through from there.
    expect((await start('mrec_short')).status).to.equal(429);
    expect((await start(token)).status).to.equal(429);
  });
});
