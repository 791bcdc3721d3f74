import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';

describe('saved views of the dashboard', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  beforeEach(async () => {
    tenant = await buildTenant(dashboard.app);
  });

  it('are kept on the server, shared with colleagues, and replaced under their name', async () => {
    const page = await dashboard.open('/alerts?q=disk', { person: tenant.technician });
    const views = page.getByRole('button', { name: 'Views' });
    await views.click();
    await page.getByText('A view keeps what is chosen here under a name.').waitFor();
    await page.getByRole('textbox', { name: 'Name of the view' }).fill('Full disks');
    await page.getByRole('checkbox', { name: 'Share with my colleagues' }).check();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Shared with your colleagues').waitFor();
    await assertAccessible(page);

    const colleague = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const theirs = await dashboard.open('/alerts', { person: colleague });
    await theirs.getByRole('button', { name: 'Views' }).click();
    await theirs.getByText(/^Shared by Person/).waitFor();
    expect(await theirs.getByRole('button', { name: /^Delete the view/ }).count()).to.equal(0);
    await theirs.getByRole('button', { name: /^Full disks/ }).click();
    await theirs.waitForURL(/q=disk/);

    await page.getByRole('textbox', { name: 'Name of the view' }).fill('full DISKS');
    await page.getByRole('button', { name: 'Replace' }).click();
    await page.getByText('Shared with your colleagues').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete the view Full disks' }).click();
    await page.getByText('A view keeps what is chosen here under a name.').waitFor();
  });

  it('bring along what an earlier release has kept in the browser', async () => {
    const page = await dashboard.open('/audit', { person: tenant.admin });
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    const key = JSON.stringify(`muster-alerts-views-${tenant.admin.id}`);
    const kept = JSON.stringify(JSON.stringify([{ name: 'From the browser', search: { q: 'disk' } }]));
    await page.evaluate(`localStorage.setItem(${key}, ${kept})`);
    const stored = page.waitForResponse(
      (response) => response.url().endsWith('/saved-views') && response.status() === 201,
    );
    await page.goto('/alerts');
    await stored;
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('button', { name: 'From the browser', exact: true }).click();
    await page.waitForURL(/q=disk/);
    expect(await page.evaluate(`localStorage.getItem(${key})`)).to.equal('[]');
  });

  it('of event logs are those of a system, on the pages of all of its devices', async () => {
    const made: Record<string, string> = {};
    for (const [hostname, osType] of [
      ['TILL-1', 'windows'],
      ['TILL-2', 'windows'],
      ['WEB-1', 'linux'],
    ] as const) {
      made[hostname] = (await buildDevice(dashboard.app, tenant.orgId, { hostname, osType })).deviceId;
    }
    const logsOf = (hostname: string, search: string) =>
      `/devices/${made[hostname]}/logs?stored=true${search}`;
    const page = await dashboard.open(logsOf('TILL-1', '&text=disk'), { person: tenant.technician });
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('textbox', { name: 'Name of the view' }).fill('Disk errors');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Disk errors', exact: true }).waitFor();

    await page.goto(logsOf('TILL-2', ''));
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('button', { name: 'Disk errors', exact: true }).click();
    await page.waitForURL(/text=disk/);
    await page.goto(logsOf('WEB-1', ''));
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByText('A view keeps the conditions under a name, for this system.').waitFor();
  });
});
