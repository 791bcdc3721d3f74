import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { Keyboard } from '../../support/keyboard.ts';

const printed = (stdout: string, exitCode = 0) => ({ exitCode, stdout, stderr: '', truncated: false });

describe('the pages of script runs and schedules', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let agents: FakeDevice[];
  let scriptId: string;

  before(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    agents = [];
    for (const hostname of ['TILL-1', 'TILL-2', 'TILL-3']) {
      const { token } = await buildDevice(app, tenant.orgId, { hostname, osType: 'linux' });
      agents.push(await connectDevice(app, token));
    }
    const made = await app.call('POST', '/scripts', {
      token: tenant.admin.token,
      body: { name: 'Check disks', language: 'bash', content: 'df -h', orgId: tenant.orgId },
    });
    scriptId = made.body.id;
  });
  after(() => {
    for (const agent of agents) agent.close();
  });

  it('follow a run to its end, group equal outputs, and run it again on what failed: by keys alone', async () => {
    const page = await dashboard.open('/scripts/runs', { person: tenant.admin });
    let keys = new Keyboard(page);
    await page.getByText('Nothing was run yet').waitFor();
    await assertAccessible(page);
    const started = await dashboard.app.call('POST', `/scripts/${scriptId}/runs`, {
      token: tenant.admin.token,
      body: { target: { all: true } },
    });
    expect(started.status).to.equal(202);
    const frames = await Promise.all(agents.map((agent) => agent.nextCommand()));
    await page.reload();
    await keys.use(page.getByRole('link', { name: 'Check disks' }));
    await page.getByRole('heading', { level: 1, name: 'Check disks' }).waitFor();
    const address = page.url();
    await page.getByText(/3 (running|waiting)/).waitFor();
    await assertAccessible(page);
    await agents[0]!.succeed(frames[0]!, printed('all is well\n'));
    await agents[1]!.succeed(frames[1]!, printed('all is well\n'));
    await agents[2]!.succeed(frames[2]!, printed('no space left\n', 1));
    await page.getByText('2 completed, 1 failed').waitFor();
    await page
      .getByRole('row', { name: /TILL-3/ })
      .getByText('Failed')
      .waitFor();
    await assertAccessible(page);

    await keys.to(page.getByRole('radio', { name: 'By device' }));
    await keys.press('ArrowRight');
    const groups = page.getByRole('table', { name: 'Devices by equal output' });
    await groups
      .getByRole('row', { name: /all is well/ })
      .getByText('TILL-1, TILL-2')
      .waitFor();
    await assertAccessible(page);
    await keys.use(groups.getByRole('button', { name: 'no space left' }));
    await page.getByRole('log', { name: 'Output of 1 device' }).getByText('no space left').waitFor();
    await assertAccessible(page);
    await keys.press('Escape');
    await keys.use(groups.getByRole('link', { name: '2 devices' }));
    const devices = page.getByRole('table', { name: 'What became of it on each device' });
    await devices.getByRole('row', { name: /TILL-1/ }).waitFor();
    expect(await devices.getByRole('row', { name: /TILL-3/ }).count()).to.equal(0);

    // The address can be opened again later.
    await page.goto(address);
    keys = new Keyboard(page);
    await keys.use(page.getByRole('button', { name: 'Run on failed' }));
    const dialog = page.getByRole('dialog', { name: 'Run Check disks again' });
    await dialog.waitFor();
    await assertAccessible(page);
    await keys.use(dialog.getByRole('button', { name: 'Run on 1 device' }));
    const again = await agents[2]!.nextCommand();
    await page.getByRole('link', { name: 'An earlier run' }).waitFor();
    expect(page.url()).not.to.equal(address);
    await keys.use(page.getByRole('button', { name: 'Cancel the run' }));
    await keys.use(page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }));
    // A result that came before the request to cancel would have ended the run, which can no longer be cancelled.
    await eventually(
      () => agents[2]!.cancelled,
      (cancelled) => cancelled.includes(again.id),
    );
    await agents[2]!.finish(again, { status: 'cancelled' });
    await page.getByText('1 cancelled').waitFor();
    await assertAccessible(page);
  });

  it('schedule a script, and show its next three times and its runs', async () => {
    const page = await dashboard.open(`/scripts/${scriptId}`, { person: tenant.admin });
    await page.getByRole('link', { name: 'Schedules' }).last().click();
    await page.getByText('This script runs by no schedule').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'New schedule' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New schedule' });
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Nightly check');
    const choose = async (field: string, option: string) => {
      await dialog.getByRole('combobox', { name: field, exact: true }).click();
      await dialog
        .getByRole('combobox', { name: field, exact: true })
        .fill(option)
        .catch(() => undefined);
      await page.getByRole('option', { name: option, exact: true }).click();
    };
    await dialog.getByRole('combobox', { name: 'Organization' }).click();
    await page.getByRole('option', { name: /^Organization \d+$/ }).click();
    await dialog.getByRole('combobox', { name: 'Script', exact: true }).click();
    await page.getByRole('option', { name: 'Check disks' }).click();
    await choose('Time zone', 'UTC');
    const times = dialog.getByRole('table', { name: 'The next times' }).getByRole('row');
    await times.nth(3).waitFor();
    expect(await times.count()).to.equal(4);
    await assertAccessible(page);
    await dialog.getByRole('combobox', { name: 'Runs', exact: true }).click();
    await page.getByRole('option', { name: 'By a cron expression' }).click();
    dashboard.allow(/status of 400/);
    await dialog.getByRole('textbox', { name: 'Cron expression' }).fill('* * * * * *');
    await dialog
      .getByText(/five fields/)
      .first()
      .waitFor();
    await dialog.getByRole('textbox', { name: 'Cron expression' }).fill('0 3 * * 1-5');
    await dialog.getByRole('button', { name: 'Create schedule' }).click();
    const row = page.getByRole('row', { name: /Nightly check/ });
    await row.getByText('Scheduled').waitFor();
    await row.getByText('By 0 3 * * 1-5, UTC').waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Change' }).click();
    const change = page.getByRole('dialog', { name: 'Change Nightly check' });
    await change.getByRole('switch', { name: 'Enabled' }).click();
    await change.getByRole('button', { name: 'Save' }).click();
    await row.getByText('Disabled').waitFor();
    await row.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('This script runs by no schedule').waitFor();
    await page.goto('/scripts/schedules');
    await page.getByText('No script runs by itself').waitFor();
  });

  it('keep secrets of a schedule, say which are set, and give them to no other script by the way', async () => {
    const { app } = dashboard;
    const as = (token: string, method: string, path: string, body?: object) =>
      app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
    const { body: made } = await as(tenant.admin.token, 'POST', '/scripts', {
      name: 'Copy the database',
      language: 'bash',
      content: 'mysqldump',
      parameters: [
        { name: 'PW', type: 'secret', required: true, description: 'Of the database.' },
        { name: 'HOST' },
      ],
    });
    const page = await dashboard.open(`/scripts/schedules?script=${made.id}&dialog=new`, {
      person: tenant.admin,
    });
    const dialog = page.getByRole('dialog', { name: 'New schedule' });
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Nightly copy');
    await dialog.getByLabel(/^PW/).fill('hush-hush');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Create schedule' }).click();
    const row = page.getByRole('row', { name: /Nightly copy/ });
    await row.getByText('with secrets: PW').waitFor();
    await row.getByRole('button', { name: 'Change' }).click();
    const change = page.getByRole('dialog', { name: 'Change Nightly copy' });
    await change.getByText('Of the database. Set by you. Leave it empty to keep it.').waitFor();
    expect(await change.getByLabel(/^PW/).inputValue()).to.equal('');
    await assertAccessible(page);
    await change.getByRole('textbox', { name: 'HOST' }).fill('db.example');
    await change.getByRole('button', { name: 'Save' }).click();
    await change.waitFor({ state: 'hidden' });

    // Another person cannot send the secret elsewhere, and may change the rest.
    const colleague = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    const theirs = await dashboard.open(`/scripts/schedules?script=${made.id}`, { person: colleague });
    const theirRow = theirs.getByRole('row', { name: /Nightly copy/ });
    await theirRow.getByRole('button', { name: 'Change' }).click();
    const theirChange = theirs.getByRole('dialog', { name: 'Change Nightly copy' });
    await theirChange.getByText(/Set by another person/).waitFor();
    await theirChange.getByRole('textbox', { name: 'HOST' }).fill('evil.example');
    dashboard.allow(/status of 400/);
    await theirChange.getByRole('button', { name: 'Save' }).click();
    await theirChange
      .getByText(/was set by another person/)
      .first()
      .waitFor();
    await assertAccessible(theirs);
    await theirChange.getByRole('textbox', { name: 'HOST' }).fill('db.example');
    await theirChange.getByRole('textbox', { name: 'Name', exact: true }).fill('Nightly copy 2');
    await theirChange.getByRole('button', { name: 'Save' }).click();
    await theirs.getByRole('row', { name: /Nightly copy 2/ }).waitFor();

    // A script that was changed waits until the person who knows the secret has confirmed it.
    await as(colleague.token, 'PATCH', `/scripts/${made.id}`, { content: 'echo "$SECRET_PW"' });
    await page.reload();
    await row.getByText('Paused').waitFor();
    await row.getByRole('button', { name: 'Change' }).click();
    const confirm = page.getByRole('dialog', { name: 'Change Nightly copy 2' });
    await confirm.getByRole('checkbox', { name: 'The script may have the secrets as it is now' }).check();
    await assertAccessible(page);
    await confirm.getByRole('button', { name: 'Save' }).click();
    await row.getByText('Scheduled').waitFor();
  });
});
