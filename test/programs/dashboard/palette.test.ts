import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { eventually } from '../../support/eventually.ts';
import { Keyboard } from '../../support/keyboard.ts';
import { asOwner } from '../../support/test-postgres.ts';

describe('the palette, by keys alone', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let front: string;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    const sql = (text: string, values: unknown[]) => asOwner(dashboard.app.database.ownerUrl, text, values);
    await sql(`update organizations set name = 'Northway' where id = $1`, [tenant.orgId]);
    front = (await buildDevice(dashboard.app, tenant.orgId, { hostname: 'FRONT-004' })).deviceId;
    await buildDevice(dashboard.app, tenant.orgId, { hostname: 'FRONT-005' });
    await sql(
      `update devices set last_user = $2, network = '{"macAddress": "aa:bb:cc:00:11:22"}' where id = $1`,
      [front, String.raw`PORTO\maria`],
    );
    const script = await dashboard.app.call('POST', '/scripts', {
      token: tenant.admin.token,
      body: { orgId: tenant.orgId, name: 'Cleanup', language: 'bash', content: 'true' },
    });
    expect(script.status).to.equal(201);
  });

  const entry = (page: Page, name: string | RegExp) => page.getByRole('dialog').getByRole('button', { name });
  async function search(page: Page, keys: Keyboard, text: string): Promise<void> {
    await page.getByRole('heading', { level: 1 }).first().waitFor();
    await keys.press('Control+k');
    await page.getByRole('textbox', { name: 'Search', exact: true }).waitFor();
    await keys.hasFocus(page.getByRole('textbox', { name: 'Search', exact: true }));
    await keys.type(text);
  }

  it('finds devices and says why, and shows those that were opened last', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    const keys = new Keyboard(page);
    await search(page, keys, String.raw`porto\m`);
    await entry(page, /FRONT-004.*Last user PORTO\\maria/).waitFor();
    await assertAccessible(page);
    await keys.take('ArrowDown', entry(page, /FRONT-004/));
    await page.getByRole('heading', { name: 'FRONT-004' }).waitFor();
    expect(page.url()).to.include(`/devices/${front}`);

    await search(page, keys, 'AABB.CC00');
    await entry(page, /FRONT-004.*MAC address aa:bb:cc:00:11:22/).waitFor();
    await keys.press('Control+a', 'Backspace');
    // With nothing typed, Enter opens the device that was opened last.
    await page.getByRole('dialog').getByRole('button', { name: 'FRONT-004', exact: true }).waitFor();
    await assertAccessible(page);
    await keys.press('Escape');
    await page.goto('/devices');
    await search(page, keys, '');
    await keys.take('ArrowDown', entry(page, 'FRONT-004'));
    await page.getByRole('heading', { name: 'FRONT-004' }).waitFor();
  });

  it('restarts a device that was typed behind the verb, after the usual question', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    const keys = new Keyboard(page);
    await search(page, keys, 'reb');
    await keys.take('ArrowDown', entry(page, /^Restart a device/));
    await keys.hasFocus(page.getByRole('textbox', { name: 'Search', exact: true }));
    await keys.type('front-004');
    await entry(page, /^Restart FRONT-004/).waitFor();
    await assertAccessible(page);
    await keys.take('ArrowDown', entry(page, /^Restart FRONT-004/));
    const dialog = page.getByRole('dialog', { name: 'Restart the machine' });
    await dialog.getByText('A person who works at it loses what is not saved.').waitFor();
    await keys.use(dialog.getByRole('button', { name: 'Restart', exact: true }));
    await page.getByText('FRONT-004 was asked to restart').waitFor();
    await dialog.waitFor({ state: 'hidden' });
    const commands = await dashboard.app.call('GET', `/devices/${front}/commands`, {
      token: tenant.admin.token,
    });
    expect(commands.body.data.map(({ type }: { type: string }) => type)).to.deep.equal(['agent.reboot']);
    // The question is not asked again by the address.
    expect(page.url()).to.not.include('dialog');
  });

  it('opens the dialogs of other pages: a person to invite, a key, a rule, a script on a device', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    const keys = new Keyboard(page);
    for (const [text, title] of [
      ['invite', 'Invite a person'],
      ['enroll', /key/i],
      ['new alert', /alert rule/i],
    ] as const) {
      await search(page, keys, text);
      await keys.take('ArrowDown', entry(page, /^(Invite a person|Enroll a device|New alert rule)$/));
      await page.getByRole('dialog', { name: title }).waitFor();
      await keys.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
    }
    await search(page, keys, 'run clean on front-005');
    await keys.take('ArrowDown', entry(page, /^Run Cleanup on FRONT-005/));
    const dialog = page.getByRole('dialog', { name: 'Run a script on FRONT-005' });
    await dialog.getByText('Bash').waitFor();
    expect(await dialog.getByRole('combobox', { name: 'Script' }).inputValue()).to.equal('Cleanup');
  });

  it('opens what is looked at most of a device, and lists of what was typed', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    const keys = new Keyboard(page);
    for (const [text, name, address] of [
      ['errors front-004', /^Errors and warnings of FRONT-004/, `/devices/${front}/logs?level=`],
      ['disk front-004', /over 30 days/, `/devices/${front}?tab=metrics&range=month`],
      ['why front-004', /^What happened to FRONT-004/, `/devices/${front}?tab=history`],
      // It has no backup yet.
      ['restore front-004', /^Restore files of FRONT-004/, `/devices/${front}?tab=backup`],
      ['software Office', /^Which devices have “Office”/, '/software?q=Office'],
    ] as const) {
      await search(page, keys, text);
      await keys.take('ArrowDown', entry(page, name));
      await page.waitForURL((url) => `${url.pathname}${url.search}`.startsWith(address));
    }
    // The devices that wait for approval are found without their names, and no other one is offered.
    await search(page, keys, 'approve ');
    await page.getByRole('dialog').getByText('Nothing was found.').waitFor();
    await keys.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await search(page, keys, 'audit maria');
    await keys.take('ArrowDown', entry(page, /^What “maria” did/));
    await page.waitForURL('**/audit?user=maria');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    // As the list of all keys says, / leads to the first search field of each list.
    const field = page.getByPlaceholder('Anywhere in an entry');
    await field.waitFor();
    await keys.press('/');
    await keys.hasFocus(field);
  });

  it('runs a script on a group, which the form has chosen already', async () => {
    const { token } = tenant.admin;
    const group = await dashboard.app.call('POST', '/groups', {
      token,
      body: { orgId: tenant.orgId, name: 'Pilots', type: 'static', deviceIds: [front] },
    });
    expect(group.status).to.equal(201);
    const page = await dashboard.open('/', { person: tenant.admin });
    const keys = new Keyboard(page);
    await search(page, keys, 'run clean on pilots');
    await keys.take('ArrowDown', entry(page, /^Run Cleanup on the group Pilots/));
    const dialog = page.getByRole('dialog', { name: 'Run Cleanup' });
    const chosen = dialog.getByRole('combobox', { name: 'Group' });
    await chosen.waitFor();
    await eventually(
      () => chosen.inputValue(),
      (text) => text.startsWith('Pilots'),
    );
    await keys.use(dialog.getByRole('button', { name: 'Run', exact: true }));
    await page.waitForURL('**/scripts/runs/**');
  });

  it('finds people, sites and organizations, and goes to them', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    const keys = new Keyboard(page);
    await search(page, keys, 'northw');
    await keys.take('ArrowDown', entry(page, 'Northway'));
    await page.waitForURL(`**/organizations/${tenant.orgId}**`);
    await search(page, keys, tenant.technician.email);
    await keys.take('ArrowDown', entry(page, new RegExp(tenant.technician.email)));
    await page.getByRole('heading', { name: 'People' }).waitFor();
    await page.getByText(tenant.technician.email).waitFor();
  });

  it('offers only what the person may do', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const page = await dashboard.open('/', { person: viewer });
    const keys = new Keyboard(page);
    await search(page, keys, 'front-004');
    await entry(page, /^FRONT-004/).waitFor();
    await keys.press('Control+a');
    await keys.type('reboot front-004');
    await page.getByRole('dialog').getByText('Nothing was found.').waitFor();
    await keys.press('Control+a');
    await keys.type('invite');
    await page.getByRole('dialog').getByText('Nothing was found.').waitFor();
    // A link to a dialog says why it is refused.
    await page.goto(`/devices/${front}?dialog=reboot`);
    await page
      .getByRole('dialog')
      .getByText(/needs the permission/)
      .waitFor();
  });
});
