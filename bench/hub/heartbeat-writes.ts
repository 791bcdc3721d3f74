import { openDatabase } from '../../src/platform/db/database.ts';
import { quietLog } from '../../test/support/quiet-log.ts';
import pg from 'pg';
import { createAuditTrail } from '../../src/features/audit/index.ts';
import { createDeviceStore } from '../../src/features/devices/index.ts';
import type { PresenceRecord } from '../../src/hub/ports.ts';
import { PresenceWriter } from '../../src/hub/presence/presence-writer.ts';
import { createDurableDatabase } from './durable-database.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import { type Figure, median, rounded } from './harness.ts';

const DEVICES = 10_000;
const CONNECTIONS = 8;
const SECONDS = 5;
const TURNS = 3;

/**
 * The writer's update for a single device by its primary key, prepared once and sent in as few messages as possible.
 */
const UPSERT = `insert into device_presence as p (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at,
    last_ip, cpu_percent, ram_percent, disk_percent, metrics_at, uptime_seconds)
  select $1::uuid, d.org_id, $2::bigint, 'node', $3::text, $4::timestamptz, $5::text, $6::timestamptz, $7::text,
    $8::real, $9::real, $10::real, $6::timestamptz, $11::bigint
  from devices d where d.id = $1::uuid
  on conflict (device_id) do update set epoch = excluded.epoch, node_id = excluded.node_id, state = excluded.state,
    since = excluded.since, reason = excluded.reason,
    last_seen_at = greatest(p.last_seen_at, excluded.last_seen_at), last_ip = excluded.last_ip,
    cpu_percent = excluded.cpu_percent, ram_percent = excluded.ram_percent, disk_percent = excluded.disk_percent,
    metrics_at = excluded.metrics_at, uptime_seconds = excluded.uptime_seconds
  where p.epoch <= excluded.epoch`;

/**
 * Heartbeats of 10,000 devices, counted when they are in the database. The hub's writer receives them all and is
 * flushed at once, as when a server stops; in production it flushes every half second. The baseline is one
 * transaction per heartbeat under row-level security in the same durable database: `begin` with the role in one
 * message, a prepared statement, `commit`, over 8 connections of the bare driver. Both alternate; values are medians
 * of the turns.
 */
export const heartbeatWrites: Figure = {
  number: 8,
  title: 'Heartbeats persisted per second',
  async measure() {
    const { database, deviceIds } = await enrolledDevices(DEVICES, await createDurableDatabase());
    const opened = await openDatabase({
      ownerUrl: undefined,
      appUrl: database.appUrl,
      autoMigrate: false,
      poolSize: 2 * CONNECTIONS,
      log: quietLog,
    });
    const audit = createAuditTrail({ wake() {} });
    const store = createDeviceStore({ db: opened.hubPool, nodeId: 'node', audit, log: quietLog });
    const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client(database.appUrl));
    try {
      for (const client of clients) await client.connect();
      const behind = async () => {
        const writer = new PresenceWriter(store, quietLog);
        for (const deviceId of deviceIds) writer.presence(recordOf(deviceId));
        await writer.close();
        if (writer.pending > 0) throw new Error('The writer did not write all heartbeats.');
        return DEVICES;
      };
      let next = 0;
      const over = (client: pg.Client) => async () => {
        await writeOne(client, recordOf(deviceIds[next++ % DEVICES] ?? ''));
        return 1;
      };
      // The connections work independently.
      const eachByItself = async (seconds: number) => {
        const rates = await Promise.all(clients.map((client) => rate(over(client), seconds)));
        return rates.reduce((sum, one) => sum + one, 0);
      };
      // Creates every row before the measurement starts.
      await behind();
      await eachByItself(1);
      const writer: number[] = [];
      const single: number[] = [];
      for (let turn = 0; turn < TURNS; turn++) {
        writer.push(await rate(behind, SECONDS));
        single.push(await eachByItself(SECONDS));
      }
      return [
        {
          what: 'heartbeats persisted per second, relative to one transaction each',
          value: rounded(median(writer) / median(single), 1),
          unit: 'ratio',
          better: 'higher',
          target: 15,
          stretchTarget: 25,
          measured: {
            musterPerSecond: Math.round(median(writer)),
            transactionEachPerSecond: Math.round(median(single)),
          },
        },
      ];
    } finally {
      for (const client of clients) await client.end();
      await opened.close();
      await database.drop();
    }
  },
};

async function rate(work: () => Promise<number>, seconds: number): Promise<number> {
  const startedAt = performance.now();
  let written = 0;
  while (performance.now() - startedAt < seconds * 1000) {
    const count = await work();
    written += count;
  }
  return written / ((performance.now() - startedAt) / 1000);
}

function recordOf(deviceId: string): PresenceRecord {
  return {
    deviceId,
    epoch: 1,
    presence: { state: 'connected', since: '2026-11-20T10:00:00.000Z', reason: 'connected' },
    lastSeenAt: new Date().toISOString(),
    lastIp: '192.0.2.7',
    metrics: { cpuPercent: 12.5, ramPercent: 41.25, diskPercent: 63 },
    uptimeSeconds: 11_086_412,
  };
}

async function writeOne(client: pg.Client, record: PresenceRecord): Promise<void> {
  const { presence, metrics } = record;
  await client.query('begin; set local role svc_system');
  await client.query({
    name: 'heartbeat',
    text: UPSERT,
    values: [
      record.deviceId,
      record.epoch,
      presence.state,
      presence.since,
      presence.reason,
      record.lastSeenAt,
      record.lastIp,
      metrics?.cpuPercent,
      metrics?.ramPercent,
      metrics?.diskPercent,
      record.uptimeSeconds,
    ],
  });
  await client.query('commit');
}
