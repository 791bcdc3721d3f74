import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { agentCommand, startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { codeOf } from '../../support/auth/second-factor-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';

const [EMAIL, PASSWORD] = ['root@example.com', 'First-Admin-2026!'];

/** An operator with an empty server, the dashboard and nothing else. */
describe('an empty server', () => {
  const dashboard = useDashboard({ env: { SVC_ADMIN_EMAIL: EMAIL, SVC_ADMIN_PASSWORD: PASSWORD } });
  let dataDir: string;
  let agent: AgentProgram | undefined;

  before(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-first-run-'));
  });
  after(async () => {
    agent?.child.kill('SIGKILL');
    await agent?.ended;
    await rm(dataDir, { recursive: true, force: true });
  });

  const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });
  const goOn = (page: Page, step: string) =>
    page.getByRole('note', { name: 'The next step' }).getByRole('link', { name: step }).click();

  it('is taken into use, from the first administrator to the first device, along its next steps', async () => {
    // A second factor is asked for on the way, and there is none yet.
    dashboard.allow(/status of 403/);
    const page = await dashboard.open('/');
    await page.getByLabel('E-mail address').fill(EMAIL);
    await page.locator('input[type=password]').fill(PASSWORD);
    await page.keyboard.press('Enter');
    const steps = page.getByRole('region', { name: 'Getting started' });
    await steps.getByRole('link', { name: 'Create a provider' }).click();

    await heading(page, 'Providers').waitFor();
    await page.getByRole('note', { name: 'The next step' }).getByText('Press “New provider”.').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'New provider' }).first().click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name', exact: true }).fill('Calm IT');
    await page.getByRole('button', { name: 'Create provider' }).click();
    await goOn(page, 'Create an organization');

    await page.getByRole('button', { name: 'New organization' }).first().click();
    const organization = page.getByRole('dialog');
    await organization.getByRole('combobox', { name: 'Provider' }).waitFor();
    await organization.getByRole('textbox', { name: 'Name', exact: true }).fill('Bright Smile');
    await page.getByRole('button', { name: 'Create organization' }).click();
    await heading(page, 'Bright Smile').waitFor();
    await steps.getByText('Create a site of Bright Smile').waitFor();
    await page.getByRole('button', { name: 'New site' }).first().click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('Main street');
    await page.getByRole('button', { name: 'Create site' }).click();
    await page.getByRole('row').filter({ hasText: 'Main street' }).waitFor();

    await steps.getByRole('link', { name: 'Register a release of the agent' }).click();
    await registerRelease(page);
    await goOn(page, 'Create an enrollment key');

    await page.getByRole('button', { name: 'New key' }).first().click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('First machines');
    await page.getByRole('button', { name: 'Create key' }).click();
    const line = await page.getByLabel('Installation on Linux', { exact: true }).textContent();
    expect(line).to.match(new RegExp(`^curl -fsSL '${dashboard.url}/install\\.sh\\?key=menr_`));
    await page.getByText('This line is for the machine of the server itself').waitFor();
    await page.getByRole('tab', { name: 'Windows' }).waitFor({ state: 'detached' });
    await page.getByRole('note', { name: 'The next step' }).getByText('Run the install line').waitFor();

    const key = /key=([^']+)/.exec(line ?? '')?.[1] ?? '';
    const where = ['--server', dashboard.url, '--data-dir', dataDir];
    const enrolled = await agentCommand(['enroll', ...where, '--key', key, '--hostname', 'FIRST-ONE']);
    expect(enrolled.code, enrolled.output).to.equal(0);
    agent = startAgent(['run', '--data-dir', dataDir]);
    const arrived = page.getByRole('log', { name: 'Devices that have arrived' });
    await arrived.getByText('Online').waitFor();
    await page.getByRole('note', { name: 'The next step' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('link', { name: 'All devices 1' }).waitFor();
    expect(await steps.count()).to.equal(0);
  });

  /** By way of the profile, because publishing needs a second factor. */
  async function registerRelease(page: Page): Promise<void> {
    await upload(page);
    const asked = page.getByRole('dialog', { name: 'Set up two-factor authentication' });
    await asked.waitFor();
    // Escape leaves the form beneath as it was filled in.
    await page.keyboard.press('Escape');
    await asked.waitFor({ state: 'detached' });
    const form = page.getByRole('dialog', { name: 'Upload a release' });
    expect(await form.getByRole('textbox', { name: 'Version' }).inputValue()).to.equal('0.0.1');
    await form.getByText('Publishing needs two-factor authentication').waitFor();
    await assertAccessible(page);
    await form.getByRole('button', { name: 'Upload' }).click();
    await asked.getByRole('link', { name: 'Go to the profile' }).click();
    await page.getByRole('button', { name: 'Set up' }).click();
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Continue' }).click();
    const secret = await page.getByLabel('Secret for the authenticator app', { exact: true }).textContent();
    await page.getByRole('textbox', { name: 'Code' }).fill(codeOf(secret ?? ''));
    await page.keyboard.press('Enter');
    await page.getByText('Besides your password').waitFor();
    await goOn(page, 'Register a release of the agent');
    await upload(page);
    await page
      .getByRole('row')
      .filter({ hasText: 'Watchdog' })
      .getByText('Promoted', { exact: true })
      .waitFor();
  }

  async function upload(page: Page): Promise<void> {
    await page.getByRole('button', { name: 'Upload', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Upload a release' });
    await dialog.getByRole('textbox', { name: 'Version' }).fill('0.0.1');
    const bytes = { mimeType: 'application/octet-stream', buffer: Buffer.from('#!/bin/sh\n') };
    await dialog.locator('input[type=file]').setInputFiles([
      { name: 'muster-watchdog-linux-x64', ...bytes },
      { name: 'muster-agent-linux-x64.cjs', ...bytes },
    ]);
    await dialog.getByRole('button', { name: 'Upload' }).click();
  }
});
