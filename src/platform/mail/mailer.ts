import type { Tx } from '../db/transaction.ts';
import { defineJob, PermanentJobFailure } from '../jobs/definition.ts';
import type { EnqueueOptions, Jobs } from '../jobs/jobs.ts';
import type { Deliver } from './delivery.ts';
import { Mail } from './mail.ts';

export interface MailOptions extends Pick<EnqueueOptions, 'partnerId'> {
  /** After this time the mail is of no use, because the link in it has expired. Default: 1 day. */
  validForMs?: number;
}

/** The outbox: a mail is a sealed background job, which is sent after the transaction and retried until it is sent. */
export interface Mailer {
  /** Adds the mail in the transaction of the action that it is about: both are committed, or neither is. */
  send(tx: Tx, mail: Mail, options?: MailOptions): Promise<void>;
}

const DAY_MS = 24 * 3_600_000;

/** The attempts take about six hours in all, in which a mail server can be repaired. */
const SEND_MAIL = defineJob({
  name: 'mail.send',
  input: Mail,
  isSealed: true,
  attempts: 16,
  backOff: { firstMs: 5000, longestMs: 3_600_000 },
  concurrency: 4,
});

export function createMailer(jobs: Jobs, deliver: Deliver): Mailer {
  jobs.handle(SEND_MAIL, async ({ input: mail, log }) => {
    try {
      await deliver(mail);
    } catch (error) {
      log.warn({ err: error, to: mail.to, subject: mail.subject }, 'mail.failed');
      if (isRefusal(error)) {
        throw new PermanentJobFailure('The mail server refuses the mail.', { cause: error });
      }
      throw error;
    }
  });
  return {
    async send(tx, mail, { partnerId, validForMs = DAY_MS } = {}) {
      await jobs.enqueue(tx, SEND_MAIL, mail, {
        deadlineMs: validForMs,
        ...(partnerId === undefined ? {} : { partnerId }),
      });
    },
  };
}

/** Whether the mail server has refused this mail or its address for good, unlike one that refuses our credentials. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || !('responseCode' in error)) return false;
  const { code, responseCode } = error;
  return (code === 'EENVELOPE' || code === 'EMESSAGE') && Number(responseCode) >= 500;
}
