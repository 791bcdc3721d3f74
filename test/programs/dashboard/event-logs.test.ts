import { expect } from 'chai';
import type { Page } from 'playwright-core';
import type { LogEntry } from '../../../src/protocol/index.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { Keyboard } from '../../support/keyboard.ts';
import { asOwner } from '../../support/test-postgres.ts';

type Frame = Awaited<ReturnType<FakeDevice['nextCommand']>>;

const MINUTE = 60_000;
const COUNT = 120;

/** Record n was written n minutes after midnight. */
const entryOf = (recordId: number): LogEntry => ({
  recordId,
  timeCreated: new Date(Date.parse('2026-03-01T00:00:00.000Z') + recordId * MINUTE).toISOString(),
  level: recordId % 10 === 0 ? 'error' : 'information',
  source: recordId % 10 === 0 ? 'disk' : 'sshd',
  eventId: recordId % 10 === 0 ? 7 : 4,
  message: recordId % 10 === 0 ? `A bad block at 0x${recordId}.` : `Accepted key ${recordId}.`,
  category: 'System',
  user: null,
  computer: 'DESK-1',
});

/** A device with a log of 120 entries, of which every tenth is an error of the disk. It never ends a query for "slow". */
class LoggingDevice {
  readonly queries: Record<string, unknown>[] = [];
  tails = 0;
  readonly #agent: FakeDevice;
  #tail: Frame | undefined;
  #sent = 0;

  constructor(agent: FakeDevice) {
    this.#agent = agent;
  }

  get cancelled(): readonly string[] {
    return this.#agent.cancelled;
  }

  async serve(): Promise<never> {
    for (;;) await this.#answer(await this.#agent.nextCommand());
  }

  /** Sends entries to who follows the log. */
  async write(...ids: number[]): Promise<void> {
    const tail = await eventually(
      () => this.#tail,
      (frame) => frame !== undefined,
    );
    if (tail !== undefined) await this.#agent.rows(tail, ids.map(entryOf), this.#sent++);
  }

  async #answer(frame: Frame): Promise<void> {
    const payload = frame.payload as {
      source?: string;
      text?: string;
      endTime?: string;
      startTime?: string;
      limit?: number;
    };
    if (frame.type === 'eventlogs.list') {
      const log = { maxSize: 20_971_520, retentionDays: 30, recordCount: COUNT };
      const logs = ['System', 'Security'].map((name) => ({
        ...log,
        name,
        displayName: name,
        lastWriteTime: entryOf(COUNT).timeCreated,
      }));
      await this.#agent.succeed(frame, { logs });
    } else if (frame.type === 'eventlogs.tail') {
      this.#tail = frame;
      this.tails++;
      this.#sent = 0;
    } else {
      this.queries.push(payload);
      const { source: asked, startTime = '', endTime = '9', limit } = payload;
      const rows = Array.from({ length: COUNT }, (_, place) => entryOf(COUNT - place))
        .filter(({ source }) => asked === undefined || asked === source)
        .filter(({ timeCreated }) => timeCreated >= startTime && timeCreated <= endTime)
        .slice(0, limit);
      if (payload.text === 'slow') return void (await this.#agent.rows(frame, rows.slice(0, 2)));
      for (let sent = 0; sent * 40 < rows.length; sent++) {
        await this.#agent.rows(frame, rows.slice(sent * 40, sent * 40 + 40), sent);
      }
      await this.#agent.succeed(frame, { scanned: COUNT, truncated: false, total: rows.length });
    }
  }
}

