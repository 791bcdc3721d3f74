import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Secret, TOTP } from 'otpauth';
import type { Page } from 'playwright-core';
import { freePort } from '../../src/platform/db/embedded/installation.ts';
import { launchChromium } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { assetNames } from '../../src/packaging/build-agent.ts';
import { isPlatform } from '../../src/packaging/runtimes.ts';

/**
 * `npm run screenshots:first-run` walks as a newcomer does, from `npm start` on an empty data folder to the first device
 * that is online, by the dashboard alone. It takes a picture at each step into dist/first-run, and prints a table of the
 * steps with their seconds. `-- --narrow` walks with the window of a telephone, `-- --dark` in dark colours.
 */

const ROOT = path.join(import.meta.dirname, '../..');
const PICTURES = path.join(ROOT, 'dist/first-run');
const PATIENCE_MS = 60_000;
const START_MS = 180_000;
/** Moving parts have come to rest. */
const SETTLED_MS = 600;
const [EMAIL, PASSWORD] = ['root@example.com', 'First-Admin-2026!'];
const [isNarrow, isDark] = [process.argv.includes('--narrow'), process.argv.includes('--dark')];

const table: { step: string; seconds: number; clicks: number }[] = [];
const running = new Set<ReturnType<typeof start>>();
const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-first-run-'));
const machine = await mkdtemp(path.join(tmpdir(), 'muster-first-machine-'));
await rm(PICTURES, { recursive: true, force: true });
await mkdir(PICTURES, { recursive: true });

const url = `http://127.0.0.1:${await freePort()}`;
const browser = await launchChromium();
try {
  const context = await browser.newContext({
    baseURL: url,
    viewport: isNarrow ? { width: 390, height: 844 } : { width: 1280, height: 800 },
    colorScheme: isDark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  });
  context.setDefaultTimeout(PATIENCE_MS);
  await walk(await context.newPage());
} finally {
  await browser.close();
  for (const program of running) program.stop();
  await Promise.all([...running].map(({ ended }) => ended));
  await Promise.all([dataDir, machine].map((folder) => rm(folder, { recursive: true, force: true })));
  print();
}

