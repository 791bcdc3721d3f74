import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import type { AlertRulePreview } from '../../../src/dashboard/api/routes.ts';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { alertGround } from '../../support/alert-rule-ground.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { Keyboard } from '../../support/keyboard.ts';
import { asOwner } from '../../support/test-postgres.ts';

describe('the page of alert rules', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: Awaited<ReturnType<typeof buildDevice>>;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    await asOwner(
      dashboard.app.database.ownerUrl,
      `update organizations set name = 'Northway' where id = $1`,
      [tenant.orgId],
    );
    device = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'TILL-1' });
    const filter = await dashboard.app.call('POST', '/filters', {
      token: tenant.admin.token,
      body: {
        orgId: tenant.orgId,
        name: 'Servers',
        conditions: {
          operator: 'AND',
          conditions: [{ field: 'hostname', operator: 'contains', value: 'SRV' }],
        },
      },
    });
    expect(filter.status, JSON.stringify(filter.body)).to.equal(201);
  });

  const rowOf = (page: Page, name: string | RegExp): Locator =>
    page.getByRole('row').filter({ hasText: name });

  async function choose(page: Page, field: Locator, option: string): Promise<void> {
    await field.click();
    await page.getByRole('option', { name: option, exact: true }).click();
  }

  async function act(page: Page, row: Locator, action: string): Promise<void> {
    await row.getByRole('button', { name: /^Actions of/ }).click();
    await page.getByRole('menuitem', { name: action }).click();
  }

  it('lets an administrator create a rule for disks, change, disable, duplicate and delete it', async () => {
    const page = await dashboard.open('/alerts', { person: tenant.admin });
    await page
      .getByRole('navigation', { name: 'Pages of alerts' })
      .getByRole('link', { name: 'Rules' })
      .click();
    // What each organization begins with.
    await rowOf(page, 'Device offline').getByText('Offline for 30 minutes').waitFor();
    await rowOf(page, 'Backup failed').getByText('Reported by Muster: backup failed').waitFor();
    await assertAccessible(page);

    await page.getByRole('button', { name: 'New rule' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Disks of servers');
    await choose(page, dialog.getByRole('combobox', { name: 'For' }), 'Northway');
    await choose(page, dialog.getByRole('combobox', { name: 'Devices' }), 'The devices that a filter finds');
    await choose(page, dialog.getByRole('combobox', { name: 'Filter' }), 'Servers');
    const threshold = dialog.getByRole('textbox', { name: 'Threshold' });
    const over = dialog.getByRole('textbox', { name: 'Over when below' });
    await threshold.fill('80');
    await over.fill('95');
    await assertAccessible(page);
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Create rule' }).click();
    await dialog.getByText('must not be above the threshold').first().waitFor();
    expect(await over.getAttribute('aria-invalid')).to.equal('true');
    expect(await threshold.getAttribute('aria-invalid')).to.not.equal('true');
    await over.fill('75');
    await dialog.getByRole('button', { name: 'Create rule' }).click();

    const row = rowOf(page, 'Disks of servers');
    await row.getByText('Disk use at least 80 %, until it is below 75 %').waitFor();
    await row.getByText('Filter “Servers”').waitFor();
    await row.getByText('Northway').waitFor();
    await act(page, row, 'Edit');
    await choose(page, dialog.getByRole('combobox', { name: 'Figure' }), 'Free disk space');
    await threshold.fill('20');
    await choose(page, dialog.getByRole('combobox', { name: 'Severity' }), 'Critical');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('Free disk space below 20 GB').waitFor();
    await row.getByText('Critical').waitFor();

    const enabled = row.getByRole('switch', { name: '“Disks of servers” is enabled' });
    await enabled.press('Space');
    await row.getByRole('switch', { checked: false }).waitFor();
    await page.reload();
    await row.getByRole('switch', { checked: false }).waitFor();

    await act(page, row, 'Duplicate');
    expect(await dialog.getByRole('textbox', { name: 'Name' }).inputValue()).to.equal(
      'Disks of servers (copy)',
    );
    await choose(page, dialog.getByRole('combobox', { name: 'Raises an alert because of' }), 'Events');
    await dialog.getByRole('textbox', { name: 'Source' }).fill('disk');
    await dialog.getByRole('textbox', { name: 'Number of events' }).fill('3');
    await dialog.getByRole('button', { name: 'Create rule' }).click();
    const copy = rowOf(page, 'Disks of servers (copy)');
    await copy.getByText('3 events within 1 hour: error or worse, source disk').waitFor();

    await choose(page, page.getByRole('combobox', { name: 'Condition' }), 'Events');
    await row.getByText('Free disk space').waitFor({ state: 'detached' });
    await act(page, copy, 'Delete');
    await dialog.getByText('It has no open alerts.').waitFor();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No such alert rules').waitFor();
    await page.getByRole('button', { name: 'Show all alert rules' }).click();
    await row.getByText('Free disk space below 20 GB').waitFor();
  });

  it('says at the kind of condition that nothing is asked of an event', async () => {
    const page = await dashboard.open('/alerts/rules', { person: tenant.admin });
    await page.getByRole('button', { name: 'New rule' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Any event');
    const kind = dialog.getByRole('combobox', { name: 'Raises an alert because of' });
    await choose(page, kind, 'Events');
    // Once more, it is chosen no longer.
    await choose(page, dialog.getByRole('combobox', { name: 'Level' }), 'Error or worse');
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Create rule' }).click();
    await dialog.getByText('must have at least one of log, category').first().waitFor();
    expect(await kind.getAttribute('aria-invalid')).to.equal('true');
    await assertAccessible(page);
  });

  it('shows what a rule would have done, and that a preview no longer fits the form', async () => {
    const page = await dashboard.open('/alerts/rules', { person: tenant.admin });
    const asked: unknown[] = [];
    await page.route('**/alert-rules/preview', async (given) => {
      asked.push(given.request().postDataJSON());
      await given.fulfill({ json: PREVIEW(device.deviceId, tenant.orgId) });
    });
    await act(page, rowOf(page, 'Disk almost full'), 'Edit');
    const dialog = page.getByRole('dialog');
    const ask = dialog.getByRole('button', { name: 'Preview the last 7 days' });
    await ask.click();
    await dialog.getByText('Would have raised 12 alerts about 4 devices.').waitFor();
    await dialog.getByText('it examined 500 of 1,200 devices').waitFor();
    await dialog.getByText('2 devices met the condition already when the 7 days began').waitFor();
    await dialog.getByText('for this rule alone and the devices that it covers now').waitFor();
    await dialog.getByRole('list', { name: 'Alerts of each day' }).getByText('Mon 23').waitFor();
    const alert = dialog.getByRole('row', { name: /TILL-1/ });
    await alert.getByText('C: is at 93 %').waitFor();
    await alert.getByText('2 h 30 min').waitFor();
    await dialog.getByText('Only the newest 1 of 12 are listed.').waitFor();
    await assertAccessible(page);

    await dialog.getByRole('textbox', { name: 'Threshold' }).fill('95');
    await dialog.getByText('The rule has changed since this preview.').waitFor();
    await ask.click();
    await dialog.getByText('The rule has changed since this preview.').waitFor({ state: 'detached' });
    expect(asked).to.have.length(2);
    expect(asked[1]).to.deep.include({ orgId: tenant.orgId, target: { all: true }, cooldownMinutes: 0 });
    expect(asked[1]).to.have.nested.property('condition.threshold', 95);
  });

  it('asks the server what a rule that has no name yet would have done', async () => {
    const page = await dashboard.open('/alerts/rules', { person: tenant.admin });
    await page.getByRole('button', { name: 'New rule' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Preview the last 7 days' }).click();
    await dialog.getByText(/^Would have raised /).waitFor();
  });

  it('leads from a rule to its open alerts, and from an alert to its rule', async () => {
    const ground = alertGround(dashboard.app);
    await ground.disk(device, 97);
    await ground.whole();
    const page = await dashboard.open('/alerts/rules', { person: tenant.admin });
    const row = rowOf(page, 'Disk almost full');
    await row.getByRole('link', { name: '1 open alert of “Disk almost full”' }).click();
    await page.getByText('Of the rule “Disk almost full”').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Disk of TILL-1 is almost full' }).click();
    const drawer = page.getByRole('dialog', { name: 'Alert' });
    await drawer.getByText('Disk full').waitFor();
    await drawer.getByRole('link', { name: 'Disk almost full' }).click();
    await page.getByRole('heading', { name: 'Alert rules' }).waitFor();
    expect(new URL(page.url()).searchParams.get('q')).to.equal('Disk almost full');
    await act(page, row, 'Delete');
    await page.getByRole('dialog').getByText('Its open alert is resolved.').waitFor();
  });

  it('says nothing of the rule of an alert where the person may not read it', async () => {
    const page = await dashboard.open('/alerts', { person: tenant.admin });
    dashboard.allow(/status of 404/);
    const asked: string[] = [];
    await page.route('**/alert-rules/*', async (given) => {
      asked.push(given.request().url());
      await given.fulfill({ status: 404, json: { error: 'Alert rule not found', code: 'NOT_FOUND' } });
    });
    await page.getByRole('button', { name: 'Disk of TILL-1 is almost full' }).click();
    const facts = page.getByRole('dialog', { name: 'Alert' }).getByRole('table', { name: 'The alert' });
    await facts.getByText('Disk full').waitFor();
    await eventually(
      () => asked.length,
      (count) => count > 0,
    );
    expect(await facts.getByText('Rule', { exact: true }).count()).to.equal(0);
  });

  it('is used by keys alone, without losing the focus', async () => {
    const page = await dashboard.open('/alerts/rules', { person: tenant.admin });
    const row = rowOf(page, 'Backup failed');
    await row.getByText('Reported by Muster').waitFor();
    const keys = new Keyboard(page);
    const enabled = row.getByRole('switch', { name: '“Backup failed” is enabled' });
    await keys.toggle(enabled);
    const saved = page.locator('[aria-busy="false"]');
    await row.getByRole('switch', { checked: false }).and(saved).waitFor();
    await keys.hasFocus(enabled);
    await keys.toggle(enabled);
    await row.getByRole('switch', { checked: true }).and(saved).waitFor();

    const menu = row.getByRole('button', { name: 'Actions of “Backup failed”' });
    await keys.use(menu);
    await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'Duplicate' }));
    const dialog = page.getByRole('dialog');
    await keys.choose(dialog.getByRole('combobox', { name: 'Raises an alert because of' }), 'Software');
    await keys.fill(dialog.getByRole('textbox', { name: 'Program' }), 'TeamViewer');
    await keys.use(dialog.getByRole('button', { name: 'Create rule' }));
    const copy = rowOf(page, 'Backup failed (copy)');
    await copy.getByText('Software installed: TeamViewer').waitFor();
    await keys.hasFocus(menu);

    await keys.use(copy.getByRole('button', { name: /^Actions of/ }));
    await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'Delete' }));
    await keys.use(dialog.getByRole('button', { name: 'Delete' }));
    await copy.waitFor({ state: 'detached' });
    await keys.hasFocus();
  });

  it('lets a viewer read the rules, and says why nothing can be changed', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const page = await dashboard.open('/alerts/rules', { person: viewer });
    const row = rowOf(page, 'Device offline');
    await row.getByText('Offline for 30 minutes').waitFor();
    const create = page.getByRole('button', { name: 'New rule' });
    expect(await create.getAttribute('aria-description')).to.include('organizations:write');
    const enabled = row.getByRole('switch', { name: '“Device offline” is enabled' });
    expect(await enabled.getAttribute('aria-disabled')).to.equal('true');
    await enabled.press('Space');
    await row.getByRole('button', { name: /^Actions of/ }).click();
    const edit = page.getByRole('menuitem', { name: 'Edit' });
    expect(await edit.getAttribute('aria-disabled')).to.equal('true');
    await assertAccessible(page);
    expect(await enabled.isChecked()).to.equal(true);
  });
});

const PREVIEW = (deviceId: string, orgId: string): AlertRulePreview => ({
  from: '2026-11-22T10:00:00.000Z',
  to: '2026-11-29T10:00:00.000Z',
  devices: 1200,
  examined: 500,
  complete: false,
  count: 12,
  affected: 4,
  before: 2,
  byDay: [
    { day: '2026-11-23', count: 8 },
    { day: '2026-11-29', count: 4 },
  ],
  alerts: [
    {
      deviceId,
      orgId,
      deviceName: 'TILL-1',
      raisedAt: '2026-11-29T05:00:00.000Z',
      resolvedAt: '2026-11-29T07:30:00.000Z',
      what: 'C: is at 93 %',
    },
  ],
});