describe('the event log in a browser', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let away: EnrolledDevice;
  let log: LoggingDevice;
  let agent: FakeDevice;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    device = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'NIGHT-DESK' });
    away = await buildDevice(dashboard.app, tenant.orgId);
    agent = await connectDevice(dashboard.app, device.token);
    log = new LoggingDevice(agent);
    void log.serve();
  });
  after(() => agent.close());

  const openLog = (query = '') =>
    dashboard.open(`/devices/${device.deviceId}/logs${query}`, { person: tenant.admin, timezoneId: 'UTC' });
  const rowsOf = (page: Page) => page.getByRole('grid').getByRole('row');
  const message = (page: Page, text: string) => page.getByRole('gridcell', { name: text });

  it('answers a caller, by keys alone: from the fleet to an error, its fields, what was around it, and a file', async () => {
    const page = await dashboard.open('/devices', { person: tenant.admin, timezoneId: 'UTC' });
    const keys = new Keyboard(page);
    const found = page
      .getByRole('grid', { name: 'Devices' })
      .getByRole('row')
      .filter({ hasText: 'NIGHT-DESK' });
    await found.waitFor();
    await keys.press('/');
    await keys.hasFocus(page.getByRole('textbox', { name: 'Search devices' }));
    await keys.type('night');
    await page.getByText('1 of 2 shown').waitFor();
    await keys.use(found);
    await keys.to(page.getByRole('tab', { name: 'Summary' }));
    await keys.press('ArrowLeft', 'Enter');
    await message(page, 'A bad block at 0x120.').waitFor();
    // The third from the top, by the keys that need no hand at the pointer.
    await keys.press('j', 'j', 'j', 'Enter');
    const panel = page.getByRole('complementary', { name: 'Entry' });
    await panel.getByText('Accepted key 118.').waitFor();
    await keys.press('ArrowUp');
    await panel.getByText('Accepted key 119.').waitFor();
    await keys.press('k');
    await panel.getByText('A bad block at 0x120.').waitFor();
    expect(new URL(page.url()).searchParams.get('record')).to.equal('120');
    await keys.use(panel.getByRole('button', { name: 'Show 20 entries before and after' }));
    await panel.getByRole('region', { name: 'Context' }).getByText('Accepted key 101.').waitFor();
    await assertAccessible(page);

    await keys.use(panel.getByRole('button', { name: 'Only entries with this source' }));
    await message(page, 'A bad block at 0x10.').waitFor();
    expect(log.queries.at(-1)).to.deep.include({ source: 'disk', page: 1, limit: 500 });
    expect(await rowsOf(page).count()).to.equal(COUNT / 10 + 1);
    await keys.press('Escape');
    await keys.hasFocus();
    await keys.press('e');
    const saving = page.waitForEvent('download');
    await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'CSV' }));
    const chunks: Buffer[] = [];
    for await (const chunk of await (await saving).createReadStream()) chunks.push(Buffer.from(chunk));
    const lines = Buffer.concat(chunks).toString().trim().split('\r\n');
    expect(lines).to.have.length(COUNT / 10 + 1);
    expect(lines[1]).to.contain('2026-03-01T02:00:00.000Z,Error,disk,7,A bad block at 0x120.');
  });

  it('reads on from a part of the picture, and the address shows another person the same', async () => {
    const page = await openLog();
    const picture = page.getByRole('slider', { name: /^Entries over time/ });
    await picture.focus();
    for (const key of ['Home', 'Shift+ArrowRight', 'Enter']) await page.keyboard.press(key);
    await message(page, 'Accepted key 1.').waitFor();
    const { searchParams, pathname, search } = new URL(page.url());
    expect(searchParams.get('from')).to.contain('2026-03-01T00:0');
    expect(Number(log.queries.at(-1)?.['limit'])).to.equal(500);
    const shown = await rowsOf(page).count();
    expect(shown).to.be.below(COUNT);
    const other = await dashboard.open(pathname + search, { person: tenant.admin, timezoneId: 'UTC' });
    await message(other, 'Accepted key 1.').waitFor();
    expect(await rowsOf(other).count()).to.equal(shown);
  });

  it('keeps what came when a query is cancelled, and the device hears of it', async () => {
    const page = await openLog();
    await message(page, 'A bad block at 0x120.').waitFor();
    await page.keyboard.press('f');
    await page.keyboard.type('slow');
    await page.keyboard.press('Enter');
    await page.getByText(/2 have arrived/).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(/^Cancelled after .* The 2 entries that had arrived are kept\./).waitFor();
    expect(await rowsOf(page).count()).to.equal(3);
    await eventually(
      () => log.cancelled.length,
      (count) => count > 0,
    );
  });

  it('follows new entries, stands still while a person reads, and goes on after a lost connection', async () => {
    const page = await openLog();
    await message(page, 'A bad block at 0x120.').waitFor();
    let lose = async () => {};
    await page.routeWebSocket(/hub/, (socket) => {
      socket.connectToServer();
      lose = () => socket.close();
    });
    await page.reload();
    await message(page, 'A bad block at 0x120.').waitFor();
    await page.keyboard.press('t');
    await page.getByRole('button', { name: 'Following: pause' }).waitFor();
    await log.write(121);
    await message(page, 'Accepted key 121.').waitFor();
    await page.getByRole('grid').hover();
    await page.mouse.wheel(0, 400);
    await page.getByRole('button', { name: /^Paused/ }).waitFor();
    await log.write(122, 123);
    await page.getByRole('button', { name: '2 new: show' }).click();
    await message(page, 'Accepted key 123.').waitFor();
    const { tails } = log;
    await lose();
    await eventually(
      () => log.tails,
      (count) => count > tails,
    );
    await log.write(124);
    await message(page, 'Accepted key 124.').waitFor();
    await page.getByRole('button', { name: 'Following: pause' }).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys of the event log' }).waitFor();
  });

  it('of a device that is away says since when, and offers what is stored', async () => {
    await dashboard.app.call('PUT', `/agents/${away.deviceId}/eventlogs`, {
      token: away.token,
      body: {
        events: [
          {
            timestamp: '2026-03-01T00:00:00.000Z',
            level: 'error',
            category: 'system',
            source: 'disk',
            eventId: '7',
            message: 'A stored bad block.',
          },
        ],
      },
    });
    const page = await dashboard.open(`/devices/${away.deviceId}/logs`, { person: tenant.admin });
    await page.getByRole('heading', { name: 'The device is not connected' }).waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Show stored events' }).click();
    await message(page, 'A stored bad block.').waitFor();
    await assertAccessible(page);
  });

  it('has one tab of the device for both sources, with a switch between them', async () => {
    const entry = { timestamp: '2026-03-01T00:00:00.000Z', category: 'system', source: 'disk', eventId: '7' };
    await dashboard.app.call('PUT', `/agents/${device.deviceId}/eventlogs`, {
      token: device.token,
      body: { events: [{ ...entry, level: 'error', message: 'A stored bad block.' }] },
    });
    const page = await dashboard.open(`/devices/${device.deviceId}`, { person: tenant.admin });
    const tabs = page.getByRole('tab', { name: /event/i });
    await tabs.first().waitFor();
    expect(await tabs.allTextContents()).to.deep.equal(['Event log']);
    await tabs.click();
    const source = (name: string) => page.getByRole('radio', { name, exact: true });
    const choose = (name: string) => page.locator('label', { hasText: name }).click();
    await message(page, 'A bad block at 0x120.').waitFor();
    expect(await source('Live from the device').isChecked()).to.equal(true);

    await choose('Stored on the server');
    await message(page, 'A stored bad block.').waitFor();
    expect(await message(page, 'A bad block at 0x120.').count()).to.equal(0);
    expect(new URL(page.url()).searchParams.get('stored')).to.equal('true');
    await assertAccessible(page);
    // Back in the browser leads back to what was shown before.
    await page.goBack();
    await message(page, 'A bad block at 0x120.').waitFor();
    expect(await source('Live from the device').isChecked()).to.equal(true);
    await page.goForward();
    await choose('Live from the device');
    await message(page, 'A bad block at 0x120.').waitFor();
  });

  it('of many devices tells how each of them answered', async () => {
    const devices = encodeURIComponent(JSON.stringify([device.deviceId, away.deviceId]));
    const page = await dashboard.open(`/event-logs?log=System&source=disk&devices=${devices}`, {
      person: tenant.admin,
    });
    await page.getByRole('button', { name: 'Run query' }).click();
    await page.getByRole('tab', { name: 'Answered 1' }).waitFor();
    await message(page, 'A bad block at 0x120.').waitFor();
    await assertAccessible(page);
    await page.getByRole('tab', { name: 'Offline 1' }).click();
    await page.getByRole('grid').getByRole('link').click();
    await page.waitForURL(/stored=true/);
  });

  it('of devices that are offline are asked later, by keys alone, and their answers are read', async () => {
    const late = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'LATE-DESK' });
    const devices = encodeURIComponent(JSON.stringify([late.deviceId]));
    const page = await dashboard.open(`/event-logs?log=System&source=disk&devices=${devices}`, {
      person: tenant.admin,
    });
    const keys = new Keyboard(page);
    await keys.use(page.getByRole('button', { name: 'Run query' }));
    await page.getByRole('tab', { name: 'Offline 1' }).waitFor();
    await keys.to(page.getByRole('tab', { name: /^Entries/ }));
    await keys.press('ArrowRight', 'ArrowRight', 'ArrowRight');
    await keys.use(page.getByRole('button', { name: 'Ask them when they come back' }));
    const dialog = page.getByRole('dialog', { name: 'Ask 1 device later' });
    await dialog.getByLabel('Name').waitFor();
    await assertAccessible(page);
    await dialog.getByLabel('Name').fill('Disks of the late desk');
    await keys.use(dialog.getByRole('button', { name: 'Ask when they come back' }));
    await page.getByRole('heading', { name: 'Disks of the late desk' }).waitFor();
    await page.getByText('0 of 1 answered, 1 waiting').waitFor();
    await assertAccessible(page);

    const back = await connectDevice(dashboard.app, late.token);
    const logOfLate = new LoggingDevice(back);
    void logOfLate.serve();
    await eventually(
      async () => {
        await asOwner(
          dashboard.app.database.ownerUrl,
          `update work set due_at = now() where kind = 'event_log_question' and stage = 'ready'`,
        );
        await dashboard.app.settle();
        return logOfLate.queries.length;
      },
      (count) => count === 1,
    );
    await dashboard.app.settle();
    await page.goto(`${dashboard.app.url}/event-logs/questions`);
    await page.getByText('1 of 1 answered').waitFor();
    await assertAccessible(page);
    const onList = new Keyboard(page);
    await onList.use(page.getByRole('link', { name: 'Disks of the late desk' }));
    await onList.use(page.getByRole('link', { name: 'LATE-DESK' }));
    await message(page, 'A bad block at 0x120.').waitFor();
    await assertAccessible(page);
    back.close();
  });
});
