import { createHash } from 'node:crypto';
import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import { addressKey } from '../../email-address.ts';
import { type Caller, holds } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem, withTenant } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import { TimeZone } from '../../platform/http/fields.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Mailer } from '../../platform/mail.ts';
import { loadUserRights } from '../auth/index.ts';
import { reachesOwner } from '../owners/index.ts';
import { knownPeople } from '../users/index.ts';
import { lastDue, monthBefore, nextDue } from './due-times.ts';
import { reportMail } from './report-mail.ts';
import { ReportSchedule } from './report-schedule.model.ts';
import { lockDueSchedules, organizationsOf, storeDue, storePause } from './report-schedule.queries.ts';
import { readMonthReport } from './report.service.ts';

const EVERY_MS = 30_000;
const AT_ONCE = 50;

/** Once added, it is tried for a day: for so long, a mail that was sent is known by its key. */
const MAIL_REPORTS = defineJob({
  name: 'reports.mail',
  input: z.object({ scheduleId: z.string(), month: z.string() }),
  result: z.object({ mails: z.number() }),
  attempts: 10,
  backOff: { firstMs: 30_000, longestMs: 3_600_000 },
});

interface RoundParts {
  /** The pool of background work, so that requests and devices do not wait for its connections. */
  backgroundDb: Db;
  jobs: Jobs;
  log: Logger;
}

/** Adds the job of each schedule that is due, and notes when it is due next, in one transaction. Every server has one. */
export class ReportRounds {
  readonly #parts: RoundParts;
  readonly #checks: RepeatedCheck;

  constructor(parts: RoundParts) {
    this.#parts = parts;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.#addDue(),
      onFailing: (error) => parts.log.warn({ err: error }, 'reports.not_begun'),
    });
  }

  start(): void {
    this.#checks.start();
  }

  settle(): Promise<void> {
    return this.#checks.settle();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  async #addDue(): Promise<void> {
    const { backgroundDb, jobs } = this.#parts;
    const now = clock.date();
    await withSystem(backgroundDb, 'begin the reports that are due', async (tx) => {
      for (const schedule of await lockDueSchedules(tx, now, AT_ONCE)) {
        const { id, partnerId } = schedule;
        // What this server does not know for a time zone, perhaps another release did. The others must not wait for it.
        const timezone = TimeZone.catch('UTC').parse(schedule.timezone);
        const times = { dayOfMonth: schedule.dayOfMonth, time: schedule.time, timezone };
        const due = lastDue(times, schedule.dueAt ?? now, now);
        await storeDue(tx, id, { dueAt: nextDue(times, now), lastDueAt: due });
        const input = { scheduleId: id, month: monthBefore(due, timezone) };
        await jobs.enqueue(tx, MAIL_REPORTS, input, {
          key: `${id} ${due.toISOString()}`,
          partnerId,
          deadlineMs: DAY_MS,
        });
      }
    });
  }
}

interface MailParts {
  jobs: Jobs;
  db: Db;
  mailer: Mailer;
  audit: Pick<AuditTrail, 'record'>;
  log: Logger;
  baseUrl: () => string;
}

export function addReportMails({ jobs, ...parts }: MailParts): void {
  jobs.handle(MAIL_REPORTS, async ({ input, signal }) => ({
    mails: await mailReports(parts, input, signal),
  }));
}

type Mailing = z.infer<typeof MAIL_REPORTS.input>;

/** Mails the report of each organization of a schedule. One that fails does not keep back the others. */
async function mailReports(
  parts: Omit<MailParts, 'jobs'>,
  { scheduleId, month }: Mailing,
  signal: AbortSignal,
): Promise<number> {
  const { db } = parts;
  const found = await withSystem(db, 'what a schedule of reports mails', async (tx) => {
    const schedule = await ReportSchedule.query(tx).findById(scheduleId);
    // It was paused or deleted since it was due.
    if (schedule === undefined || schedule.dueAt === null) return undefined;
    const person = await personOf(tx, schedule);
    if (typeof person === 'string') {
      await pause(tx, parts, schedule, person);
      return undefined;
    }
    return { schedule, person, orgIds: await organizationsOf(tx, schedule) };
  });
  if (found === undefined) return 0;
  const { schedule, person, orgIds } = found;
  let [mails, fault]: [number, unknown] = [0, undefined];
  for (const orgId of orgIds) {
    signal.throwIfAborted();
    try {
      mails += await withTenant(db, person, (tx) =>
        mailReport(tx, parts, { schedule, person, orgId, month }),
      );
    } catch (error) {
      // The organization is younger than the month.
      if (error instanceof AppError && error.code === 'validation_failed') continue;
      fault = error;
    }
  }
  if (fault !== undefined) throw fault;
  return mails;
}

/** The mails of one report are added with one transaction: all of them, or none. */
async function mailReport(
  tx: Tx,
  { mailer, baseUrl }: Pick<MailParts, 'mailer' | 'baseUrl'>,
  {
    schedule,
    person,
    orgId,
    month,
  }: { schedule: ReportSchedule; person: Caller; orgId: string; month: string },
): Promise<number> {
  const report = await readMonthReport({ tx, caller: person }, { orgId, month });
  const people = await knownPeople({ tx, caller: person }, schedule.userIds);
  const recipients = new Map(
    [...[...people.values()].map(({ email }) => email), ...schedule.addresses].map((to) => [
      addressKey(to),
      to,
    ]),
  );
  for (const [key, to] of recipients) {
    await mailer.send(tx, reportMail(to, report, baseUrl()), {
      partnerId: schedule.partnerId,
      key: [schedule.id, orgId, month, digest(key)].join(' '),
    });
  }
  return recipients.size;
}

/** An address may be longer than a key. */
const digest = (text: string) => createHash('sha256').update(text).digest('base64url');

/** What the person who set a schedule up needs still. */
const NEEDED = ['organizations:write', 'devices:read'];

/** The person by whose rights a schedule is made, or why it is not. */
async function personOf(tx: Tx, { personId, partnerId, orgId }: ReportSchedule): Promise<Caller | string> {
  const rights = personId === null ? undefined : await rightsOf(tx, personId);
  if (typeof rights === 'string') return rights;
  if (rights === undefined) return 'The person who set it up has left.';
  const missing = NEEDED.find((permission) => !holds(rights.permissions, permission));
  if (missing !== undefined) return `The person who set it up does not hold ${missing} any more.`;
  if (!reachesOwner(rights, { partnerId, orgId })) {
    return 'The person who set it up does not have access any more.';
  }
  return { ...rights, kind: 'user', sessionId: null, apiKeyId: null };
}

async function rightsOf(tx: Tx, personId: string) {
  try {
    return await loadUserRights(tx, personId);
  } catch (error) {
    if (error instanceof AppError && error.code === 'partner_inactive') return error.message;
    throw error;
  }
}

async function pause(
  tx: Tx,
  { audit, log }: Pick<MailParts, 'audit' | 'log'>,
  { id, name, orgId, partnerId }: ReportSchedule,
  reason: string,
): Promise<void> {
  if (!(await storePause(tx, id, reason))) return;
  log.warn({ scheduleId: id, reason }, 'reports.schedule_paused');
  await audit.record(tx, {
    resourceType: 'report_schedule',
    resourceId: id,
    resourceName: name,
    action: 'report_schedule.pause',
    details: { reason },
    actor: { kind: 'system', orgId, partnerId },
    state: { client: { ip: null, userAgent: null }, log },
  });
}
