import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { launchChromium } from '../../support/browser.ts';
import { startDemoProcess } from '../../support/demo-process.ts';
import { readStory } from '../story.ts';
import { takePicture, VIEW, writeBetweenMarks } from '../take.ts';
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
const HEAD = [
  '| Job | By keys | Steps by keys (moves of the focus) | By pointer | Steps by pointer | Seconds by keys | Seconds by pointer |',
  '|---|---|---|---|---|---|---|',
];
const PATIENCE_MS = 60_000;
const SETTLED_MS = 1000;
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
    if ('steps' in keys) await takePicture(page, path.join(FOLDER, `${job.picture}.webp`));
    lines.push(lineOf(job.name, job.picture, pointer, keys));
    process.stdout.write(`${lines.at(-1)}\n`);
  }
  await writeBetweenMarks(PAGE, 'npm run walk:jobs', [...HEAD, ...lines].join('\n'));
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
