import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { launchChromium } from '../../support/browser.ts';
import { startDemoProcess } from '../../support/demo-process.ts';
import { eventually } from '../../support/eventually.ts';
import { takePicture, VIEW, writeBetweenMarks } from '../take.ts';
import { type Mail, watchMails } from './mails.ts';

/**
 * `npm run walk:night` plays a technician's night through in the demo, in real time: an alert that nobody takes care of
 * escalates, is followed to the machine, acknowledged and resolved. It takes pictures, and writes the table of
 * docs/technicians-night.md anew. It fails if a message does not come, or comes although it must not.
 */

const DOCS = path.join(import.meta.dirname, '../../../docs');
const FOLDER = path.join(DOCS, 'screenshots/night');
const PAGE = path.join(DOCS, 'technicians-night.md');
const HEAD = ['| Seconds after the alert | What happened | Seen |', '|---|---|---|'];
const PATIENCE_MS = 60_000;
/** The second step of the demo's policy comes two minutes after the first. */
const ESCALATED_WITHIN_MS = 200_000;
/** Nothing more must come once the alert is acknowledged. */
const QUIET_MS = 60_000;

const Alerts = z.object({
  data: z.array(
    z.object({ id: z.string(), deviceId: z.string(), title: z.string(), raisedAt: z.coerce.date() }),
  ),
});
const DESK = 'service-desk@demo.example';
const ADMIN = 'admin@demo.example';

const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-night-'));
const [demo, browser] = await Promise.all([startDemoProcess(dataDir), launchChromium()]);
try {
  await mkdir(FOLDER, { recursive: true });
  const mails = watchMails(path.join(dataDir, 'mail'));
  await demo.saying(/[✔✘] Filters, groups/);
  const context = await browser.newContext({ viewport: VIEW, reducedMotion: 'reduce', baseURL: demo.url });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto(demo.link);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();

  const [alert] = (
    await eventually(
      async () => Alerts.parse(await demo.get('/alerts?kind=disk_full&status=active')),
      ({ data }) => data.length > 0,
      ESCALATED_WITHIN_MS,
    )
  ).data;
  if (alert === undefined) throw new Error('The demo has no disk that is almost full.');
  const lines: string[] = [];
  const note = async (what: string, picture?: { name: string; says: string }, at = Date.now()) => {
    if (picture !== undefined) await takePicture(page, path.join(FOLDER, `${picture.name}.webp`));
    const seen = picture === undefined ? '' : `[${picture.says}](screenshots/night/${picture.name}.webp)`;
    lines.push(`| ${((at - alert.raisedAt.getTime()) / 1000).toFixed(0)} | ${what} | ${seen} |`);
    process.stdout.write(`${lines.at(-1)}\n`);
  };
  const about = (to: string) => (mail: Mail) => mail.to === to && mail.text.includes(alert.id);

  await note(`“${alert.title}” is raised.`, undefined, alert.raisedAt.getTime());
  const first = await mails.next(about(DESK), PATIENCE_MS);
  await note(`A mail is sent to ${DESK}: “${first.subject}”.`, undefined, first.at);
  await page.goto(linkOf(first, demo.url));
  const dialog = page.getByRole('dialog');
  const timeline = dialog.getByRole('list', { name: 'What has happened' });
  await timeline.getByRole('listitem').nth(1).waitFor();
  await note('Its link opens the alert. Nobody acknowledges it.', { name: 'alert', says: 'the alert' });
  await simulate(page);
  await note('Who would be told of the same on a Sunday at three.', {
    name: 'simulator',
    says: 'the simulator',
  });

  const second = await mails.next(about(ADMIN), ESCALATED_WITHIN_MS);
  await note(`It escalates: a mail is sent to ${ADMIN}.`, undefined, second.at);
  await page.goto(linkOf(second, demo.url));
  await timeline.getByRole('listitem').nth(2).waitFor();
  await note('The alert shows both messages.', { name: 'escalated', says: 'the alert' });

  await dialog.getByRole('link', { name: /-/ }).first().click();
  await page.getByRole('tab', { name: 'Event log' }).waitFor();
  await note('The device, with what is wrong with it on top.', { name: 'device', says: 'the device' });
  await page.getByRole('tab', { name: 'Event log' }).click();
  await page
    .locator('label')
    .filter({ hasText: /^Error \d/ })
    .click();
  await page.getByRole('row').filter({ hasText: 'has a bad block' }).first().waitFor();
  await note('Its event log, errors only.', { name: 'event-log', says: 'the cause' });

  await page.goto(linkOf(second, demo.url));
  await dialog.getByRole('button', { name: 'Acknowledge' }).click();
  await timeline.getByText(/^Acknowledged/).waitFor();
  await note('The alert is acknowledged.');
  const unwanted = await mails.none(({ text }) => text.includes(alert.id), QUIET_MS);
  if (unwanted !== undefined) {
    throw new Error(`A mail came after that: ${unwanted.subject}, to ${unwanted.to}.`);
  }
  await note(`No mail has come for ${QUIET_MS / 1000} seconds.`);
  await dialog.getByRole('button', { name: 'Resolve' }).click();
  await timeline.getByText(/^Resolved/).waitFor();
  const ends = [await mails.next(about(DESK), PATIENCE_MS), await mails.next(about(ADMIN), PATIENCE_MS)];
  await note(
    'It is resolved, and both are told of its end.',
    undefined,
    Math.max(...ends.map(({ at }) => at)),
  );
  await page.reload();
  await timeline.getByRole('listitem').nth(5).waitFor();
  await note('The whole night.', { name: 'resolved', says: 'the alert' });
  await page.goto('/notifications/log');
  await page.getByRole('row').nth(2).waitFor();
  await note('The log of messages.', { name: 'log', says: 'the log' });
  await writeBetweenMarks(PAGE, 'npm run walk:night', [...HEAD, ...lines].join('\n'));
} finally {
  await browser.close();
  await demo.stop();
  await rm(dataDir, { recursive: true, force: true });
}

async function simulate(page: Page): Promise<void> {
  await page.goto('/notifications');
  const form = page.getByRole('form', { name: 'An alert that somebody thinks of' });
  await form.getByRole('combobox', { name: 'Raised' }).click();
  await page.getByRole('option', { name: 'Sunday' }).click();
  await form.getByRole('button', { name: 'Show who is told' }).click();
  await page
    .getByRole('region', { name: 'Simulator' })
    .getByText(/Service desk/)
    .first()
    .waitFor();
  await form.scrollIntoViewIfNeeded();
}

/** The link to the alert, at the address of this demo. */
function linkOf({ text }: Mail, url: string): string {
  const found = /https?:\/\/\S+\/alerts\?\S+/.exec(text)?.[0];
  if (found === undefined) throw new Error(`The mail has no link to the alert: ${text}`);
  const { pathname, search } = new URL(found);
  return new URL(pathname + search, url).href;
}
