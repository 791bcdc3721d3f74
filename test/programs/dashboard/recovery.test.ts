import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { buildRecoveryWorld, type RecoveryWorld } from '../../support/disaster-recovery/recovery-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildPerson, buildTenant } from '../../support/factories.ts';

describe('the pages of recovery', () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-recovery-'));
  const dashboard = useDashboard({ backupStore: { reserveBytes: 0 }, env: { DATA_DIR: dataDir } });
  let world: RecoveryWorld;
  let planId: string;

  before(async function () {
    this.timeout(60_000);
    world = await buildRecoveryWorld(dashboard.app);
    for (const device of world.devices) await device.connect(dashboard.app);
    planId = await world.createPlan({ name: 'Head office' });
  });
  after(async () => {
    for (const device of world.devices) device.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  beforeEach(() => world.reset());

  const rowOf = (page: Page, text: string | RegExp) => page.getByRole('row').filter({ hasText: text });
  const groupOf = (page: Page, name: string) => page.getByRole('region', { name: `Group ${name}` });
  const stepsOf = (page: Page, name: string) => page.getByRole('rowgroup', { name: `Group ${name}` });
  const choose = async (page: Page, field: string, option: string) => {
    await page.getByRole('combobox', { name: field }).last().click();
    await page.getByRole('option', { name: option, exact: true }).click();
  };
  const refusalOf = (page: Page, button: string) =>
    page.getByRole('button', { name: button }).first().getAttribute('aria-description');

  it('say what a plan is for, and let one be written group by group', async () => {
    const page = await dashboard.open('/recovery?status=archived', { person: world.admin });
    await page.getByText('No such plans').waitFor();
    await page.getByRole('button', { name: 'New plan' }).click();
    const plan = page.getByRole('dialog', { name: 'New recovery plan' });
    await plan.getByLabel('Name').fill('Branch');
    await plan.getByLabel('Time to recover at most (RTO)').fill('30');
    await plan.getByLabel('Age of the data at most (RPO)').fill('90');
    await choose(page, 'How often', 'Every month');
    await assertAccessible(page);
    await plan.getByRole('button', { name: 'Make the plan' }).click();
    await page.getByRole('heading', { name: 'Branch' }).waitFor();
    await page.getByText('No groups').waitFor();
    expect(await refusalOf(page, 'Execute …')).to.include('no devices yet');

    await page.getByRole('button', { name: 'Add a group' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'New group' });
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Databases');
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Add the group' }).click();
    await dialog.getByRole('img', { name: 'has a fault' }).waitFor();
    await choose(page, 'Device', 'srv-0');
    await choose(page, 'Restored as', 'Instant boot');
    await choose(page, 'Host of the machine', 'srv-1');
    await dialog.getByLabel('Guest of the device').fill('database-vm');
    await dialog.getByRole('button', { name: 'Add a check' }).click();
    await page.getByRole('menuitem', { name: 'A port answers' }).click();
    await dialog.getByRole('textbox', { name: 'Port', exact: true }).fill('5432');
    await dialog.getByRole('button', { name: 'Add a check' }).click();
    await page.getByRole('menuitem', { name: 'A web page answers' }).click();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Add the group' }).click();
    const databases = groupOf(page, 'Databases');
    await databases.getByText('Port 5432 answers').waitFor();
    await databases.getByText('its guest database-vm').waitFor();
    await databases.getByText('http on port 80 answers at /').waitFor();

    await page.getByRole('button', { name: 'Add a group' }).click();
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Files');
    await choose(page, 'Also waits for', 'Databases');
    await choose(page, 'Device', 'srv-2');
    await dialog.getByLabel('Files and folders').fill('/srv/data\n/etc/app.conf');
    await dialog.getByRole('button', { name: 'Add the group' }).click();
    await groupOf(page, 'Files').getByText('waits for Databases').waitFor();
    await groupOf(page, 'Files').getByText('/srv/data, /etc/app.conf').waitFor();
    expect(
      await databases.getByRole('button', { name: 'Remove' }).getAttribute('aria-description'),
    ).to.include('Other groups wait for it');
    await assertAccessible(page);
    await groupOf(page, 'Files').getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await groupOf(page, 'Files').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Head office').waitFor();
  });

  it('say which script has changed since it was chosen, and take its new version', async () => {
    const { groups } = (await world.send('GET', `/dr/plans/${planId}`)).body;
    const { scriptId, scriptName } = groups[0].scripts[0];
    await world.send('PATCH', `/scripts/${scriptId}`, { content: 'echo newer' });
    const page = await dashboard.open(`/recovery/plans/${planId}`, { person: world.admin });
    const databases = groupOf(page, 'Databases');
    await databases.getByText(`Script ${scriptName}`).waitFor();
    const note = databases.getByText('The script has changed since it was chosen.');
    await note.waitFor();
    await assertAccessible(page);
    await databases.getByRole('button', { name: 'Take the new version' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Take the new version' }).click();
    await note.waitFor({ state: 'detached' });
    await databases.getByText(`Script ${scriptName}`).waitFor();
  });

  it('follow a rehearsal step by step, and abort it', async () => {
    world.at(3).script = ({ type }) => (type === 'backup.vm-from-image' ? 'hold' : undefined);
    const page = await dashboard.open('/recovery', { person: world.admin, isProven: true });
    const row = rowOf(page, 'Head office');
    await row.getByText('Never rehearsed').waitFor();
    await row.getByText('Target 30 min').waitFor();
    await row.getByRole('button', { name: 'Execute …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Execute “Head office”' });
    expect(await dialog.getByRole('radio', { name: 'Failback' }).isDisabled()).to.equal(true);
    await dialog.getByRole('radio', { name: 'Failover' }).check();
    await dialog.getByText('6 devices will be replaced').waitFor();
    await assertAccessible(page);
    await dialog.getByRole('radio', { name: 'Rehearsal' }).check();
    await dialog.getByLabel('Note').fill('Quarterly');
    await dialog.getByRole('button', { name: 'Begin the rehearsal' }).click();
    await page.getByRole('heading', { name: 'Rehearsal of Head office' }).waitFor();
    const applications = stepsOf(page, 'Applications');
    await stepsOf(page, 'Databases').getByText('Completed').first().waitFor();
    await applications.getByText('Running').first().waitFor();
    await stepsOf(page, 'Edge').getByText('Waits').first().waitFor();
    await applications.getByRole('button', { name: 'What is done for srv-2' }).click();
    await applications.getByText(/old when the execution began/).waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Abort …' }).click();
    await page.getByText('everything that the rehearsal has started is taken down').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Abort' }).click();
    const report = page.getByRole('region', { name: 'Report' });
    await report.getByText('Abort took').waitFor();
    await report.getByText('Nothing', { exact: true }).waitFor();
    await page.getByText('It was aborted.').waitFor();
    expect(world.left(), 'folders and machines').to.deep.equal([]);
    await assertAccessible(page);
    await world.reset();

    await page.getByRole('link', { name: 'To the plan' }).click();
    await page.getByRole('button', { name: 'Execute …' }).click();
    await dialog.getByRole('button', { name: 'Begin the rehearsal' }).click();
    await report.getByText(/of 30 min$/).waitFor();
    await page.getByRole('link', { name: 'Plans' }).click();
    await row.getByText(/of 1 h 30 min$/).waitFor();
    await assertAccessible(page);
  });

  it('fail over, and say what a failback needs', async () => {
    await world.ended(await world.execute(planId, 'failover'));
    const page = await dashboard.open(`/recovery/plans/${planId}`, { person: world.admin, isProven: true });
    await page
      .getByRole('region', { name: 'Devices that have failed over' })
      .getByText('srv-0')
      .first()
      .waitFor();
    expect(await refusalOf(page, 'Delete')).to.include('fail back first');
    await page.getByRole('button', { name: 'Execute …' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('radio', { name: 'Failover' }).isDisabled()).to.equal(true);
    await dialog.getByRole('radio', { name: 'Failback' }).check();
    await dialog.getByText(/so a person brings these back: srv-/).waitFor();
    await assertAccessible(page);
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Begin the failback' }).click();
    await dialog.getByRole('alert').waitFor();
    world.at(0).script = ({ type }) => (type === 'backup.restore' ? { error: 'RESTORE_FAILED' } : undefined);
    await dialog.getByRole('radio', { name: 'They are back' }).check();
    await dialog.getByRole('button', { name: 'Begin the failback' }).click();
    await page.getByText('srv-0: It failed.').waitFor();
    await assertAccessible(page);
    await page.getByRole('link', { name: 'Executions' }).click();
    await choose(page, 'Type', 'Failback');
    await rowOf(page, 'Failback of Head office').getByText('Failed', { exact: true }).waitFor();
    await assertAccessible(page);

    world.at(0).script = () => undefined;
    await page.goto(`/recovery/plans/${planId}`);
    await page.getByRole('button', { name: 'Execute …' }).click();
    await dialog.getByRole('radio', { name: 'Failback' }).check();
    await dialog.getByRole('radio', { name: 'Shut them down and back them up' }).check();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Begin the failback' }).click();
    const applications = stepsOf(page, 'Applications');
    await applications.getByText('Completed').first().waitFor();
    await applications.getByRole('button', { name: 'What is done for srv-2' }).click();
    await applications.getByText('Shut the machine down and back it up').waitFor();
    await assertAccessible(page);
    await applications.getByRole('link', { name: 'the snapshot that was made of it' }).click();
    await page.waitForURL(/\/backup\/snapshots\//);
  });

  it('show what there is to a person who may only look, and nothing to another tenant', async () => {
    const role = await world.post('/roles', {
      scope: 'organization',
      name: 'Onlooker',
      permissions: ['recovery:read', 'devices:read'],
    });
    const person = (id: string) =>
      buildPerson(dashboard.app, { scope: 'organization', orgId: world.orgId, role: id });
    const page = await dashboard.open(`/recovery/plans/${planId}`, {
      person: await person(role.id as string),
    });
    await page.getByRole('heading', { name: 'Head office' }).waitFor();
    for (const button of ['Change', 'Delete', 'Execute …', 'Add a group']) {
      expect(await refusalOf(page, button), button).to.include('which your role "Onlooker"');
    }
    const viewer = await person(SYSTEM_ROLES.organizationViewer);
    const forbidden = await dashboard.open('/recovery', { person: viewer });
    await forbidden.getByText('You may not see this').waitFor();

    const other = await buildTenant(dashboard.app);
    dashboard.allow(/status of 404/);
    const foreign = await dashboard.open(`/recovery/plans/${planId}`, { person: other.admin });
    await foreign.getByRole('alert').getByText('Recovery plan not found').waitFor();
    await foreign.goto('/recovery');
    await foreign.getByText('No recovery plans').waitFor();
  });
});
