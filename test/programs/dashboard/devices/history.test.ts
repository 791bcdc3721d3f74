import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { Keyboard } from '../../../support/keyboard.ts';
import { raisedAlert } from '../../../support/raised-alert.ts';

describe('the history of a device', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  beforeEach(async () => {
    tenant = await buildTenant(dashboard.app);
    device = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'FRONT-DESK', osType: 'linux' });
  });

  it('shows what has happened and what people note, and pins what the next one has to know: by keys alone', async () => {
    const agent = await connectDevice(dashboard.app, device.token);
    agent.close();
    await withSystem(dashboard.app.server.database.pool, 'test', (tx) =>
      raisedAlert(tx, {
        orgId: device.orgId,
        deviceId: device.deviceId,
        kind: 'disk_full',
        severity: 'critical',
        title: 'Drive C: is full',
        message: 'There is no room.',
      }),
    );
    const page = await dashboard.open(`/devices/${device.deviceId}?tab=history`, { person: tenant.admin });
    const keys = new Keyboard(page);
    await page
      .getByRole('listitem')
      .filter({ hasText: 'Disconnected: it closed its connection (as when it shuts down)' })
      .waitFor();
    const alert = page.getByRole('listitem').filter({ hasText: 'Drive C: is full' });
    await alert.getByText('Critical').waitFor();
    await assertAccessible(page);

    const text = 'Ana’s machine.\nCall her first: <b>555</b>';
    await keys.fill(page.getByRole('textbox', { name: 'A note about this device' }), text);
    await keys.toggle(page.getByRole('checkbox', { name: 'Show on the summary' }));
    await keys.use(page.getByRole('button', { name: 'Add note' }));
    const note = page.getByRole('listitem').filter({ hasText: 'Call her first: <b>555</b>' });
    await note.getByText(/pinned · by Person/).waitFor();
    await assertAccessible(page);

    await page.getByRole('group', { name: 'What is shown' }).getByText('Notes').click();
    await alert.waitFor({ state: 'detached' });
    expect(page.url()).to.contain('kinds=');

    await page.getByRole('tab', { name: 'Summary' }).click();
    await page.getByText('1 open alert').waitFor();
    await page.getByText('Call her first: <b>555</b>').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Actions on the note' }).click();
    await page.getByRole('menuitem', { name: 'Edit' }).click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Note' }).fill('Call Rui first.');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Call Rui first.').waitFor();
    await page.getByRole('button', { name: 'Actions on the note' }).click();
    await page.getByRole('menuitem', { name: 'Take off the summary' }).click();
    await page.getByText('Call Rui first.').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Drive C: is full' }).click();
    await page.getByRole('dialog', { name: 'Alert' }).getByText('There is no room.').waitFor();
  });

  it('goes back page by page, and shows a person what that person may see', async () => {
    const { orgId, deviceId } = device;
    await withSystem(dashboard.app.server.database.pool, 'test', (tx) =>
      tx('commands').insert(
        Array.from({ length: 60 }, (_, number) => ({
          id: `01900000-0000-7000-8000-0000000000${String(number + 10)}`,
          org_id: orgId,
          device_id: deviceId,
          type: 'inventory.refresh',
          payload: '{}',
          timeout_seconds: 60,
          created_at: new Date(Date.now() - (number + 1) * 3_600_000),
          expires_at: new Date(),
        })),
      ),
    );
    const viewer = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await dashboard.open(`/devices/${deviceId}?tab=history`, { person: viewer });
    const rows = page.getByRole('listitem').filter({ hasText: 'Inventory refresh' });
    await rows.first().waitFor();
    expect(await rows.count()).to.equal(50);
    await page.getByRole('button', { name: 'Show earlier' }).click();
    await rows.nth(59).waitFor();
    expect(await page.getByRole('button', { name: 'Show earlier' }).count()).to.equal(0);
    // A viewer writes no notes.
    expect(await page.getByRole('textbox').count()).to.equal(0);
    await page.setViewportSize({ width: 390, height: 800 });
    await assertAccessible(page);
  });
});
