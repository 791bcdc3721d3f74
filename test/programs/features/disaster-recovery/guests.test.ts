import { expect } from 'chai';
import { type MachineDescription, writeMachine } from '../../../../src/engine/index.ts';
import type { ImageDetails, MachinesDetails } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice } from '../../../support/factories.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp } from '../../../support/backup/store-support.ts';
import {
  ObedientDevice,
  type Payload,
  payloadOf,
} from '../../../support/disaster-recovery/recovery-support.ts';

const MIB = 1024 ** 2;

const described = (name: string, sizeBytes: number): MachineDescription => ({
  format: 'muster-machine',
  version: 1,
  source: 'kvm',
  machine: name,
  system: null,
  takenAt: '2026-11-24T06:00:00.000Z',
  bootMode: 'bios',
  consistency: 'crash',
  memoryBytes: 2048 * MIB,
  processors: 3,
  hardware: null,
  fstab: null,
  disks: [
    {
      name: 'vda',
      sizeBytes,
      sectorBytes: 512,
      model: null,
      serial: null,
      partitionTable: null,
      volumes: [],
    },
  ],
});

async function archive(name: string, sizeBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  const content = async function* () {
    yield Buffer.alloc(sizeBytes, name);
  };
  for await (const piece of writeMachine(described(name, sizeBytes), content)) pieces.push(piece);
  return Buffer.concat(pieces);
}

const guest = (name: string, id: string) => ({
  id,
  name,
  folder: id,
  generation: null,
  bootMode: 'bios' as const,
  memoryBytes: 2048 * MIB,
  processors: 3,
  consistency: 'crash' as const,
  bytes: 4096,
});

interface GuestPayload extends Payload {
  image: ImageDetails;
  imagePath?: string;
  vmName: string;
  memoryMb: number;
}

