import { type NewAlert, raiseAlerts } from '../src/features/alerts/index.ts';
import { withSystem } from '../src/platform/db/transaction.ts';
import { notificationGround } from '../test/support/notifications/notification-ground.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:notifications` raises 1,000 alerts in a minute, each in a transaction of its own, and measures how long
 * each takes until a local receiver has its message, with the timing of a real server. Policies tell them one by one.
 * Then it raises 10,000 alerts at once, which one message tells. For comparison it raises alerts that no policy fits, so
 * that the ratio says what notifications cost the transaction of an alert.
 */

const ALERTS = 1000;
const WITHIN_MS = 60_000;
const STORM = 10_000;
const COMPARED = 300;

const ground = await notificationGround({ notifications: { everyMs: 1000 } });
const arrived = new Map<string, number>();

const quantile = (values: readonly number[], share: number) =>
  Math.round(values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const raise = (alerts: readonly NewAlert[]) =>
  withSystem(ground.app.server.database.pool, 'raise alerts', (tx) => raiseAlerts(tx, alerts));
const alert = (title: string, severity: NewAlert['severity'] = 'high'): NewAlert => ({
  orgId: ground.tenant.orgId,
  kind: title.replace(' ', '_'),
  severity,
  title,
  message: 'It is a measurement.',
});

/** Notes when each message arrived. */
function note(): void {
  for (const { body } of ground.receivers.got.slice(arrived.size)) arrived.set(body.text, performance.now());
}

/** Until the receiver has so many messages, and no longer than two minutes. */
async function received(count: number): Promise<void> {
  for (let waited = 0; waited < 120_000 && ground.receivers.got.length < count; waited += 20) {
    note();
    await pause(20);
  }
  note();
}

/** How long a transaction with one alert takes, in ms. */
async function raising(severity: NewAlert['severity'], name: string): Promise<number> {
  const times: number[] = [];
  for (let nth = 0; nth < COMPARED; nth += 1) {
    const startedAt = performance.now();
    await raise([alert(`${name} ${nth}`, severity)]);
    times.push(performance.now() - startedAt);
  }
  return times.toSorted((a, b) => a - b)[COMPARED / 2] ?? 0;
}

try {
  const unheard = await raising('low', 'unheard');
  const { id } = await ground.channel('slack', 'bench');
  const steps = [{ afterMinutes: 0, channelIds: [id] }];
  await ground.policy({ match: { severities: ['high'] }, steps });
  await ground.policy({ match: { severities: ['critical'] }, steps, groupBy: 'device', groupSeconds: 1 });
  const heard = await raising('high', 'heard');
  await received(COMPARED);

  const begun = new Map<string, number>();
  const base = arrived.size;
  const watching = received(base + ALERTS);
  const startedAt = performance.now();
  for (let nth = 0; nth < ALERTS; nth += 1) {
    const title = `told ${nth}`;
    await raise([alert(title)]);
    begun.set(title, performance.now());
    await pause(Math.max(0, startedAt + ((nth + 1) * WITHIN_MS) / ALERTS - performance.now()));
  }
  await watching;
  const waits = [...begun].flatMap(([title, at]) => {
    const end = arrived.get(title);
    return end === undefined ? [] : [end - at];
  });

  const before = ground.receivers.got.length;
  const storm = performance.now();
  await raise(
    Array.from({ length: STORM }, (_none, nth) => ({
      ...alert(`storm ${nth}`, 'critical'),
      kind: `storm_${nth}`,
    })),
  );
  const raised = performance.now();
  await pause(8000);
  console.table({
    'alerts in a minute, and received': `${ALERTS} / ${waits.length}`,
    'raised to received, p50 / p95 / longest, in ms': [0.5, 0.95, 1]
      .map((part) => quantile(waits, part))
      .join(' / '),
    'raising an alert that somebody is told, to one that nobody is':
      Math.round((heard / unheard) * 100) / 100,
    [`a storm of ${STORM} is raised in ms`]: Math.round(raised - storm),
    'messages of the storm within 8 s': ground.receivers.got.length - before,
  });
} finally {
  await ground.close();
  await stopTestPostgres();
}
