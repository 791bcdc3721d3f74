import { expect } from 'chai';
import {
  COMMAND_TYPES,
  hypervisorCapability,
  SECRETS_CAPABILITY,
} from '../../../../../src/protocol/index.ts';
import type { BackupSnapshot } from '../../../../../src/features/backup/snapshot.model.ts';
import { eventually } from '../../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../../support/fake-device.ts';
import { needsRestic } from '../../../../support/restic.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../../support/backup/snapshot-support.ts';
import { createStoreApp, inSystem } from '../../../../support/backup/store-support.ts';

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const saved = (number: number, name: string) => ({
  id: idOf(number),
  name,
  generation: 2,
  bootMode: 'uefi' as const,
  memoryBytes: 1,
  processors: 1,
  consistency: 'application' as const,
  bytes: 5,
});

describe('restores of machines', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  let snapshot: BackupSnapshot;
  let ofFiles: BackupSnapshot;
  let agent: FakeDevice | undefined;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await inSystem(app, (tx) => tx('devices').where({ id: device.deviceId }).update({ os_type: 'windows' }));
    await device.write({ 'a.txt': 'first' });
    ofFiles = await device.backUp();
    const machines = [saved(1, 'files'), saved(2, 'twin'), saved(3, 'Twin')];
    snapshot = await device.backUp({ details: { kind: 'machines', hypervisor: 'hyperv', machines } });
  });
  after(async () => app?.close());
  afterEach(() => {
    agent?.close();
    agent = undefined;
  });

  const connect = async (more: readonly string[] = [hypervisorCapability('hyperv')]) => {
    const capabilities = [...COMMAND_TYPES, SECRETS_CAPABILITY, ...more];
    agent = await connectDevice(app, device.device.token, { capabilities });
    return agent;
  };
  const restore = (given: Record<string, unknown> = {}) =>
    device.send('POST', '/backup/hyperv/restore', { snapshotId: snapshot.id, machine: 'FILES', ...given });

  it('go to the device as one command, and are a restore until their end', async () => {
    const made = await restore({ vmName: 'copy', targetPath: String.raw`D:\VMs` });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const machine = { hypervisor: 'hyperv', name: 'FILES', vmName: 'copy', generateNewId: true };
    expect(made.body.machine).to.deep.equal(machine);
    const frame = await (await connect()).nextCommand();
    expect(frame).to.include({ type: 'backup.vm-restore', id: made.body.commandId });
    expect(frame.payload).to.include({
      restoreId: made.body.id,
      snapshotId: snapshot.engineId,
      machine: 'FILES',
      vmName: 'copy',
      generateNewId: true,
      targetPath: String.raw`D:\VMs`,
    });
    await agent!.succeed(frame, {
      status: 'completed',
      targetPath: String.raw`D:\VMs\muster\machine`,
      filesRestored: 3,
      bytesRestored: 5,
      filesSkipped: 0,
      seconds: 1,
      failed: { count: 0, paths: [] },
      machineId: idOf(8),
      vmName: 'copy',
    });
    const ended = await eventually(
      async () => (await device.send('GET', `/backup/restore/${made.body.id}`)).body,
      ({ status }) => status === 'completed',
    );
    expect(ended).to.include({ restoredFiles: 3, targetPath: String.raw`D:\VMs\muster\machine` });
    const [credential] = await inSystem(app, (tx) =>
      tx('backup_store_credentials').where({ job_id: made.body.id }),
    );
    expect(credential.ended_at).not.to.equal(null);
  });

  it('are refused if the snapshot does not have the machine, or the device no Hyper-V', async () => {
    for (const [given, status, field] of [
      [{ machine: undefined }, 400, 'body.machine'],
      [{ machine: 'nobody' }, 400, 'body.machine'],
      [{ machine: 'twin' }, 400, 'body.machine'],
      [{ targetPath: String.raw`C:\a\..\..` }, 400, 'body.targetPath'],
      [{ vmName: 'a\u0000b' }, 400, 'body.vmName'],
      [{ snapshotId: ofFiles.id }, 409, undefined],
    ] as const) {
      const answer = await restore(given);
      expect([answer.status, answer.body.details?.[0]?.path], JSON.stringify(given)).to.deep.equal([
        status,
        field,
      ]);
    }
    await connect([]);
    expect((await restore()).body.code).to.equal('CAPABILITY_MISSING');
  });

  it('are not run again', async () => {
    await connect();
    const { body } = await restore({ machine: idOf(1) });
    await device.send('POST', `/backup/restore/${body.id}/cancel`);
    const again = await device.send('POST', `/backup/restore/${body.id}/rerun`, {});
    expect([again.status, again.body.code]).to.deep.equal([409, 'CONFLICT']);
  });
});