/** Plans of the guests of a host of KVM, whose snapshots have several machines. */
describe('recovery plans of guests of a host', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let host: BackedUpDevice;
  let target: ObedientDevice;
  let plans = 0;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    host = await buildBackedUpDevice(app);
    target = new ObedientDevice(await buildDevice(app, host.orgId));
    await target.connect(app);
    await backUp([guest('web', 'guest-1'), guest('mail', 'guest-2'), guest('Web', 'guest-3')]);
  });
  after(async () => {
    target?.close();
    await app?.close();
  });
  beforeEach(() => {
    target.log.length = 0;
    target.machines.clear();
    target.script = () => undefined;
  });

  const backUp = async (machines: ReturnType<typeof guest>[]) => {
    const files: Record<string, string | Buffer> = {
      'muster-machines.json': JSON.stringify({ version: 1, hypervisor: 'kvm', machines }),
    };
    for (const [index, { id, name }] of machines.entries()) {
      files[`${id}/machine.tar`] = await archive(name, (index + 1) * MIB);
    }
    await host.write(files);
    const details: MachinesDetails = { kind: 'machines', hypervisor: 'kvm', machines };
    return host.backUp({ details, backupType: 'system_image' });
  };
  const post = async (path: string, body: object, status = 201) => {
    const answer = await host.send('POST', path, body);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(status);
    return answer.body;
  };
  const step = (restore: object) => ({
    deviceId: host.deviceId,
    targetDeviceId: target.id,
    restore: { type: 'instant', ...restore },
    checks: [{ type: 'tcp', port: 80 }],
  });
  const planWith = async () => {
    const { id } = await post('/dr/plans', { orgId: host.orgId, name: `Guests ${plans++}` });
    return id as string;
  };
  const addGroup = (planId: string, restores: object[], status = 201) =>
    post(`/dr/plans/${planId}/groups`, { name: 'Guests', sequence: 0, devices: restores.map(step) }, status);
  const execute = async (planId: string, executionType: string) => {
    const { id } = await post(`/dr/plans/${planId}/execute`, { executionType });
    return eventually(
      async () => (await host.send('GET', `/dr/executions/${id}`)).body,
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );
  };
  const orders = (type: string) =>
    target.log.filter((frame) => frame.type === type).map((frame) => payloadOf(frame) as GuestPayload);

  it('start each of them by what the store says of it, and take them down', async () => {
    const planId = await planWith();
    await addGroup(planId, [{ machine: 'MAIL' }, { machine: 'guest-1', vmName: 'front' }]);
    const done = await execute(planId, 'rehearsal');
    expect(done.status, JSON.stringify(done)).to.equal('completed');
    expect(done.groups[0].steps.map(({ machine }: { machine: string }) => machine)).to.deep.equal([
      'MAIL',
      'guest-1',
    ]);
    const started = orders('backup.vm-instant-boot');
    expect(
      started.map(({ vmName, imagePath, image }) => [vmName, imagePath, image.disks[0]?.sizeBytes]),
    ).to.have.deep.members([
      ['mail (rehearsal)', `${host.folder}/guest-2/machine.tar`, 2 * MIB],
      ['front (rehearsal)', `${host.folder}/guest-1/machine.tar`, MIB],
    ]);
    expect(started[0]).to.include({ memoryMb: 2048 });
    expect(target.machines.size).to.equal(0);
  });

  it('fail over and are marked one by one', async () => {
    const planId = await planWith();
    await addGroup(planId, [{ machine: 'mail' }, { machine: 'guest-1' }]);
    target.script = (frame) =>
      frame.type === 'backup.vm-instant-boot' && (payloadOf(frame) as GuestPayload).vmName === 'web'
        ? { error: 'HYPERVISOR_FAILED' }
        : undefined;
    expect((await execute(planId, 'failover')).status).to.equal('failed');
    const marks = async () =>
      (await host.send('GET', `/dr/plans/${planId}`)).body.failedOver.map(
        ({ machine }: { machine: string }) => machine,
      );
    expect(await marks()).to.deep.equal(['mail']);
    target.script = () => undefined;
    target.log.length = 0;
    expect((await execute(planId, 'failover')).status).to.equal('completed');
    expect(orders('backup.vm-instant-boot').map(({ vmName }) => vmName)).to.deep.equal(['web']);
    expect(await marks()).to.deep.equal(['mail', 'guest-1']);
  });

  it('say which machine is missing, when they are written and when they are executed', async () => {
    const planId = await planWith();
    const refused = async (restores: object[]) =>
      JSON.stringify((await addGroup(planId, restores, 400)).details);
    expect(await refused([{}])).to.match(/devices\.0\.restore\.machine.*required.*web, mail, Web/);
    expect(await refused([{ machine: 'mail' }, { machine: 'web' }])).to.match(
      /devices\.1\.restore\.machine.*several/,
    );
    expect(await refused([{ machine: 'mail' }, { machine: 'Mail' }])).to.contain('twice');
    expect(await refused([{ machine: 'a\nb' }])).to.contain('restore.machine');

    // A machine that is not in any snapshot yet is no fault of the plan.
    await addGroup(planId, [{ machine: 'later' }]);
    const missing = await execute(planId, 'rehearsal');
    expect(missing.groups[0].steps[0].error).to.deep.equal({
      code: 'NO_SNAPSHOT',
      message: 'There is no snapshot of the machine "later" of this device on this server.',
    });

    const single = await planWith();
    await backUp([guest('alone', 'guest-9')]);
    await addGroup(single, [{}]);
    expect((await execute(single, 'rehearsal')).status).to.equal('completed');
    expect(orders('backup.vm-instant-boot')[0]?.vmName).to.equal('alone (rehearsal)');
    await backUp([guest('alone', 'guest-9'), guest('second', 'guest-10')]);
    const unclear = (await execute(single, 'rehearsal')).groups[0].steps[0];
    expect(unclear.error.code).to.equal('MACHINE_REQUIRED');
    expect(unclear.error.message).to.contain('alone, second');
    expect(orders('backup.vm-instant-boot')).to.have.length(1);
  });

  it('end with the reason if the store has no such image', async () => {
    const planId = await planWith();
    await addGroup(planId, [{ machine: 'guest-7' }]);
    await host.write({ 'muster-machines.json': '{"version":1}' });
    const details: MachinesDetails = {
      kind: 'machines',
      hypervisor: 'kvm',
      machines: [guest('broken', 'guest-7')],
    };
    await host.backUp({ details, backupType: 'system_image' });
    const done = await execute(planId, 'rehearsal');
    expect(done.status).to.equal('failed');
    expect(done.groups[0].steps[0].error.code).to.equal('REPOSITORY_DAMAGED');
    expect(target.log).to.deep.equal([]);
  });
});
