import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { launchChromium } from '../../support/browser.ts';
import { startDemoProcess } from '../../support/demo-process.ts';
import { readStory } from '../story.ts';
import { castOf } from './cast.ts';
import { JOBS } from './jobs.ts';
import { KeysOnly, Pointer, type Step } from './walker.ts';

/**
 * `npm run walk:jobs` does ten jobs of a technician in the demo, each by pointer and by keys alone. It takes a picture of
 * each result, and writes the table of docs/ten-jobs.md anew. A job that cannot be done is named there with the reason.
 */

const DOCS = path.join(import.meta.dirname, '../../../docs');
const FOLDER = path.join(DOCS, 'screenshots/jobs');
const PAGE = path.join(DOCS, 'ten-jobs.md');
const [BEGIN, END] = ['<!-- table: npm run walk:jobs -->', '<!-- end of the table -->'];
const VIEW = { width: 1280, height: 800 };
const PATIENCE_MS = 60_000;
const SETTLED_MS = 1000;
/** Dense text needs a smaller picture rather than a coarse one. */
const TRIES = [
  { quality: 70, scale: 1 },
  { quality: 45, scale: 1 },
  { quality: 60, scale: 0.75 },
  { quality: 40, scale: 0.75 },
  { quality: 30, scale: 0.6 },
];
const BYTES_MAX = 60_000;

type Walked = { steps: readonly Step[]; moves: number } | { failure: string };

const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-jobs-'));
const [demo, browser] = await Promise.all([startDemoProcess(dataDir), launchChromium()]);
try {
  await mkdir(FOLDER, { recursive: true });
  const context = await browser.newContext({ viewport: VIEW, reducedMotion: 'reduce', baseURL: demo.url });
  context.setDefaultTimeout(PATIENCE_MS);
  // The keys that only move the focus are counted as well.
  await context.addInitScript(`
    window.moves = 0;
    addEventListener('keydown', ({ key }) => { if (key === 'Tab' || key.startsWith('Arrow')) window.moves += 1; }, true);
  `);
  const page = await context.newPage();
  await page.goto(demo.link);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await demo.saying(/[✔✘] Filters, groups/);
  await demo.saying(/[✔✘] Backup of this machine/);
  await demo.saying(/[✔✘] Figures of the last/);
  const cast = await castOf(demo, await readStory(demo), dataDir);
  const lines: string[] = [];
  for (const job of JOBS) {
    const pointer = await walked(page, job.picture, new Pointer(page), (walker) => job.pointer(walker, cast));
    const keys = await walked(page, job.picture, new KeysOnly(page), (walker) => job.keys(walker, cast));
    if ('steps' in keys) await take(page, job.picture);
    lines.push(lineOf(job.name, job.picture, pointer, keys));
    process.stdout.write(`${lines.at(-1)}\n`);
  }
  await writeTable(lines);
} finally {
  await browser.close();
  await demo.stop();
  await rm(dataDir, { recursive: true, force: true });
}

/** Each walk begins at the overview, which is there and at rest. */
async function walked<W extends Pointer | KeysOnly>(
  page: Page,
  name: string,
  walker: W,
  walk: (walker: W) => Promise<void>,
): Promise<Walked> {
  try {
    await page.goto('/');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.waitForTimeout(SETTLED_MS);
    await walk(walker);
    return { steps: walker.steps, moves: await page.evaluate<number>('window.moves') };
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    await page.screenshot({ path: path.join(tmpdir(), `walk-${name}-${walker.constructor.name}.png`) });
    process.stdout.write(`${name}, ${walker.constructor.name}: ${failure}\n`);
    return { failure: failure.split('\n')[0] ?? '' };
  }
}

function seconds(steps: readonly Step[]): string {
  return (steps.reduce((sum, { ms }) => sum + ms, 0) / 1000).toFixed(1);
}

function lineOf(name: string, picture: string, pointer: Walked, keys: Walked): string {
  const path = 'steps' in keys ? keys.steps.map(({ says }) => says).join(' → ') : `not done: ${keys.failure}`;
  const byPointer = 'steps' in pointer ? pointer.steps.map(({ says }) => says).join(' → ') : pointer.failure;
  const cells = [
    `[${name}](screenshots/jobs/${picture}.webp)`,
    path,
    'steps' in keys ? `${keys.steps.length} (${keys.moves})` : 'not done',
    byPointer,
    'steps' in pointer ? String(pointer.steps.length) : 'not done',
    'steps' in keys ? seconds(keys.steps) : '–',
    'steps' in pointer ? seconds(pointer.steps) : '–',
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

async function writeTable(lines: readonly string[]): Promise<void> {
  const text = await readFile(PAGE, 'utf8');
  const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (before < 0 || after < before) throw new Error(`${PAGE} has not the two marks of its table.`);
  const head = [
    '| Job | By keys | Steps by keys (moves of the focus) | By pointer | Steps by pointer | Seconds by keys | Seconds by pointer |',
    '|---|---|---|---|---|---|---|',
  ];
  const table = [...head, ...lines].join('\n');
  await writeFile(PAGE, `${text.slice(0, before)}${BEGIN}\n\n${table}\n\n${text.slice(after)}`);
}

/** The best picture that is small enough. */
async function take(page: Page, name: string): Promise<void> {
  await page.mouse.move(VIEW.width - 1, VIEW.height - 1);
  await page.waitForTimeout(SETTLED_MS);
  const devtools = await page.context().newCDPSession(page);
  const clip = { x: 0, y: 0, ...VIEW };
  for (const { quality, scale } of TRIES) {
    const { data } = await devtools.send('Page.captureScreenshot', {
      format: 'webp',
      quality,
      clip: { ...clip, scale },
    });
    const bytes = Buffer.from(data, 'base64');
    if (bytes.length > BYTES_MAX) continue;
    await writeFile(path.join(FOLDER, `${name}.webp`), bytes);
    break;
  }
  await devtools.detach();
}
