import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice, graceOver } from '../../../support/fake-device.ts';
import { Keyboard } from '../../../support/keyboard.ts';

const STARTED_AT = '2026-11-20T10:00:00.000Z';
const process = (pid: number, name: string, cpuPercent: number, more = {}) => ({
  pid,
  parentPid: 1,
  name,
  commandLine: `/usr/bin/${name} --serve`,
  user: 'www-data',
  cpuPercent,
  memoryBytes: 1_048_576 * pid,
  startedAt: STARTED_AT,
  state: 'sleeping',
  ...more,
});
const PROCESSES = [
  process(40, 'postgres', 31.5),
  process(50, 'python3', 2),
  process(1, 'systemd', 0, { isProtected: true }),
];
const NGINX = { name: 'nginx', displayName: 'The web server', state: 'running', startMode: 'automatic' };
const CRON = { name: 'cron', displayName: 'Regular tasks', state: 'failed', startMode: 'automatic' };

describe('the live processes and services of a device, in the dashboard', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
  });
  beforeEach(async () => {
    device = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'FRONT-DESK', osType: 'linux' });
    agent = await connectDevice(dashboard.app, device.token);
    await agent.heartbeat();
  });
  afterEach(() => agent.close());

  const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
  const open = (tab: string, person = tenant.admin) =>
    dashboard.open(`/devices/${device.deviceId}?tab=${tab}`, { person });
  const answerProcesses = async (processes: readonly object[] = PROCESSES, total = processes.length) => {
    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('processes.list');
    await agent.rows(frame, [...processes]);
    await agent.succeed(frame, { total });
  };
  const answerServices = async (services: readonly object[]) => {
    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('services.list');
    await agent.rows(frame, [...services]);
    await agent.succeed(frame, { manager: 'systemd', total: services.length });
  };
  const namesOf = (page: Page) =>
    page.getByRole('grid', { name: 'Processes' }).locator('[data-label="Name"] button').allTextContents();

  it('lists, sorts, filters and ends processes: by keys alone', async () => {
    const page = await open('processes');
    await page.getByText('Asking the device').waitFor();
    await answerProcesses(PROCESSES, 4200);
    await row(page, 'postgres').getByText('31.5 %').waitFor();
    await page.getByText('3 of 4,200 processes, of which the 3 that use the most are listed').waitFor();
    expect(await namesOf(page)).to.deep.equal(['postgres', 'python3', 'systemd']);
    await assertAccessible(page);

    const keys = new Keyboard(page);
    await keys.use(page.getByRole('button', { name: 'Memory' }));
    await keys.use(page.getByRole('button', { name: 'Memory' }));
    await page
      .getByRole('columnheader', { name: 'Memory' })
      .and(page.locator('[aria-sort=descending]'))
      .waitFor();
    expect(await namesOf(page)).to.deep.equal(['python3', 'postgres', 'systemd']);

    await keys.fill(page.getByRole('textbox', { name: 'Filter processes' }), 'PYTH');
    await row(page, 'postgres').waitFor({ state: 'detached' });
    await keys.to(row(page, 'python3'));
    await keys.press('Enter');
    const drawer = page.getByRole('dialog', { name: 'python3' });
    await drawer.getByText('/usr/bin/python3 --serve').waitFor();
    await assertAccessible(page);
    await keys.use(drawer.getByRole('button', { name: 'End process' }));
    const question = page.getByRole('dialog', { name: 'End python3 (50)' });
    await question.getByText('cannot be undone').waitFor();
    await assertAccessible(page);
    await keys.use(question.getByRole('button', { name: 'End process' }));
    const frame = await agent.nextCommand();
    expect([frame.type, frame.payload]).to.deep.equal(['processes.end', { pid: 50, startedAt: STARTED_AT }]);
    await agent.succeed(frame, { outcome: 'killed', name: 'python3', graceSeconds: 5 });
    await page.getByText('python3 (50) was ended by force').waitFor();
    // What was read before stays until the device has answered again.
    expect(await row(page, 'python3').count()).to.equal(1);
    await answerProcesses(PROCESSES.filter(({ pid }) => pid !== 50));
    await page.getByText('No process matches').waitFor();
    await assertAccessible(page);
  });

  it('says in the words of the device why a process was not ended, and what cannot be', async () => {
    const page = await open('processes');
    await answerProcesses();
    await row(page, 'systemd').getByRole('button', { name: 'systemd' }).click();
    const refused = page
      .getByRole('dialog', { name: 'systemd' })
      .getByRole('button', { name: 'End process' });
    expect(await refused.getAttribute('aria-description')).to.include('the system needs');
    await page.keyboard.press('Escape');
    await row(page, 'postgres').getByRole('button', { name: 'postgres' }).click();
    await page.getByRole('dialog', { name: 'postgres' }).getByRole('button', { name: 'End process' }).click();
    const question = page.getByRole('dialog', { name: 'End postgres (40)' });
    dashboard.allow(/409|Conflict/);
    await question.getByRole('button', { name: 'End process' }).click();
    await agent.fail(
      await agent.nextCommand(),
      'PROCESS_REPLACED',
      'The process 40 is another one now: vim.',
    );
    await question.getByText('The process 40 is another one now: vim.').waitFor();
    await assertAccessible(page);
  });

  it('shows what was read when the device has gone, and asks a device that is away nothing', async () => {
    const page = await open('processes');
    await answerProcesses();
    await row(page, 'postgres').waitFor();
    agent.close();
    await graceOver(dashboard.app, device.deviceId);
    await page.getByText('The device is not connected. It can be asked when it is back.').waitFor();
    expect(await row(page, 'postgres').count()).to.equal(1);
    await page.reload();
    await page.getByText('The processes cannot be read now').waitFor();
    await assertAccessible(page);
  });

  it('reads services on demand, and starts one after a question; a device that is away shows the stored ones', async () => {
    await agent.send('services:report', { manager: 'systemd', isComplete: true, services: [NGINX] });
    await dashboard.app.settle();
    const page = await open('services');
    await row(page, 'The web server').getByText('Running').waitFor();
    expect(agent.commands).to.deep.equal([]);
    const keys = new Keyboard(page);
    await keys.use(page.getByRole('button', { name: 'Read from the device now' }));
    await answerServices([CRON, NGINX]);
    await row(page, 'Regular tasks').getByText('Failed').waitFor();
    await page.getByText('Read from the device').waitFor();
    await assertAccessible(page);

    await keys.use(page.getByRole('button', { name: 'Actions for Regular tasks' }));
    await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'Restart' }));
    const question = page.getByRole('dialog', { name: 'Restart Regular tasks' });
    await question.getByText('interrupted for a moment').waitFor();
    await assertAccessible(page);
    await keys.use(question.getByRole('button', { name: 'Restart' }));
    const frame = await agent.nextCommand();
    expect([frame.type, frame.payload]).to.deep.equal([
      'services.control',
      { name: 'cron', action: 'restart' },
    ]);
    await agent.succeed(frame, { before: 'failed', after: 'running' });
    await answerServices([{ ...CRON, state: 'running' }, NGINX]);
    await page.getByText('cron: restart is done').waitFor();
    await row(page, 'Regular tasks').getByText('Running').waitFor();

    agent.close();
    await graceOver(dashboard.app, device.deviceId);
    await page.getByText('The device is not connected.').waitFor();
    await row(page, 'The web server').waitFor();
    expect(await row(page, 'Regular tasks').count()).to.equal(0);
    await assertAccessible(page);
  });

  it('lets a viewer look and not act', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await open('processes', viewer);
    await answerProcesses();
    await row(page, 'postgres').getByRole('button', { name: 'postgres' }).click();
    const end = page.getByRole('dialog', { name: 'postgres' }).getByRole('button', { name: 'End process' });
    expect(await end.getAttribute('aria-disabled')).to.equal('true');
  });
});