async function walk(page: Page): Promise<void> {
  let clicks = 0;
  const take = async (name: string) => {
    await page.waitForTimeout(SETTLED_MS);
    const file = `${String(table.length).padStart(2, '0')}-${name.toLowerCase().replaceAll(/[^a-z]+/g, '-')}.png`;
    await page.screenshot({ path: path.join(PICTURES, file) });
  };
  /** The seconds are those of the machine: a person also reads and types. */
  const step = async (name: string, act: () => Promise<unknown>): Promise<void> => {
    const [began, clicksBefore] = [performance.now(), clicks];
    await act();
    table.push({ step: name, seconds: (performance.now() - began) / 1000, clicks: clicks - clicksBefore });
    await take(name);
  };
  const click = (target: { click(): Promise<void> }) => {
    clicks++;
    return target.click();
  };
  const button = (name: string) => page.getByRole('button', { name, exact: true }).first();
  const link = (name: string) => page.getByRole('link', { name }).first();
  const field = (name: string) => page.getByRole('textbox', { name, exact: true });
  const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor();
  const nextStep = (name: string) =>
    page.getByRole('note', { name: 'The next step' }).getByRole('link', { name });

  await step('npm start on an empty folder', async () => {
    start('npm', ['start'], {
      PORT: new URL(url).port,
      DATA_DIR: dataDir,
      SVC_ADMIN_EMAIL: EMAIL,
      SVC_ADMIN_PASSWORD: PASSWORD,
    });
    await eventually(
      () =>
        fetch(url).then(
          ({ ok }) => ok,
          () => false,
        ),
      (isUp) => isUp,
      START_MS,
    );
    await page.goto('/');
  });
  await step('The sign-in page is there', () =>
    page.getByLabel('E-mail address').waitFor({ timeout: START_MS }),
  );
  await step('First administrator signs in', async () => {
    await page.getByLabel('E-mail address').fill(EMAIL);
    await page.locator('input[type=password]').fill(PASSWORD);
    await click(button('Sign in'));
    await page.getByRole('region', { name: 'Getting started' }).waitFor();
  });
  await step('Providers', async () => {
    await click(link('Create a provider'));
    await heading('Providers');
  });
  await step('New provider, its form', async () => {
    await click(button('New provider'));
    await field('Name').fill('Calm IT');
  });
  await step('Provider is created', async () => {
    await click(button('Create provider'));
    await nextStep('Create an organization').waitFor();
  });
  await step('Organizations', async () => {
    await click(nextStep('Create an organization'));
    await heading('Organizations');
  });
  await step('New organization, its form', async () => {
    await click(button('New organization'));
    await field('Name').fill('Bright Smile');
  });
  await step('Organization is created', async () => {
    await click(button('Create organization'));
    await heading('Bright Smile');
    await page.getByText('Create a site of Bright Smile').waitFor();
  });
  await step('New site, its form', async () => {
    await click(button('New site'));
    await field('Name').fill('Main street');
  });
  await step('Site is created', async () => {
    await click(button('Create site'));
    await page.getByRole('row').filter({ hasText: 'Main street' }).waitFor();
  });
  await step('Agents', async () => {
    await click(link('Register a release of the agent'));
    await heading('Agents');
    await page.getByText('Register the first release').waitFor();
  });
  await step('npm run build:agent', () =>
    ran('npm', ['run', 'build:agent', '--', '--out', path.join(machine, 'agent')]),
  );
  const chooseFiles = async () => {
    await click(button('Upload'));
    const dialog = page.getByRole('dialog', { name: 'Upload a release' });
    const folder = path.join(machine, 'agent');
    const files = await readdir(folder);
    await dialog.getByRole('textbox', { name: 'Version' }).fill('0.1.0');
    const names: string[] = Object.values(assetNames(ownPlatform()));
    await dialog
      .locator('input[type=file]')
      .setInputFiles(files.filter((name) => names.includes(name)).map((name) => path.join(folder, name)));
    return dialog;
  };
  await step('Upload a release, its form', chooseFiles);
  await step('A second factor is asked for', async () => {
    await click(page.getByRole('dialog').getByRole('button', { name: 'Upload' }));
    await page.getByRole('dialog', { name: 'Set up two-factor authentication' }).waitFor();
  });
  await step('Profile', async () => {
    await click(link('Go to the profile'));
    await button('Set up').waitFor();
  });
  await step('Two-factor authentication, the password', async () => {
    await click(button('Set up'));
    await page.getByLabel('Your password').fill(PASSWORD);
  });
  await step('Two-factor authentication, the secret', async () => {
    await click(button('Continue'));
    await page.getByLabel('Secret for the authenticator app', { exact: true }).waitFor();
  });
  await step('Two-factor authentication is set up', async () => {
    const secret = await page.getByLabel('Secret for the authenticator app', { exact: true }).textContent();
    await field('Code').fill(TOTP.generate({ secret: Secret.fromBase32(secret ?? '') }));
    await page.keyboard.press('Enter');
    await page.getByText('Besides your password').waitFor();
  });
  await step('Agents again', async () => {
    await click(nextStep('Register a release of the agent'));
    await heading('Agents');
    await page.getByText('Register the first release').waitFor();
  });
  await step('The release is uploaded', async () => {
    const dialog = await chooseFiles();
    await click(dialog.getByRole('button', { name: 'Upload' }));
    await page
      .getByRole('row')
      .filter({ hasText: 'Watchdog' })
      .getByText('Promoted', { exact: true })
      .waitFor();
  });
  await step('Enrollment', async () => {
    await click(nextStep('Create an enrollment key'));
    await heading('Enrollment');
  });
  await step('New key, its form', async () => {
    await click(button('New key'));
    await field('Name').fill('First machines');
  });
  let line = '';
  await step('The key and its line', async () => {
    await click(button('Create key'));
    line = (await page.getByLabel('Installation on Linux', { exact: true }).textContent()) ?? '';
  });
  await step('The line has run on a machine', async () => {
    // As it stands, but into a folder in place of the root of this machine, and without its service manager.
    await ran('sh', ['-c', line.replace('sudo sh', 'sh')], {
      MUSTER_PREFIX: machine,
      MUSTER_NO_SERVICE: '1',
    });
    await page.getByRole('log', { name: 'Devices that have arrived' }).getByRole('link').waitFor();
  });
  await step('The device is online', async () => {
    const [programs, data] = [path.join(machine, 'opt/muster'), path.join(machine, 'var/lib/muster-agent')];
    const agent = path.join(programs, 'watchdog/current/muster-agent');
    start(agent, ['watchdog', 'run', '--programs', programs, '--data-dir', data]);
    await page.getByRole('log', { name: 'Devices that have arrived' }).getByText('Online').waitFor();
  });
  await step('The device', async () => {
    await click(page.getByRole('log', { name: 'Devices that have arrived' }).getByRole('link').first());
    await page.getByRole('tab', { name: 'Summary', selected: true }).waitFor();
    await page.getByText('Processor').first().waitFor();
  });
  await step('The overview', async () => {
    if (isNarrow) await click(page.getByRole('button', { name: /navigation|menu/i }).first());
    await click(link('Overview'));
    await link('All devices 1').waitFor();
  });
}

/** A program in the folder of Muster, with nothing of this environment but what every shell has. */
function start(command: string, words: string[], env: Record<string, string> = {}) {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(command, words, { cwd: ROOT, env: { PATH, HOME, ...env }, detached: true });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const program = {
    ended,
    output: () => text,
    /** With all that it has started, as Ctrl+C does. */
    stop() {
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
    },
  };
  running.add(program);
  void ended.then(() => running.delete(program));
  return program;
}

async function ran(command: string, words: string[], env: Record<string, string> = {}): Promise<void> {
  const { ended, output } = start(command, words, env);
  const code = await ended;
  process.stdout.write(output());
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${output()}`);
}

function ownPlatform() {
  const name = `${process.platform}-${process.arch}`;
  if (!isPlatform(name)) throw new Error(`There is no agent for ${name}.`);
  return name;
}

function print(): void {
  const width = Math.max(...table.map(({ step }) => step.length));
  for (const [place, { step, seconds, clicks }] of table.entries()) {
    process.stdout.write(
      `${String(place + 1).padStart(2)}  ${step.padEnd(width)}  ${seconds.toFixed(1).padStart(6)} s  ${clicks} clicks\n`,
    );
  }
  const sum = table.reduce((total, { seconds }) => total + seconds, 0);
  const clicks = table.reduce((total, each) => total + each.clicks, 0);
  process.stdout.write(
    `    ${'Together'.padEnd(width)}  ${sum.toFixed(1).padStart(6)} s  ${clicks} clicks\n`,
  );
}
