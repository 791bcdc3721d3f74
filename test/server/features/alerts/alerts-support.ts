import { AlertRounds, type RoundTiming } from '../../../../src/features/alerts/alert.work.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import type { EnrolledDevice } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import type { TestApp } from '../../../support/test-app.ts';

/** A server's rounds, had when the test says so, and time that the test moves by moving what is stored. */
export function alertGround(app: TestApp) {
  const sql = async <Row = Record<string, unknown>>(text: string, values: (string | number | null)[] = []) =>
    withSystem(app.server.database.pool, 'test', async (tx) => {
      const { rows } = await tx.raw<{ rows: Row[] }>(text, values as string[]);
      return rows;
    });

  const newRounds = (timing: RoundTiming = { everyMs: 0, wholeEveryMs: 3_600_000 }) =>
    new AlertRounds({ db: app.server.database.hubPool, log: quietLog, timing });
  const rounds = newRounds();

  return {
    sql,
    newRounds,
    /** A round of what has changed. */
    short: async () => {
      await sql(
        `update alert_rounds set whole_at = now(), watched_since = now() - interval '30 minutes', through = now() - interval '30 seconds'`,
      );
      return rounds.round();
    },
    /** A round of everything. */
    whole: async () => {
      await sql(
        `update alert_rounds set whole_at = '-infinity', watched_since = now() - interval '30 minutes', through = now() - interval '30 seconds'`,
      );
      return rounds.round();
    },
    /** The device has been gone for so long. */
    gone: async (
      { deviceId }: Pick<EnrolledDevice, 'deviceId'>,
      minutes: number,
      reason = 'socket_closed',
    ) => {
      await sql(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at)
        select id, org_id, 1, 'test', 'disconnected', now() - ? * interval '1 minute', ?, now() - ? * interval '1 minute'
        from devices where id = ?
        on conflict (device_id) do update set state = 'disconnected', since = excluded.since, reason = excluded.reason,
          reports_until = null`,
        [minutes, reason, minutes, deviceId],
      );
    },
    back: async ({ deviceId }: Pick<EnrolledDevice, 'deviceId'>, minutes: number) => {
      await sql(
        `update device_presence set state = 'connected', reason = 'connected', reports_until = null,
          since = now() - ? * interval '1 minute' where device_id = ?`,
        [minutes, deviceId],
      );
    },
    disk: async ({ deviceId }: Pick<EnrolledDevice, 'deviceId'>, percent: number, minutesAgo = 0) => {
      await sql(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, disk_percent, metrics_at)
        select id, org_id, 1, 'test', 'connected', now(), 'connected', ?, now() - ? * interval '1 minute'
        from devices where id = ?
        on conflict (device_id) do update set disk_percent = excluded.disk_percent, metrics_at = excluded.metrics_at`,
        [percent, minutesAgo, deviceId],
      );
    },
  };
}
