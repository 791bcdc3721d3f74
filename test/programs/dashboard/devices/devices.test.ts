import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { enableSecondFactor } from '../../../support/auth/second-factor-support.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
  MACHINE,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { Keyboard } from '../../../support/keyboard.ts';

/** Commands are walked through above. */
const TABS = ['Software', 'Services', 'Agent logs', 'Alerts', 'Upgrades', 'History'];

describe('the pages of devices', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let here: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    here = await buildDevice(app, tenant.orgId, { hostname: 'FRONT-DESK', osType: 'linux' });
    await buildDevice(app, tenant.orgId, { hostname: 'BACK-OFFICE', osType: 'linux' });
  });
  beforeEach(async () => {
    agent = await connectDevice(dashboard.app, here.token);
    await agent.heartbeat({ metrics: { cpuPercent: 12, ramPercent: 34, diskPercent: 56 } });
  });
  afterEach(() => agent.close());

  const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
  const badge = (page: Page, text: string) => page.locator('.mantine-Badge-root', { hasText: text }).first();

  it('show the last 24 hours of a figure in the list, for devices that have them', async () => {
    const hours = Array.from({ length: 24 }, (_, hour) => [60, 10 + hour * 3, null, null, null, null]);
    await asOwner(
      dashboard.app.database.ownerUrl,
      `insert into device_metric_averages (device_id, org_id, hours_until, hours) values ($1, $2, date_trunc('hour', now()), $3)`,
      [here.deviceId, tenant.orgId, hours.flat()],
    );
    const page = await dashboard.open('/devices', { person: tenant.admin });
    await page.getByRole('button', { name: 'Columns' }).click();
    await page.getByRole('checkbox', { name: 'CPU, 24 h' }).check();
    await page.keyboard.press('Escape');
    await row(page, 'FRONT-DESK')
      .getByRole('img', { name: 'From 10 % to 79 % in the last 24 hours' })
      .waitFor();
    expect(
      await row(page, 'BACK-OFFICE')
        .getByRole('img', { name: /24 hours/ })
        .count(),
    ).to.equal(0);
    await assertAccessible(page);
  });

  it('run a script on two devices, and follow it on the one that is there: by keys alone', async () => {
    const page = await dashboard.open('/devices?q=nobody', { person: tenant.admin });
    const keys = new Keyboard(page);
    await page.getByText('Most devices are removed by the search.').waitFor();
    await keys.use(page.getByRole('button', { name: 'Drop the search: 2 devices' }));
    await row(page, 'FRONT-DESK').getByText('Online').waitFor();
    await assertAccessible(page);
    const columns = page.getByRole('button', { name: 'Columns' });
    await keys.use(columns);
    await keys.use(page.getByRole('button', { name: 'Move Name to the right' }));
    await page.getByRole('columnheader').nth(1).getByText('Status').waitFor();
    await keys.press('Escape');
    await keys.hasFocus(columns);
    const views = page.getByRole('button', { name: 'Views' });
    await keys.use(views);
    await keys.fill(page.getByRole('textbox', { name: 'Name of the view' }), 'Everything');
    await keys.press('Enter');
    await page.getByRole('button', { name: 'Everything', exact: true }).waitFor();
    await assertAccessible(page);
    await keys.press('Escape');
    await keys.hasFocus(views);

    await keys.toggle(page.getByRole('checkbox', { name: 'Select all' }));
    const actions = page.getByRole('button', { name: 'Actions on 2 devices' });
    const dialog = page.getByRole('dialog', { name: /^Run a script/ });
    const begin = async () => {
      await keys.use(actions);
      await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'Run a script' }));
      await keys.hasFocus(dialog.getByRole('combobox', { name: 'Script' }));
    };
    await begin();
    // The first closes the list of scripts.
    await keys.press('Escape', 'Escape');
    await keys.hasFocus(actions);
    await begin();
    await keys.to(dialog.getByRole('radio', { name: 'Saved script' }));
    await keys.press('ArrowRight');
    await dialog.getByText('Escape and then Tab leaves the field').waitFor();
    await keys.fill(dialog.getByRole('textbox', { name: 'Script' }), 'echo hello');
    // In a script, Tab indents, and the dialog stays open.
    await keys.press('Escape');
    await keys.use(dialog.getByRole('button', { name: 'Run on 2 devices' }));

    const frame = await agent.nextCommand();
    expect(frame).to.have.nested.property('payload.content', 'echo hello');
    const outcomes = page.getByRole('grid', { name: 'Outcome for each device' });
    await outcomes.getByRole('row').filter({ hasText: 'BACK-OFFICE' }).getByText('Queued').waitFor();
    await agent.send('command:progress', { id: frame.id, seq: 0, phase: 'running' });
    await outcomes.getByRole('row').filter({ hasText: 'FRONT-DESK' }).getByText('Running').waitFor();
    await assertAccessible(page);

    await keys.to(outcomes.getByRole('row').filter({ hasText: 'BACK-OFFICE' }));
    await keys.press('ArrowDown', 'Enter');
    const log = page.getByRole('log', { name: 'Output of the script' });
    await log.waitFor();
    // What is sent before the page has subscribed is shown at the end only, so it is sent until it is seen.
    for (let seq = 0; !(await log.textContent())?.includes('hel'); seq++) {
      await agent.rows(frame, [{ stream: 'stdout', text: 'hel' }], seq);
    }
    await agent.succeed(frame, { exitCode: 3, stdout: 'hello\n', stderr: 'oh\n', truncated: false });
    const badges = page.getByRole('dialog').getByText('Exit code 3');
    await badges.nth(2).waitFor();
    // As the outcome of the command, above its output, and in its history.
    expect(await badges.count()).to.equal(3);
    expect(await page.getByRole('dialog').getByText('Succeeded', { exact: true }).count()).to.equal(0);
    await page.getByText('hello', { exact: true }).waitFor();
    await assertAccessible(page);
  });

  it('come in through the waiting room: by keys alone', async () => {
    const { app } = dashboard;
    const list = await dashboard.open('/devices', { person: tenant.admin });
    await row(list, 'BACK-OFFICE').waitFor();
    const page = await dashboard.open('/enrollment', { person: tenant.admin });
    const keys = new Keyboard(page);
    const newKey = page.getByRole('button', { name: 'New key' }).first();
    await keys.use(newKey);
    const dialog = page.getByRole('dialog', { name: 'New enrollment key' });
    await keys.hasFocus(dialog.getByRole('textbox', { name: 'Name' }));
    await keys.type('Notebooks');
    await keys.fill(dialog.getByRole('textbox', { name: 'How many devices' }), '1');
    await keys.choose(dialog.getByRole('combobox', { name: 'Valid for' }), 'One day');
    await keys.use(dialog.getByRole('button', { name: 'Create key' }));
    await keys.hasFocus(newKey);
    // No release is registered, so there is no line that could install an agent.
    await page.getByText('there is no install line').waitFor();
    const enrollmentKey = await page.getByLabel('Enrollment key', { exact: true }).textContent();
    const keyRow = page.getByRole('row').filter({ hasText: 'Notebooks' });
    await keyRow.getByText('0 of 1').waitFor();
    await assertAccessible(page);

    const machine = { ...MACHINE, hostname: 'NEW-NOTEBOOK', enrollmentKey };
    const { status, body } = await app.call('POST', '/agents/enroll', { body: machine });
    expect(status).to.equal(201);
    const arrived = page.getByRole('log', { name: 'Devices that have arrived' });
    await arrived.getByText('Offline').waitFor();
    const notebook = await connectDevice(app, body.token);
    await arrived.getByText('Online').waitFor();
    await row(list, 'NEW-NOTEBOOK').getByText('Online').waitFor();
    await keyRow.getByText('1 of 1').waitFor();
    await keyRow.getByText('Used up').waitFor();
    await assertAccessible(page);
    await keys.use(arrived.getByRole('link', { name: 'NEW-NOTEBOOK' }));
    await page.getByRole('heading', { level: 1, name: 'NEW-NOTEBOOK' }).waitFor();
    await keys.hasFocus();
    notebook.close();
  });

  it('take the keys of a list at once, and are found again at the same place', async () => {
    const page = await dashboard.open('/devices', { person: tenant.admin });
    await row(page, 'BACK-OFFICE').waitFor();
    await page.keyboard.press('j');
    await page.locator('[data-place="0"]:focus').waitFor();
    await page.keyboard.press('j');
    const second = page.locator('[data-place="1"]');
    await page.locator('[data-place="1"]:focus').waitFor();
    const name = await second.getByRole('link').first().textContent();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: name ?? '' }).waitFor();
    await page.goBack();
    await row(page, 'BACK-OFFICE').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Devices' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: name ?? '' }).waitFor();
  });

  it('miss no state if a message of the hub is lost', async () => {
    const page = await dashboard.newPage();
    let loses = false;
    await page.routeWebSocket(/\/hub\//, (client) => {
      const server = client.connectToServer();
      server.onMessage((message) => {
        if (!loses || !String(message).includes('"devices:delta"')) return client.send(message);
        loses = false;
      });
    });
    await page.goto(`/devices${await dashboard.app.server.signInFragment(tenant.admin.id)}`);
    await row(page, 'FRONT-DESK').getByText('12 %').waitFor();
    loses = true;
    await agent.heartbeat({ metrics: { cpuPercent: 71, ramPercent: 34, diskPercent: 56 } });
    await eventually(
      () => loses,
      (stillTo) => !stillTo,
    );
    // What comes next has a number that does not follow.
    await buildDevice(dashboard.app, tenant.orgId, { hostname: 'CELLAR', osType: 'linux' });
    await row(page, 'CELLAR').waitFor();
    await row(page, 'FRONT-DESK').getByText('71 %').waitFor();
    await agent.heartbeat({ metrics: { cpuPercent: 12, ramPercent: 34, diskPercent: 56 } });
    await row(page, 'FRONT-DESK').getByText('12 %').waitFor();
  });

  it('show one device as it is now, and change it', async () => {
    const page = await dashboard.open(`/devices/${here.deviceId}`, { person: tenant.admin });
    await page.getByRole('heading', { level: 1, name: 'FRONT-DESK' }).waitFor();
    await page.getByText('34 %').waitFor();
    await page.getByRole('button', { name: 'More' }).click();
    await page.getByRole('menuitem', { name: 'Rename' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('Reception');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { level: 1, name: 'Reception' }).waitFor();

    await page.getByRole('button', { name: 'Maintenance' }).click();
    await page.getByRole('button', { name: 'Start maintenance' }).click();
    await page.getByRole('button', { name: 'End maintenance' }).click();
    await badge(page, 'Online').waitFor();

    // The hub sends what happens without anybody asking.
    await agent.heartbeat({ metrics: { cpuPercent: 97, ramPercent: 35, diskPercent: 56 } });
    await page.getByText('97 %, high').waitFor();
    await assertAccessible(page);
    agent.close();
    await page.getByText('This device is not connected').waitFor();
    await badge(page, 'Offline').waitFor();

    await page.keyboard.press('Control+k');
    await page.getByRole('button', { name: 'Reception' }).waitFor();

    await page.goto('/devices');
    const last = row(page, 'Reception').getByTitle('As it was when the device was last connected.');
    await last.getByText('97 %').waitFor();
    await assertAccessible(page);
  });

  it('show the figures of a device over time, and why there are none', async () => {
    await asOwner(
      dashboard.app.database.ownerUrl,
      `update devices set enrolled_at = now() - interval '1 day' where id = $1`,
      [here.deviceId],
    );
    const page = await dashboard.open(`/devices/${here.deviceId}?tab=metrics&range=hour`, {
      person: tenant.admin,
    });
    await page.getByText('Nothing was measured in this time').waitFor();
    await assertAccessible(page);
    const samples = Array.from({ length: 30 }, (_, minutes) => ({
      at: new Date(Date.now() - minutes * 60_000).toISOString(),
      cpuPercent: minutes === 20 ? 97 : 12,
      volumes: [{ volume: '/', usedBytes: 30 * 2 ** 30, totalBytes: 40 * 2 ** 30 }],
    })).filter((_, minutes) => minutes < 5 || minutes > 12);
    // Of the hour before, with which the last one is compared.
    samples.push({ at: new Date(Date.now() - 70 * 60_000).toISOString(), cpuPercent: 40, volumes: [] });
    const sent = agent.send('metrics:samples', { samples });
    // The message has to arrive before what waits is written.
    await agent.heartbeat();
    await dashboard.app.settle();
    expect(await sent).to.deep.include({ ok: true });
    await asOwner(
      dashboard.app.database.ownerUrl,
      `insert into alerts (id, org_id, device_id, kind, severity, title, message, raised_at)
      values (new_row_id(), $1, $2, 'disk_full', 'high', 'Disk is almost full', 'It is.', now() - interval '10 minutes')`,
      [tenant.orgId, here.deviceId],
    );
    await page.reload();
    const processor = page.getByRole('region', { name: 'Processor' });
    await processor.getByText('12 % last, 16 % on average, 97 % at most').waitFor();
    await page.getByRole('region', { name: 'Volumes' }).getByText('75 % last').waitFor();
    await page
      .getByRole('region', { name: 'Alerts in this time' })
      .getByText('Disk is almost full')
      .waitFor();
    await page
      .getByRole('region', { name: 'Without figures' })
      .getByText('It is not known why.')
      .first()
      .waitFor();
    await assertAccessible(page);
    await page.getByRole('combobox', { name: 'Compare with' }).click();
    await page.getByRole('option', { name: 'The time before' }).click();
    await processor.getByText('Processor, before').waitFor();
    expect(page.url()).to.match(/compare=before/);
    await assertAccessible(page);
    // A part is shown in its own address of the API, in more detail.
    // It is drawn anew in other colors, or of another width.
    const chart = await eventually(
      () => processor.locator('.u-over').boundingBox(),
      (box) => box !== null,
    );
    if (chart === null) throw new Error('The chart has no size.');
    await page.mouse.move(chart.x + chart.width * 0.9, chart.y + 20);
    await page.mouse.down();
    await page.mouse.move(chart.x + chart.width - 1, chart.y + 20, { steps: 5 });
    await page.mouse.up();
    await page.getByRole('button', { name: 'Back to the whole range' }).click();
    await page.getByText('30 days', { exact: true }).click();
    await processor.getByText('at most').waitFor();
    expect(page.url()).to.match(/range=month/);
  });

  it('are compared by how full their volumes are and how busy they are', async () => {
    const sent = agent.send('metrics:samples', {
      samples: [
        {
          at: new Date().toISOString(),
          cpuPercent: 64,
          volumes: [{ volume: '/', usedBytes: 38 * 2 ** 30, totalBytes: 40 * 2 ** 30 }],
        },
      ],
    });
    await agent.heartbeat();
    await dashboard.app.settle();
    expect(await sent).to.deep.include({ ok: true });
    const page = await dashboard.open('/capacity', { person: tenant.admin });
    await row(page, '95 %, 2 GiB free of 40 GiB').getByText('Does not grow clearly').waitFor();
    await assertAccessible(page);
    await page.getByRole('combobox', { name: 'What is compared' }).click();
    await page.getByRole('option', { name: 'Processor' }).click();
    await row(page, '64 %').waitFor();
    expect(page.url()).to.match(/metric=cpuPercent/);
    await row(page, '64 %').getByRole('link').click();
    await page.getByRole('tab', { name: 'Metrics', selected: true }).waitFor();
  });

  it('have tabs that are fit for assistive technology, and that a link opens', async () => {
    const page = await dashboard.open(`/devices/${here.deviceId}`, { person: tenant.admin });
    for (const name of TABS) {
      await page.getByRole('tab', { name, exact: true }).click();
      await page.getByRole('tab', { name, exact: true, selected: true }).waitFor();
      await page.getByText('Reading').first().waitFor({ state: 'detached' });
      await assertAccessible(page);
    }
    expect(page.url()).to.match(/tab=history/);
    await page.reload();
    await page.getByRole('tab', { name: 'History', exact: true, selected: true }).waitFor();
  });

  it('show the services of a device, those in one state, and that it has more than are kept', async () => {
    const page = await dashboard.open(`/devices/${here.deviceId}?tab=services`, { person: tenant.admin });
    await page.getByText('No services were reported').waitFor();
    await agent.send('services:report', {
      manager: 'systemd',
      isComplete: true,
      total: 1002,
      services: [
        { name: 'nginx', displayName: 'The web server', state: 'failed', startMode: 'automatic' },
        { name: 'cron', state: 'running' },
      ],
    });
    await page.reload();
    const failed = row(page, 'The web server');
    await failed.getByText('Failed').waitFor();
    await failed.getByText('Automatic').waitFor();
    await page.getByText('The device has 1,000 more services than an agent reports.').waitFor();
    await assertAccessible(page);
    await page.goto(`/devices/${here.deviceId}?tab=services&level=["running"]`);
    await row(page, 'cron').getByText('Running').waitFor();
    expect(await row(page, 'The web server').count()).to.equal(0);
  });

  it('have tabs through which the arrow keys lead without opening each of them', async () => {
    const page = await dashboard.open(`/devices/${here.deviceId}`, { person: tenant.admin });
    const keys = new Keyboard(page);
    await keys.to(page.getByRole('tab', { name: 'Summary', selected: true }));
    await keys.press('ArrowLeft');
    await keys.hasFocus(page.getByRole('tab', { name: 'Event log' }));
    await page.getByRole('tab', { name: 'Summary', selected: true }).waitFor();
    await keys.press('ArrowRight', 'ArrowRight', 'Enter');
    await page.getByRole('tab', { name: 'History', selected: true }).waitFor();
  });

  it('take a device out of service, and put it back from the list of such devices', async () => {
    const gone = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'OLD-PRINTER', osType: 'linux' });
    // Devices out of service are not read one by one.
    dashboard.allow(/404/);
    const page = await dashboard.open(`/devices/${gone.deviceId}`, { person: tenant.admin });
    await page.getByRole('button', { name: 'More' }).click();
    await page.getByRole('menuitem', { name: 'Decommission' }).click();
    await page.getByRole('button', { name: 'Decommission' }).click();
    await page.getByText('This device is out of service').waitFor();
    await badge(page, 'Decommissioned').waitFor();
    await page.goto('/devices/decommissioned');
    await row(page, 'OLD-PRINTER').getByRole('button', { name: 'Put back in service' }).click();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Put back', exact: true }).click();
    await page.getByText('No device is decommissioned').waitFor();
    await page.goto(`/devices/${gone.deviceId}`);
    await badge(page, 'Offline').waitFor();
  });

  it('say to who may only look why nothing can be changed', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await dashboard.open(`/devices/${here.deviceId}`, { person: viewer });
    const button = page.getByRole('button', { name: 'Maintenance' });
    await button.waitFor();
    expect(await button.getAttribute('aria-description')).to.include('devices:write');
    await page.getByRole('button', { name: 'More' }).click();
    const move = page.getByRole('menuitem', { name: 'Move' });
    expect(await move.getAttribute('aria-disabled')).to.equal('true');
    expect(await move.textContent()).to.include('devices:write');
  });

  it('decide about machines that claim to be another one: from the alert, with a second factor', async () => {
    const { app } = dashboard;
    const shop = await buildTenant(app);
    const agents: FakeDevice[] = [];
    // With one machine id. While a machine is connected, the next one is not taken for it.
    const arrive = async (hostname: string, serialNumber: string) => {
      const machine = { machineId: 'm-till', hostname, hardware: { serialNumber } };
      const { deviceId, token } = await buildDevice(app, shop.orgId, machine);
      const connected = await connectDevice(app, token);
      agents.push(connected);
      await connected.heartbeat();
      return deviceId;
    };
    const till = await arrive('TILL-1', 'SER-A');
    const copy = await arrive('TILL-2', 'SER-B');
    const fresh = await arrive('TILL-3', 'SER-C');
    await arrive('TILL-4', 'SER-D');
    const notice = (page: Page) => page.getByRole('alert', { name: 'This device waits for approval' });
    const decide = async (page: Page, action: string, confirm: string) => {
      await notice(page).getByRole('button', { name: action }).click();
      await page.getByRole('dialog').getByRole('button', { name: confirm, exact: true }).click();
    };

    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: shop.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const onlooker = await dashboard.open(`/devices/${copy}`, { person: viewer });
    for (const name of ['Approve as its own device', 'Replace TILL-1', 'Remove']) {
      // Each is read on the page as it stands.
      // oxlint-disable-next-line no-await-in-loop
      const reason = await notice(onlooker).getByRole('button', { name }).getAttribute('aria-description');
      expect(reason).to.match(/devices:(write|delete)/);
    }

    const { code } = await enableSecondFactor(app, shop.admin);
    const page = await dashboard.open('/devices', { person: shop.admin });
    await page.getByRole('button', { name: '3 devices wait for approval' }).click();
    await row(page, 'TILL-4').waitFor();
    expect(await row(page, 'TILL-1').count()).to.equal(0);
    await row(page, 'TILL-4').getByRole('link').click();
    // A device out of service is not read any more, and an action without its second factor is refused.
    dashboard.allow(/403|404/);
    await decide(page, 'Remove', 'Remove');
    await page.getByText('This device is out of service').waitFor();
    await page.goto(`/devices/${fresh}`);
    await decide(page, 'Approve as its own device', 'Approve');
    await notice(page).waitFor({ state: 'detached' });

    await page.getByRole('link', { name: 'Alerts', exact: true }).click();
    await page.getByRole('button', { name: 'TILL-2 claims the identity of TILL-1' }).click();
    await page.getByRole('dialog', { name: 'Alert' }).getByRole('link', { name: 'TILL-2' }).click();
    const machines = notice(page).getByRole('table', { name: 'The two machines' });
    await machines.getByRole('row', { name: 'Serial number SER-B SER-A' }).waitFor();
    await assertAccessible(page);
    await decide(page, 'Replace TILL-1', 'Replace');
    const proof = page.getByRole('dialog', { name: 'Confirm that it is you' });
    await proof.getByRole('textbox', { name: 'Code' }).fill(code());
    await proof.getByRole('button', { name: 'Confirm' }).click();
    await page.waitForURL(`**/devices/${till}`);
    await page.getByRole('heading', { level: 1, name: 'TILL-2' }).waitFor();
    await page.getByText('SER-B').waitFor();
    expect(await notice(page).count()).to.equal(0);
    for (const each of agents) each.close();
  });

  it('read the event logs of all chosen devices, and back up those that can be', async () => {
    const { app } = dashboard;
    const ground = await buildBackupTenant(app);
    await ground.createConfig({ provider: 'local', details: { path: '/mnt/backup' } });
    const { deviceId } = await buildDevice(app, ground.orgId, { hostname: 'ABLE', osType: 'linux' });
    const old = await buildDevice(app, ground.orgId, { hostname: 'OUTDATED', osType: 'linux' });
    const able = new Map([
      [deviceId, [...COMMAND_TYPES, SECRETS_CAPABILITY]],
      [old.deviceId, ['agent.reboot']],
    ]);
    for (const [id, capabilities] of able) {
      // Of two devices.
      // oxlint-disable-next-line no-await-in-loop
      await asOwner(app.database.ownerUrl, 'update devices set capabilities = $1 where id = $2', [
        capabilities,
        id,
      ]);
    }
    const bare = await buildOrganization(app, ground.partnerId);
    await buildDevice(app, bare, { hostname: 'BARE-1', osType: 'linux' });
    await buildDevice(app, bare, { hostname: 'BARE-2', osType: 'linux' });
    const openMenu = async (page: Page) => {
      await row(page, 'BARE-2').waitFor();
      await page.getByRole('checkbox', { name: 'Select all' }).check();
      await page.getByRole('button', { name: 'Actions on 4 devices' }).click();
    };

    const page = await dashboard.open('/devices', { person: ground.admin });
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/backup/jobs/bulk')) asked.push(request.method());
    });
    await openMenu(page);
    await page.getByRole('menuitem', { name: 'Back up now' }).click();
    const dialog = page.getByRole('dialog', { name: 'Back up now · 4 devices' });
    await dialog.getByRole('button', { name: 'Back up now' }).dblclick();
    const reasons = page.getByRole('list', { name: 'Why devices were refused' });
    await reasons
      .getByText(/^2 refused: The organization has no backup configuration\. BARE-[12], BARE-[12]$/)
      .waitFor();
    await reasons.getByText(/^1 refused: The agent on this device cannot .* OUTDATED$/).waitFor();
    await page.getByText('3 refused, 1 started').waitFor();
    expect(asked).to.deep.equal(['POST']);
    await assertAccessible(page);
    const outcomes = page.getByRole('grid', { name: 'Outcome for each device' });
    await outcomes.getByRole('row').filter({ hasText: 'ABLE' }).getByText('Started').waitFor();
    await outcomes.getByRole('link', { name: 'ABLE' }).click();
    await page.waitForURL(`**/devices/${deviceId}?tab=backup`);
    const jobs = await ground.send('GET', '/backup/jobs');
    expect(jobs.body.data.map((job: { deviceId: string }) => job.deviceId)).to.deep.equal([deviceId]);

    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: ground.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const other = await dashboard.open('/devices', { person: viewer });
    await openMenu(other);
    const logs = other.getByRole('menuitem', { name: 'Read event logs' });
    await logs.waitFor();
    expect(await other.getByRole('menuitem', { name: 'Back up now' }).count()).to.equal(0);
    await logs.click();
    await other.getByRole('heading', { level: 1, name: 'Event logs' }).waitFor();
    await other.getByText(/^4 devices/).waitFor();
    expect(decodeURIComponent(other.url())).to.include(deviceId);
  });

  it('say that more devices than a page of event logs takes are too many', async () => {
    const { app } = dashboard;
    const crowd = await buildTenant(app);
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, 'crowd-' || n, 'linux', '1', 'x64', '1.0.0', now()
      from generate_series(1, 501) n`,
      [crowd.orgId, crowd.siteId],
    );
    const page = await dashboard.open('/devices', { person: crowd.admin });
    await page.getByText('501 of 501 shown').waitFor();
    await page.getByRole('checkbox', { name: 'Select all' }).check();
    await page.getByRole('button', { name: 'Actions on 501 devices' }).click();
    const item = (name: string) => page.getByRole('menuitem', { name });
    await item('Read event logs').getByText('At most 200 devices at once.').waitFor();
    await item('Back up now').getByText('At most 500 devices at once.').waitFor();
  });

  it('say that a device of another person does not exist', async () => {
    const other = await buildTenant(dashboard.app);
    dashboard.allow(/404/);
    const page = await dashboard.open(`/devices/${here.deviceId}`, { person: other.admin });
    await page.getByText('There is no such device').waitFor();
  });
});
