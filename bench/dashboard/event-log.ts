import { connectDevice } from '../../test/support/fake-device.ts';
import type { LogEntry } from '../../src/protocol/index.ts';
import { countFrames, held, type Frames, type Held, type Ground } from './ground.ts';

const ROWS = '[data-log-rows]';
const SECONDS = 10;
const PER_SECOND = 1_000;
const AT_ONCE = 50;
/** As the viewer asks for. */
const PAGE = 500;

export interface EventLogResult {
  quiet: Frames;
  following: Frames;
  paused: Frames;
  /** Before the flood, and after it. */
  memory: { before: Held; after: Held };
  entries: number;
}

/** The viewer of a log while its device writes 1,000 entries a second. */
export async function measureEventLog(ground: Ground): Promise<EventLogResult> {
  const { logging } = await ground.parts();
  const agent = await connectDevice(ground, logging.token);
  let entries = 0;
  let sends: NodeJS.Timeout | undefined;
  const serve = async () => {
    for (;;) {
      const frame = await agent.nextCommand();
      if (frame.type === 'eventlogs.list') {
        const log = { name: 'System', displayName: 'System', maxSize: 1, retentionDays: 30, recordCount: 1 };
        await agent.succeed(frame, { logs: [{ ...log, lastWriteTime: new Date().toISOString() }] });
      } else if (frame.type === 'eventlogs.tail') {
        let seq = 0;
        const startedAt = performance.now();
        let sent = 0;
        sends = setInterval(() => {
          const due = ((performance.now() - startedAt) / 1000) * PER_SECOND;
          for (; sent + AT_ONCE <= due; sent += AT_ONCE) {
            const rows = Array.from({ length: AT_ONCE }, () => entryOf(++entries));
            agent.rows(frame, rows, seq++).catch(() => clearInterval(sends));
          }
        }, 20);
      } else {
        for (let seq = 0; seq * AT_ONCE < PAGE; seq++) {
          const rows = Array.from({ length: AT_ONCE }, () => entryOf(++entries));
          await agent.rows(frame, rows, seq);
        }
        await agent.succeed(frame, { scanned: PAGE, truncated: false, total: PAGE });
      }
    }
  };
  void serve();
  const page = await ground.open(`/devices/${logging.deviceId}/logs`);
  await page.getByRole('button', { name: 'Refresh' }).waitFor();
  await page.locator(ROWS).waitFor();
  const quiet = await countFrames(page, SECONDS, ROWS);
  await page.evaluate(`document.querySelector('${ROWS}').scrollTop = 0`);
  const before = await held(page);
  await page.keyboard.press('t');
  await page.getByRole('button', { name: 'Following: pause' }).waitFor();
  // So long that the viewer holds as many rows as it may.
  await page.waitForTimeout(SECONDS * 1000);
  const following = await countFrames(page, SECONDS);
  await page.locator(ROWS).hover();
  await page.mouse.wheel(0, 400);
  await page.getByRole('button', { name: /^Paused/ }).waitFor();
  const paused = await countFrames(page, SECONDS, ROWS);
  const after = await held(page);
  clearInterval(sends);
  agent.close();
  await page.context().close();
  return { quiet, following, paused, memory: { before, after }, entries };
}

function entryOf(recordId: number): LogEntry {
  return {
    recordId,
    timeCreated: new Date().toISOString(),
    level: recordId % 50 === 0 ? 'error' : 'information',
    source: `service-${recordId % 12}`,
    eventId: recordId % 90,
    message: `Connection ${recordId} from 10.0.${recordId % 256}.7 was accepted and handed to worker ${recordId % 7}.`,
    category: 'System',
    user: null,
    computer: 'DESK-1',
  };
}
