import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { connectDevice } from '../../support/fake-device.ts';
import { Keyboard } from '../../support/keyboard.ts';

const LIMIT = 200_000;

describe('the editor of scripts', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
  });

  const field = (page: Page) => page.getByRole('textbox', { name: 'Script', exact: true });
  const loaded = (page: Page) => page.getByText('Escape and then Tab leaves the field').waitFor();
  const textIn = (page: Page) => field(page).evaluate((element: { innerText: string }) => element.innerText);

  /** As Ctrl V does: the browser of the tests has no clipboard. */
  const paste = (page: Page, text: string) =>
    page.evaluate(`{
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', ${JSON.stringify(text)});
      const paste = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
      document.activeElement.dispatchEvent(paste);
    }`);

  it('highlights, offers what is declared, and marks what is not: by keys alone', async () => {
    const page = await dashboard.open('/scripts/new', { person: tenant.admin });
    await loaded(page);
    const keys = new Keyboard(page);
    await keys.fill(page.getByRole('textbox', { name: 'Name', exact: true }), 'Empty a folder');
    await keys.to(field(page));
    await keys.type('if [ -d "$PARAM_FOLDER" ]; then');
    await keys.press('Enter', 'Tab');
    await keys.type('rm -rf "$PARAM_FOLDER"');
    await page.getByText('if', { exact: true }).first().waitFor();
    const mark = page.locator('.cm-lintRange-warning');
    await mark.nth(1).waitFor();
    // The next mark is found with F8, and says what to do about it.
    await keys.press('F8');
    await assertAccessible(page);
    // Tab indents here, and leaves after Escape.
    await keys.press('Escape');
    await keys.use(page.getByRole('button', { name: 'Declare a parameter' }));
    await keys.hasFocus(page.getByRole('textbox', { name: 'Name of parameter 1' }));
    await keys.type('FOLDER');
    await keys.toggle(page.getByRole('checkbox', { name: 'FOLDER is required' }));
    await keys.use(page.getByRole('button', { name: 'Declare a parameter' }));
    await keys.hasFocus(page.getByRole('textbox', { name: 'Name of parameter 2' }));
    await keys.type('DAYS');
    await keys.choose(page.getByRole('combobox', { name: 'Type of DAYS' }), 'Number');
    await keys.fill(page.getByRole('textbox', { name: 'Default value of DAYS' }), '30');
    await mark.first().waitFor({ state: 'detached' });
    await keys.to(field(page));
    await keys.press('Control+End', 'Enter');
    await keys.type('echo PARAM_D');
    await page.getByRole('option', { name: /PARAM_DAYS.*number/ }).waitFor();
    await assertAccessible(page);
    await keys.press('Tab');
    expect(await textIn(page)).to.contain('echo $PARAM_DAYS');
    await keys.press('Escape');
    await keys.use(page.getByRole('button', { name: 'Save script' }));
    await page.getByRole('heading', { level: 1, name: 'Empty a folder' }).waitFor();
    const { body } = await dashboard.app.call('GET', '/scripts', { token: tenant.admin.token });
    const saved = body.data.find(({ name }: { name: string }) => name === 'Empty a folder');
    expect(saved.content).to.equal(
      'if [ -d "$PARAM_FOLDER" ]; then\n  rm -rf "$PARAM_FOLDER"\n  echo $PARAM_DAYS',
    );
    expect(saved.parameters).to.deep.equal([
      { name: 'FOLDER', type: 'text', description: null, required: true, defaultValue: null },
      { name: 'DAYS', type: 'number', description: null, required: false, defaultValue: '30' },
    ]);
    await loaded(page);
    await assertAccessible(page);
  });

  it('declares a parameter from its mark', async () => {
    const page = await dashboard.open('/scripts/new', { person: tenant.admin });
    await loaded(page);
    await field(page).fill('curl -u "$SECRET_TOKEN" example.org');
    await page.locator('.cm-lintRange-warning').hover();
    await page.getByRole('button', { name: 'Declare TOKEN' }).click();
    await page.getByRole('combobox', { name: 'Type of TOKEN' }).waitFor();
    expect(await page.getByRole('combobox', { name: 'Type of TOKEN' }).inputValue()).to.equal('Secret');
    await page.locator('.cm-lintRange-warning').waitFor({ state: 'detached' });
  });

  it('asks for what the script declares when it is run', async () => {
    const { app } = dashboard;
    const { token } = await buildDevice(app, tenant.orgId, { hostname: 'FILES', osType: 'linux' });
    const agent = await connectDevice(app, token);
    const made = await app.call('POST', '/scripts', {
      token: tenant.admin.token,
      body: {
        name: 'Tidy',
        language: 'bash',
        content: 'rm -rf "$PARAM_FOLDER"',
        orgId: tenant.orgId,
        parameters: [
          { name: 'FOLDER', required: true, description: 'What is emptied.' },
          { name: 'DAYS', type: 'number', defaultValue: '30' },
        ],
      },
    });
    const page = await dashboard.open(`/scripts/${made.body.id}?dialog=run`, { person: tenant.admin });
    const dialog = page.getByRole('dialog', { name: 'Run Tidy' });
    await dialog.getByRole('combobox', { name: 'Devices' }).fill('FILES');
    await page.getByRole('option', { name: 'FILES' }).click();
    await page.keyboard.press('Escape');
    await dialog.getByRole('button', { name: 'Run' }).click();
    // The browser says so at the field.
    const folder = dialog.getByRole('textbox', { name: 'FOLDER' });
    expect(
      await folder.evaluate((input: { matches: (selector: string) => boolean }) => input.matches(':invalid')),
    ).to.equal(true);
    await folder.fill('/tmp/old');
    dashboard.allow(/status of 400/);
    await dialog.getByRole('textbox', { name: 'DAYS' }).fill('many');
    await dialog.getByRole('button', { name: 'Run' }).click();
    await dialog.getByText('must be a number, such as 30 or -1.5').first().waitFor();
    await assertAccessible(page);
    await dialog.getByRole('textbox', { name: 'DAYS' }).fill('');
    await dialog.getByRole('button', { name: 'Run' }).click();
    const frame = await agent.nextCommand();
    expect(frame).to.have.deep.nested.property('payload.parameters', { FOLDER: '/tmp/old', DAYS: '30' });
    agent.close();
  });

  it('takes a megabyte without a pause, and says that it is too long', async () => {
    const page = await dashboard.open('/scripts/new', { person: tenant.admin });
    await loaded(page);
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Too long');
    await field(page).focus();
    const line = 'echo "$PARAM_FOLDER" # a line of nonsense\n';
    const begun = Date.now();
    await paste(page, line.repeat(Math.ceil(1_000_000 / line.length)));
    await page.getByText(/has 1,0\d\d,\d{3} characters. At most 200,000 are allowed/).waitFor();
    await page.keyboard.type('# ten keys');
    await eventually(
      () => textIn(page),
      (text) => text.includes('# ten keys'),
    );
    expect(Date.now() - begun, 'milliseconds').to.be.below(20_000);
    const save = page.getByRole('button', { name: 'Save script' });
    expect(await save.getAttribute('aria-disabled')).to.equal('true');
    await assertAccessible(page);
    await page.keyboard.press('Control+a');
    await paste(page, 'x'.repeat(LIMIT));
    await page.getByText(/At most 200,000/).waitFor({ state: 'detached' });
    expect(await save.getAttribute('aria-disabled')).not.to.equal('true');
  });

  it('is a field for plain text while it is loaded, whose text and cursor it keeps', async () => {
    const page = await dashboard.newPage();
    let load: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      load = resolve;
    });
    await page.route(/code-editor/, async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`/scripts/new${await dashboard.app.server.signInFragment(tenant.admin.id)}`);
    await field(page).fill('echo world');
    await page.keyboard.press('Home');
    for (let at = 0; at < 'echo '.length; at++) await page.keyboard.press('ArrowRight');
    load();
    await loaded(page);
    await page.keyboard.type('my ');
    await eventually(
      () => textIn(page),
      (text) => text.includes('echo my world'),
    );
  });

  it('stays a field for plain text if its part of the page cannot be loaded', async () => {
    dashboard.allow(/code-editor|Failed to load resource/);
    const page = await dashboard.newPage();
    await page.route(/code-editor/, (route) => route.abort());
    await page.goto(`/scripts/new${await dashboard.app.server.signInFragment(tenant.admin.id)}`);
    await page.getByText('The editor with highlighting could not be loaded.').waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Plain');
    await field(page).fill('true');
    await page.getByRole('button', { name: 'Save script' }).click();
    await page.getByRole('heading', { level: 1, name: 'Plain' }).waitFor();
  });
});
