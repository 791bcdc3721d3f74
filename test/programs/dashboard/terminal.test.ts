import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { agentCommand, type AgentProgram, startAgent } from '../../support/agent-program.ts';
import { enableSecondFactor, forgetLastCode } from '../../support/auth/second-factor-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';

/** A real agent, whose shell a person uses in the browser. */
describe('the terminal of a device in the dashboard', function () {
  this.timeout(180_000);
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let factor: Awaited<ReturnType<typeof enableSecondFactor>>;
  let dataDir: string;
  let agent: AgentProgram;
  let deviceId: string;

  before(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    factor = await enableSecondFactor(app, tenant.admin);
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-terminal-'));
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const enrolled = await agentCommand([
      'enroll',
      '--server',
      app.url,
      '--key',
      key,
      '--data-dir',
      dataDir,
      '--hostname',
      'FRONT-DESK',
    ]);
    expect(enrolled.code, enrolled.output).to.equal(0);
    agent = startAgent(['run', '--data-dir', dataDir]);
    const { body } = await eventually(
      () => app.call('GET', '/devices', { token: tenant.admin.token }),
      (answer) => answer.body.data?.[0]?.presence.state === 'connected',
      60_000,
    );
    deviceId = body.data[0].id;
  });
  after(async () => {
    agent?.child.kill('SIGTERM');
    await agent?.ended;
    await rm(dataDir, { recursive: true, force: true });
  });

  const screen = (page: Page) => page.getByRole('region', { name: 'Terminal of FRONT-DESK' });
  /** As a screen reader gets it: the emulator draws elsewhere. */
  const shows = (page: Page, text: string) =>
    eventually(
      () => screen(page).locator('.xterm-rows').innerText(),
      (rows) => rows.replaceAll(' ', ' ').includes(text),
      30_000,
    );

  async function confirm(page: Page) {
    await forgetLastCode(dashboard.app, tenant.admin);
    const dialog = page.getByRole('dialog', { name: 'Confirm that it is you' });
    await dialog.getByLabel('Code').fill(factor.code());
    await dialog.getByRole('button', { name: 'Confirm' }).click();
    await dialog.waitFor({ state: 'hidden' });
  }

  it('is allowed for the organization, opened, used, ended and replayed', async () => {
    dashboard.allow(/403/);
    const page = await dashboard.open(`/organizations/${tenant.orgId}`, { person: tenant.admin });
    const allow = page.getByRole('switch', { name: 'Allow terminals of its devices' });
    await allow.waitFor();
    expect(await allow.isChecked()).to.equal(false);
    await allow.click();
    await confirm(page);
    await eventually(
      () => allow.isChecked(),
      (isOn) => isOn,
    );
    await assertAccessible(page);

    await page.goto(`/devices/${deviceId}?tab=terminal`);
    await page.getByRole('button', { name: 'Open a terminal' }).click();
    await page.getByText(`Recorded. /bin/bash, seen by ${tenant.admin.email}`, { exact: false }).waitFor();
    await screen(page).click();
    await page.keyboard.type('echo "sum $((40+2))"\n');
    await shows(page, 'sum 42');
    // Titles, links and the clipboard are out of reach.
    const title = await page.title();
    await page.keyboard.type(
      `printf '\\033]0;owned\\007\\033]52;c;b3duZWQ=\\007\\033]8;;http://x.test\\007link\\033]8;;\\007%s\\n' safe\n`,
    );
    await shows(page, 'linksafe');
    expect(await page.title()).to.equal(title);
    expect(await screen(page).locator('a').count()).to.equal(0);
    await assertAccessible(page);

    await page.setViewportSize({ width: 700, height: 900 });
    await page.keyboard.type('stty size\n');
    const narrow = await eventually(
      () => screen(page).locator('.xterm-rows').innerText(),
      (rows) => /\b\d+ \d+\b/.test(rows.split('stty size').at(-1) ?? ''),
      30_000,
    );
    expect(Number(/\b\d+ (\d+)\b/.exec(narrow.split('stty size').at(-1) ?? '')?.[1])).to.be.lessThan(100);

    await page.getByRole('button', { name: 'End the terminal' }).click();
    await page.getByText('You have ended the terminal.').waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Replay' }).click();
    const replay = page.getByRole('region', { name: /^What the terminal of/ });
    await eventually(
      () => replay.locator('.xterm-rows').innerText(),
      (rows) => rows.includes('sum'),
      30_000,
    );
    await assertAccessible(page);
  });

  it('is continued when the connection was lost for a moment', async () => {
    const page = await dashboard.open('/', { person: tenant.admin, isProven: true });
    await page.goto(`/devices/${deviceId}?tab=terminal`);
    await page.getByRole('button', { name: 'Open a terminal' }).click();
    await page.getByText('Recorded.', { exact: false }).waitFor();
    await screen(page).click();
    await page.keyboard.type('word=kept\n');
    await shows(page, 'word=kept');
    await page.context().setOffline(true);
    dashboard.allow(/ERR_INTERNET_DISCONNECTED|WebSocket/);
    dashboard.app.server.hub.disconnect(deviceId);
    await page.getByText('The connection is lost.', { exact: false }).waitFor();
    await page.context().setOffline(false);
    await page.getByText('Recorded.', { exact: false }).waitFor({ timeout: 60_000 });
    await page.keyboard.type('echo "it was $word"\n');
    await shows(page, 'it was kept');
  });
});
