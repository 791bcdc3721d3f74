import { AlertRounds, type RoundTiming } from '../../src/features/alert-rules/alert-rule.work.ts';
import { FigureWatch, RuleBook } from '../../src/features/alert-rules/index.ts';
import { withSystem } from '../../src/platform/db/transaction.ts';
import type { EnrolledDevice } from './factories.ts';
import { quietLog } from './quiet-log.ts';
import type { TestApp } from './test-app.ts';

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

  /**
   * A server that has just started, and compares figures with the rules of this moment.
   * @param firstSamplesMs  how long it waits for samples before heartbeats count
   */
  const newWatch = async (firstSamplesMs = 0) => {
    const parts = { db: app.server.database.hubPool, log: quietLog };
    const book = new RuleBook(parts);
    await book.settle();
    // It would go on reading the rules after the test.
    await book.close();
    return new FigureWatch({ ...parts, book, firstSamplesMs });
  };
  /** The organization has this rule, beside those with which it begins. */
  const rule = async (token: string, body: object): Promise<string> => {
    const answer = await app.call('POST', '/alert-rules', {
      token,
      body: { severity: 'high', target: { all: true }, name: `Rule ${++named}`, ...body },
    });
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body.id;
  };
  let named = 0;

  return {
    sql,
    newWatch,
    rule,
    /** The first rule of an organization that raises alerts of a kind. */
    ruleOf: async (orgId: string, alertKind: string): Promise<string> => {
      const [first] = await sql<{ id: string }>(
        'select id from alert_rules where org_id = ? and alert_kind = ? order by id',
        [orgId, alertKind],
      );
      if (first === undefined) throw new Error(`There is no rule for ${alertKind}.`);
      return first.id;
    },
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
    /** The device says over its connection how full its disk is. */
    disk: async ({ deviceId }: Pick<EnrolledDevice, 'deviceId'>, diskPercent: number) => {
      const watch = await newWatch();
      watch.heard([{ deviceId, metrics: { cpuPercent: 1, ramPercent: 1, diskPercent } }]);
      await watch.settle();
    },
  };
}
