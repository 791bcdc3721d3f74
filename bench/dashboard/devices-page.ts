import type { Page } from 'playwright-core';
import type { DeviceSummary } from '../../src/protocol/index.ts';
import { connectDashboard } from '../../test/support/dashboard-client.ts';
import { eventually } from '../../test/support/eventually.ts';
import { countFrames, held, type Frames, type Held, type Ground } from './ground.ts';

const TABLE = '[role=grid]';
const SECONDS = 10;
/** Each heartbeat of an unsteady device is two changes: it comes, and it is offline again. */
const LOAD = { steady: 300, unsteady: 100 };
/** Devices that have reported are offline after this time without a report, which itself is a change. */
const UNTIL_CHANGES_COME_MS = 30_000;

export interface DevicesResult {
  quiet: Frames;
  loaded: Frames;
  /** The frames of a page that is not scrolled, under the same load. */
  resting: Frames;
  /** As `loaded`, sorted by a value that changes. */
  sortedByCpu: Frames;
  /** As `loaded`, with all columns that the table can have. */
  everyColumn: Frames & { columns: number };
  /** By minutes of load. */
  memory: Record<string, Held>;
  reports: unknown;
  /** Rows that were compared with what the server says, at several places of the table. */
  rowsCompared: number;
}

/** The page of all devices while 500 of them change a second. */
export async function measureDevicesPage(
  ground: Ground,
  { devices, minutes }: { devices: number; minutes: number },
): Promise<DevicesResult> {
  const page = await ground.open('/devices');
  await page.getByText(`${devices.toLocaleString('en')} of ${devices.toLocaleString('en')} shown`).waitFor();
  await page.locator(TABLE).hover();
  const quiet = await countFrames(page, SECONDS, TABLE);
  await ground.call('report', LOAD);
  await page.waitForTimeout(UNTIL_CHANGES_COME_MS);
  const memory: Record<string, Held> = { 0: await held(page) };
  const startedAt = Date.now();
  const loaded = await countFrames(page, SECONDS, TABLE);
  await page.mouse.move(1, 1);
  const resting = await countFrames(page, SECONDS);
  const sortBy = (name: string) => page.locator(TABLE).getByRole('button', { name, exact: true }).click();
  await sortBy('CPU');
  const sortedByCpu = await countFrames(page, SECONDS, TABLE);
  await sortBy('Name');
  const columns = await chooseEveryColumn(page);
  const everyColumn = { ...(await countFrames(page, SECONDS, TABLE)), columns };
  await chooseDefaultColumns(page);
  for (const minute of [1, 3, 5, 10].filter((each) => each <= minutes)) {
    await page.waitForTimeout(Math.max(0, startedAt + minute * 60_000 - Date.now()));
    memory[minute] = await held(page);
  }
  const reports = await ground.call('stop');
  const rowsCompared = await compareRows(ground, page);
  await page.context().close();
  return { quiet, loaded, resting, sortedByCpu, everyColumn, memory, reports, rowsCompared };
}

async function openColumnChooser(page: Page) {
  await page.getByRole('button', { name: 'Columns' }).click();
  return page.getByRole('dialog', { name: 'Columns' });
}

/** @returns how many there are */
async function chooseEveryColumn(page: Page): Promise<number> {
  const chooser = await openColumnChooser(page);
  await chooser.getByRole('checkbox').first().waitFor();
  const hidden = chooser.getByRole('checkbox', { checked: false });
  while ((await hidden.count()) > 0) await hidden.first().click();
  const count = await chooser.getByRole('checkbox').count();
  await page.keyboard.press('Escape');
  await chooser.waitFor({ state: 'hidden' });
  await page.locator(TABLE).hover();
  return count;
}

async function chooseDefaultColumns(page: Page): Promise<void> {
  const chooser = await openColumnChooser(page);
  await chooser.getByRole('button', { name: 'Reset' }).click();
  await page.keyboard.press('Escape');
  await chooser.waitFor({ state: 'hidden' });
}

type Shown = Pick<DeviceSummary, 'hostname'> & { status: string; cpu: string; memory: string };
const PLACES = [0, 0.25, 0.5, 0.75, 1];

/** Throws where a visible row is not what a second client is told, at five places of the table. */
async function compareRows(ground: Ground, page: Page): Promise<number> {
  let compared = 0;
  for (const place of PLACES) {
    await page.evaluate(
      `{ const area = document.querySelector('${TABLE}'); area.scrollTop = area.scrollHeight * ${place}; }`,
    );
    const differing = await eventually(
      async () => {
        const rows = await visibleRows(page);
        const known = new Map((await everyDevice(ground)).map((device) => [device.hostname, device]));
        compared += rows.length;
        return rows
          .filter((row) => !isSame(row, known.get(row.hostname)))
          .concat(rows.slice(0, rows.length ? 0 : 1));
      },
      (rows) => rows.length === 0,
    );
    if (differing.length > 0) throw new Error(JSON.stringify(differing));
  }
  return compared;
}

function isSame(row: Shown, device: DeviceSummary | undefined): boolean {
  if (device === undefined) return false;
  const percent = (value: number | undefined) => (value === undefined ? '–' : `${Math.round(value)} %`);
  return (
    row.status.toLowerCase() === device.status &&
    row.cpu === percent(device.metrics?.cpuPercent) &&
    row.memory === percent(device.metrics?.ramPercent)
  );
}

/** By the default columns, after the box. */
const visibleRows = (page: Page): Promise<Shown[]> =>
  page.evaluate(`[...document.querySelectorAll('${TABLE} [data-place]')].map((row) => {
    const cells = [...row.querySelectorAll('[role=gridcell]')].map((cell) => cell.textContent.trim());
    return { hostname: cells[1], status: cells[2], cpu: cells[7], memory: cells[8] };
  })`);

async function everyDevice(ground: Ground): Promise<DeviceSummary[]> {
  const { token } = await ground.parts();
  const client = await connectDashboard(ground, token);
  try {
    const snapshot: { devices: DeviceSummary[]; complete: boolean } = await client.subscribe();
    await eventually(
      () => snapshot.complete || client.deltas.some(({ complete }) => complete === true),
      (isComplete) => isComplete,
    );
    const devices = new Map(snapshot.devices.map((device) => [device.id, device]));
    for (const { entered, changed } of client.deltas) {
      for (const device of entered) devices.set(device.id, device);
      for (const change of changed) {
        const known = devices.get(change.id);
        if (known !== undefined) devices.set(change.id, { ...known, ...change } as DeviceSummary);
      }
    }
    return [...devices.values()];
  } finally {
    client.close();
  }
}
