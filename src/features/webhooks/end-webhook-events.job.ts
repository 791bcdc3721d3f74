import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { RowPruner } from '../../platform/jobs/row-pruner.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  addComingWebhookPartitions,
  dropWebhookPartition,
  endedWebhookPartitions,
  PARTITIONED,
} from './webhook-partition.queries.ts';
import { EVENT_DAYS, webhookRetention } from './webhook.model.ts';

const EventsEnded = z.object({
  /** Partitions. */
  dropped: z.number(),
  /** Rows, one by one. */
  removed: z.number(),
  /** How many partitions or tables were left for the next run because of an error. */
  failed: z.number(),
});
type EventsEnded = z.infer<typeof EventsEnded>;

const END = defineJob({
  name: 'webhooks.end',
  input: z.object({}),
  result: EventsEnded,
  inCluster: 1,
  // What is dropped or removed stays so.
  resumes: true,
});

const TRIES = 5;
const PAUSE_MS = 1000;

interface Parts {
  db: Db;
  log: Logger;
  /** How often a partition is tried that is in use at that moment, with a pause between. */
  tries?: number;
}

/** Ends events of webhooks that were kept long enough, with their deliveries, once a day. */
export function endWebhookEventsRegularly({ jobs, ...parts }: Parts & { jobs: Jobs }): void {
  jobs.handle(END, ({ signal }) => endWebhookEvents(parts, clock.now(), signal));
  jobs.schedule(END, { cron: '50 3 * * *', timeZone: 'UTC' }, {});
}

/** A run that is stopped is simply repeated. */
export async function endWebhookEvents(
  { db, log, tries = TRIES }: Parts,
  now: number,
  signal?: AbortSignal,
): Promise<EventsEnded> {
  const ended: EventsEnded = { dropped: 0, removed: 0, failed: 0 };
  const attempt = async (about: object, work: () => Promise<unknown>): Promise<boolean> => {
    for (let tried = 1; ; tried += 1) {
      signal?.throwIfAborted();
      try {
        await work();
        return true;
      } catch (error) {
        if (isDatabaseAway(error)) throw error;
        if (tried < tries) {
          await clock.sleep(PAUSE_MS);
          continue;
        }
        ended.failed += 1;
        log.warn({ err: error, ...about }, 'webhooks.events_not_ended');
        return false;
      }
    }
  };
  await attempt({ what: 'coming partitions' }, () => addComingWebhookPartitions(db));
  const until = new Date(now - EVENT_DAYS * DAY_MS);
  for (const table of PARTITIONED) {
    let isWhole = true;
    for (const partition of await endedWebhookPartitions(db, table, until)) {
      isWhole = await attempt({ table, partition }, async () => {
        if (await dropWebhookPartition(db, table, partition)) ended.dropped += 1;
      });
      if (!isWhole) break;
    }
    // The events of deliveries that are still there stay as well.
    if (!isWhole) break;
  }
  const round = await new RowPruner({ db, log, rules: webhookRetention }).prune(signal);
  ended.removed = Object.values(round.removed).reduce((sum, count) => sum + count, 0);
  ended.failed += round.failed;
  if (ended.dropped + ended.removed > 0) log.info(ended, 'webhooks.events_ended');
  return ended;
}
