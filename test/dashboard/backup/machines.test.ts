import { expect } from 'chai';
import {
  COMMAND_TYPES,
  hypervisorCapability,
  type Machine,
  SECRETS_CAPABILITY,
} from '../../../src/protocol/index.ts';
import { type BackupTenant, buildBackupTenant } from '../../features/backup/backup-support.ts';
import { inSystem } from '../../features/backup/store-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, type EnrolledDevice } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';

const ABLE = [...COMMAND_TYPES, SECRETS_CAPABILITY, hypervisorCapability('hyperv')];
const VM_ID = '00000000-0000-4000-8000-000000000001';
const CHECKPOINT_ID = '00000000-0000-4000-8000-000000000002';
const LISTED: Machine = {
  id: VM_ID,
  name: 'Mail',
  state: 'running',
  bootMode: 'uefi',
  generation: 2,
  memoryBytes: 2 ** 31,
  processors: 2,
  disks: [
    { path: String.raw`D:\mail.vhdx`, sizeBytes: 2 ** 30, isPassthrough: false },
    { path: '', sizeBytes: null, isPassthrough: true },
  ],
  tracksChanges: null,
  checkpoints: [{ id: CHECKPOINT_ID, name: 'Before the upgrade', parentId: null, createdAt: 'some day' }],
};

describe('the page of virtual machines', () => {
  const dashboard = useDashboard();
  let tenant: BackupTenant;
  let enrolled: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    tenant = await buildBackupTenant(dashboard.app);
    enrolled = await buildDevice(dashboard.app, tenant.orgId);
    await inSystem(dashboard.app, (tx) =>
      tx('devices').where({ id: enrolled.deviceId }).update({ os_type: 'windows', capabilities: ABLE }),
    );
    agent = await connectDevice(dashboard.app, enrolled.token, { capabilities: ABLE });
  });
  after(() => agent.close());

  it('lists what a host has, and asks before something can be lost', async () => {
    const page = await dashboard.open(`/backup/machines?device=${enrolled.deviceId}`, {
      person: tenant.admin,
    });
    await page.getByText('No machines are known').waitFor();
    await page.getByRole('button', { name: 'Look for machines' }).click();
    const asked = await agent.nextCommand();
    expect(asked.type).to.equal('backup.vm-list');
    await agent.succeed(asked, { machines: [LISTED], truncated: false });
    const row = page.getByRole('row').filter({ hasText: 'Mail' });
    await row.getByText('Running').waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Open' }).click();
    const drawer = page.getByRole('dialog', { name: 'Machine Mail' });
    await drawer.getByRole('row', { name: 'Without a name A disk of the host' }).waitFor();
    await drawer.getByRole('row', { name: /^Before the upgrade Not known/ }).waitFor();
    const refused = (name: string) => drawer.getByRole('button', { name }).getAttribute('aria-description');
    expect(await refused('Start')).to.include('“Running”');
    expect(await refused('Back up now')).to.include('a disk of the host');
    await assertAccessible(page);

    await drawer.getByRole('button', { name: 'Turn off …' }).click();
    const question = page.getByRole('dialog', { name: 'Turn off: Mail' });
    await question.getByText('It is like a power cut').waitFor();
    await question.getByRole('button', { name: 'Turn off' }).click();
    const order = await agent.nextCommand();
    expect(order).to.deep.include({ type: 'backup.vm-state' });
    expect(order.payload).to.deep.include({ state: 'force_stop' });
    await drawer.getByText('The device was asked to do it.').waitFor();

    await drawer.getByRole('button', { name: 'Go back' }).click();
    const back = page.getByRole('dialog', { name: 'Go back to “Before the upgrade”' });
    await back.getByText('What “Mail” has written since then is lost.').waitFor();
    await assertAccessible(page);
    await back.getByRole('button', { name: 'Go back' }).click();
    const applied = await agent.nextCommand();
    expect(applied).to.deep.include({ type: 'backup.vm-checkpoint' });
    expect(applied.payload).to.deep.include({ action: 'apply' });
  });

  it('asks the hosts of another hypervisor where that is chosen', async () => {
    const kvm = await buildDevice(dashboard.app, tenant.orgId);
    const capabilities = [...COMMAND_TYPES, SECRETS_CAPABILITY, hypervisorCapability('kvm')];
    await inSystem(dashboard.app, (tx) =>
      tx('devices').where({ id: kvm.deviceId }).update({ os_type: 'linux', capabilities }),
    );
    const host = await connectDevice(dashboard.app, kvm.token, { capabilities });
    try {
      const page = await dashboard.open(`/backup/machines?device=${kvm.deviceId}`, { person: tenant.admin });
      await page.getByText('KVM', { exact: true }).click();
      await page.getByRole('button', { name: 'Look for machines' }).click();
      const asked = await host.nextCommand();
      expect(asked.payload).to.deep.equal({ hypervisor: 'kvm' });
      await host.succeed(asked, { machines: [{ ...LISTED, name: 'web' }], truncated: false });
      await page.getByRole('row').filter({ hasText: 'web' }).getByRole('button', { name: 'Open' }).click();
      const drawer = page.getByRole('dialog', { name: 'Machine web' });
      await drawer.getByRole('row', { name: 'Hypervisor KVM' }).waitFor();
      await assertAccessible(page);
      await drawer.getByRole('button', { name: 'Pause' }).click();
      expect((await host.nextCommand()).payload).to.include({ hypervisor: 'kvm', state: 'pause' });
    } finally {
      host.close();
    }
  });
});
