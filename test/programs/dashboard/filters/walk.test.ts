import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { buildDevice, buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { Keyboard } from '../../../support/keyboard.ts';

describe('the pages of filters, groups and scripts', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let agent: FakeDevice;
  let deviceId: string;
  const load = (cpuPercent: number) =>
    agent.heartbeat({ metrics: { cpuPercent, ramPercent: 34, diskPercent: 56 } });

  before(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    const device = await buildDevice(app, tenant.orgId, { hostname: 'FRONT-DESK', osType: 'linux' });
    ({ deviceId } = device);
    agent = await connectDevice(app, device.token);
    await load(12);
  });
  after(() => agent.close());

  const choose = async (page: Page, field: string, option: string) => {
    await page.getByRole('combobox', { name: field, exact: true }).click();
    await page.getByRole('option', { name: option, exact: true }).click();
  };

  it('build a filter of three levels by keys alone, which a device enters, and a group that follows it', async () => {
    const page = await dashboard.open('/filters', { person: tenant.admin });
    const keys = new Keyboard(page);
    const field = (name: string) => page.getByRole('combobox', { name, exact: true });
    const value = (of: string) =>
      page.getByRole('textbox', { name: `Value of condition ${of}`, exact: true });
    await page.getByRole('button', { name: 'Begin with this: Disks that fill up' }).waitFor();
    await assertAccessible(page);
    await keys.use(page.getByRole('button', { name: 'New filter' }));
    await page.getByText('1 device', { exact: true }).waitFor();

    await keys.use(page.getByRole('button', { name: 'Add a group', exact: true }));
    await page.getByText('Fill in each condition to see which devices match.').waitFor();
    await keys.fill(value('2.1'), 'front');
    await keys.use(page.getByRole('button', { name: 'Add a group to group 2', exact: true }));
    await keys.choose(field('Field of condition 2.2.1'), 'CPU in percent');
    await keys.choose(field('Operator of condition 2.2.1'), 'is more than');
    await keys.fill(value('2.2.1'), '50');
    await page.getByText('0 devices', { exact: true }).waitFor();
    await keys.use(page.getByRole('button', { name: 'Add a condition to group 2.2', exact: true }));
    await keys.use(page.getByRole('button', { name: 'Remove condition 2.2.2', exact: true }));
    await page.getByText('0 devices', { exact: true }).waitFor();
    await keys.use(page.getByRole('button', { name: 'Which condition removes most?' }));
    await page
      .getByRole('table', { name: 'What each condition removes' })
      .getByRole('row')
      .nth(1)
      .getByText('CPU in percent is more than 50')
      .waitFor();
    await assertAccessible(page);

    await keys.to(page.getByRole('tab', { name: 'Conditions' }));
    await keys.press('ArrowRight');
    const json = page.getByRole('textbox', { name: 'Conditions as the API takes them' });
    const written = await json.inputValue();
    expect(JSON.parse(written)).to.have.nested.property(
      'conditions[1].conditions[1].conditions[0].value',
      50,
    );
    await json.fill('{ "operator": "AND" }');
    await page.getByText('must be a group').waitFor();
    await json.fill(written.replace('50', '60'));
    await keys.fill(page.getByRole('textbox', { name: 'Name', exact: true }), 'Busy front desks');
    await keys.use(page.getByRole('button', { name: 'Save filter' }));
    await keys.hasFocus();
    await page.getByRole('heading', { level: 1, name: 'Busy front desks' }).waitFor();
    const address = page.url();

    await page.goto('/groups');
    await page.getByRole('button', { name: 'New group' }).first().click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Busy');
    await page.getByText('Found by a filter').click();
    await choose(page, 'Filter', 'Busy front desks');
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create group' }).click();
    await page.getByText('No devices in this group').waitFor();
    await assertAccessible(page);

    await page.goto(address);
    await page.getByRole('link', { name: 'Show devices' }).click();
    await page.waitForURL(/\/devices\?/);
    await load(97);
    await page.getByRole('row').filter({ hasText: 'FRONT-DESK' }).waitFor();
    await page.goto('/groups');
    await page.getByRole('link', { name: 'Busy' }).click();
    await page.getByRole('tab', { name: 'Joined and left' }).click();
    await page.getByText('It came to match the filter').waitFor();
    await assertAccessible(page);

    dashboard.allow(/409/);
    await page.goto(address);
    await page.getByRole('link', { name: 'group Busy' }).waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('This filter is used by group Busy.').waitFor();
    await assertAccessible(page);
  });

  it('count if the header says', async () => {
    const other = await buildOrganization(dashboard.app, tenant.partnerId);
    const page = await dashboard.open('/filters/new', { person: tenant.admin });
    await page.getByText('1 device', { exact: true }).waitFor();
    await page.getByText('In all organizations that you can see.').waitFor();
    await page.goto(`/filters/new?org=${other}`);
    await page.getByText('0 devices', { exact: true }).waitFor();
    await page.getByText(/^In Organization \d+\.$/).waitFor();
  });

  it('write a script, and run it on a device whose output is followed', async () => {
    const page = await dashboard.open('/scripts', { person: tenant.admin });
    await page.getByText('No scripts yet').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'New script' }).first().click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Greeting');
    await page.getByRole('textbox', { name: 'Script', exact: true }).fill('echo "$PARAM_who"');
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Save script' }).click();
    await page.getByRole('heading', { level: 1, name: 'Greeting' }).waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Run Greeting' });
    await dialog.getByRole('combobox', { name: 'Devices' }).click();
    await page.getByRole('option', { name: 'FRONT-DESK' }).click();
    await page.keyboard.press('Escape');
    await dialog.getByRole('button', { name: 'Add a parameter' }).click();
    await dialog.getByLabel('Name of parameter 1').fill('who');
    await dialog.getByLabel('Value of parameter 1').fill('world');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Run', exact: true }).click();

    const frame = await agent.nextCommand();
    expect(frame).to.have.nested.property('payload.parameters.who', 'world');
    const log = page.getByRole('log', { name: 'Output of FRONT-DESK' });
    await log.waitFor();
    await agent.send('command:progress', { id: frame.id, seq: 0, phase: 'running' });
    await page.getByText('1 running').waitFor();
    // What is sent before the page has subscribed is shown at the end only, so it is sent until it is seen.
    for (let seq = 0; !(await log.textContent())?.includes('wor'); seq++) {
      await agent.rows(frame, [{ stream: 'stdout', text: 'wor' }], seq);
    }
    await agent.succeed(frame, { exitCode: 0, stdout: 'world\n', stderr: '', truncated: false });
    await log.getByText('world', { exact: true }).waitFor();
    await page.getByText('1 completed').waitFor();
    await assertAccessible(page);
    await page.goto(`/devices/${deviceId}?tab=commands`);
    await page.getByRole('button', { name: 'Script: Greeting' }).waitFor();
  });

  it('say to who may only look why nothing can be changed', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await dashboard.open('/groups', { person: viewer });
    const refused = page.getByRole('button', { name: 'New group', disabled: true });
    await refused.waitFor();
    expect(await refused.getAttribute('aria-description')).to.include('devices:write');
    await page.goto('/filters');
    await page.getByRole('button', { name: 'New filter', disabled: true }).waitFor();
    await page.goto('/scripts');
    await page.getByRole('button', { name: 'New script', disabled: true }).waitFor();
  });
});
