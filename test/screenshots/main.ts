import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { launchChromium } from '../support/browser.ts';
import { startDemoProcess } from '../support/demo-process.ts';
import { adminPictures, type Picture, systemPictures } from './pictures.ts';
import { readStory } from './story.ts';
import { openAsSystemAdministrator } from './system-administrator.ts';

/**
 * `npm run screenshots` starts the demo, opens its pages in Chromium, and writes pictures of them into docs/screenshots.
 * They are made anew when pages have changed; nothing compares them.
 */

const FOLDER = path.join(import.meta.dirname, '../../docs/screenshots');
const VIEW = { width: 1280, height: 800 };
const PATIENCE_MS = 120_000;
/** Fonts, icons and the first figures of live data are there. */
const SETTLED_MS = 1500;
const QUALITY = 88;
const BYTES_MAX = 150_000;

const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-screenshots-'));
const [demo, browser] = await Promise.all([startDemoProcess(dataDir), launchChromium()]);
try {
  await mkdir(FOLDER, { recursive: true });
  const context = await browser.newContext({ viewport: VIEW, reducedMotion: 'reduce', baseURL: demo.url });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto(demo.link);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  // Devices that arrive are shown to those who are there, so somebody has to be there from the beginning.
  const waitingRoom = await context.newPage();
  await waitingRoom.goto('/enrollment');
  await demo.saying(/[✔✘] Filters, groups/);
  await demo.saying(/[✔✘] Backup of this machine/);
  const story = await readStory(demo);
  for (const picture of adminPictures(story)) {
    await take(picture.isOf === 'waiting room' ? waitingRoom : page, picture);
  }
  await context.close();
  const system = await openAsSystemAdministrator(browser, demo, VIEW);
  for (const picture of systemPictures) await take(system, picture);
} finally {
  await browser.close();
  await demo.stop();
  await rm(dataDir, { recursive: true, force: true });
}

async function take(
  page: Page,
  { name, path: place, isOf, isDark = false, prepare }: Picture,
): Promise<void> {
  await page.emulateMedia({ colorScheme: isDark ? 'dark' : 'light' });
  if (isOf !== 'waiting room') await page.goto(place);
  await prepare(page);
  await page.mouse.move(VIEW.width - 1, VIEW.height - 1);
  await page.waitForTimeout(SETTLED_MS);
  const devtools = await page.context().newCDPSession(page);
  const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  await devtools.detach();
  const bytes = Buffer.from(data, 'base64');
  if (bytes.length > BYTES_MAX) throw new Error(`${name} has ${bytes.length} bytes, more than ${BYTES_MAX}.`);
  await writeFile(path.join(FOLDER, `${name}.webp`), bytes);
  process.stdout.write(`${name.padEnd(20)} ${Math.round(bytes.length / 1000)} kB\n`);
}
