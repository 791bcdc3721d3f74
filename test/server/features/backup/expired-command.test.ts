import { expect } from 'chai';
import { type CommandFrame, COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { buildDevice, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { anObject, createStoreApp, inSystem, request } from '../../../support/backup/store-support.ts';

describe('a backup job whose command has expired', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let configId: string;
  let enrolled: EnrolledDevice;
  let device: FakeDevice;

  before(async () => {
    // There is no engine on the server: the repositories are made already.
    app = await createStoreApp({ env: { BACKUP_ENGINE_PATH: '/nowhere' } });
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
    await app.settle();
    return { id: String(answer.body.id), frame: await device.nextCommand() };
  };

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

  it('waits for its device again if it was never sent', async () => {
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
});
