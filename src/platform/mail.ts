import type { Tx } from './db/transaction.ts';
import { defineJob, PermanentJobFailure } from './jobs/definition.ts';
import type { EnqueueOptions, Jobs } from './jobs/jobs.ts';
import path from 'node:path';
import nodemailer from 'nodemailer';
import type { Logger } from './logger.ts';
import { newId } from './ids.ts';
import { writePrivate } from './secrets/own-files.ts';
import { readdir, rm, stat } from 'node:fs/promises';
import { clock, DAY_MS } from '../clock.ts';
import { z } from 'zod';

export const Mail = z.object({
  to: z.string(),
  subject: z.string(),
  text: z.string(),
  html: z.string().optional(),
  /** With its angle brackets. Absent: the mail gets one of its own. */
  messageId: z.string().optional(),
  /** The mails that this one follows, each with its angle brackets: readers show them as one thread. */
  references: z.string().optional(),
});
export type Mail = z.infer<typeof Mail>;

interface MailFolderLimits {
  files: number;
  days: number;
}

/** Links in mails are valid for a week at most, so an older file is of no use. */
const MAIL_FOLDER_LIMITS: MailFolderLimits = { files: 1000, days: 30 };

/**
 * Removes the oldest mails of the folder, down to `files`, and every one that is older than `days`; drafts that a killed
 * process has left are among them. Names begin with the time at which a mail was made, so they lie in its order.
 */
export async function tidyMailFolder(
  folder: string,
  { files, days }: MailFolderLimits = MAIL_FOLDER_LIMITS,
): Promise<void> {
  const names = (await readdir(folder)).filter((name) => /\.eml(?:\.\d+\.tmp)?$/.test(name)).sort();
  const surplus = names.length - files;
  for (const [place, name] of names.entries()) {
    const file = path.join(folder, name);
    if (place >= surplus && !(await isOlder(file, days))) break;
    await rm(file, { force: true });
  }
}

async function isOlder(file: string, days: number): Promise<boolean> {
  try {
    return (await stat(file)).mtimeMs < clock.now() - days * 24 * 3_600_000;
  } catch {
    // Another server on the same folder has removed it.
    return true;
  }
}

interface DeliveryOptions {
  /** Absent: mails are written to files of `dataDir`. */
  smtpUrl: string | undefined;
  from: string;
  dataDir: string;
  log: Logger;
  /** The limits of the folder of mails. */
  folderLimits?: MailFolderLimits;
}

/** Hands a mail to the mail server, or writes it to its file. Rejects if that fails. */
export type Deliver = (mail: Mail) => Promise<void>;

const TIME_OUTS = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 15_000 };

export function createDelivery(options: DeliveryOptions): Deliver {
  return options.smtpUrl === undefined ? toFile(options) : toServer(options.smtpUrl, options);
}

/** Connects, greets and signs in, and sends no mail. Rejects if that fails. */
export async function greetMailServer(smtpUrl: string): Promise<void> {
  const server = nodemailer.createTransport({ url: smtpUrl, ...TIME_OUTS });
  try {
    await server.verify();
  } finally {
    server.close();
  }
}

function toServer(smtpUrl: string, { from, log }: DeliveryOptions): Deliver {
  const server = nodemailer.createTransport({ url: smtpUrl, ...TIME_OUTS });
  return async (mail) => {
    await server.sendMail(addressed(mail, from));
    log.info({ to: mail.to, subject: mail.subject }, 'mail.sent');
  };
}

/** The recipient is one address, of which nodemailer must not read a list. */
const addressed = ({ to, ...mail }: Mail, from: string) => ({ ...mail, to: { name: '', address: to }, from });

/** The text of a mail, which may hold a link with a secret, is only in the file, which only its owner can read. */
function toFile({ from, dataDir, log, folderLimits }: DeliveryOptions): Deliver {
  const composer = nodemailer.createTransport({ streamTransport: true, buffer: true, newline: 'unix' });
  return async (mail) => {
    const { message } = await composer.sendMail(addressed(mail, from));
    if (!Buffer.isBuffer(message)) throw new Error('the mail was not composed in memory');
    const folder = path.join(dataDir, 'mail');
    const file = path.join(folder, `${newId()}.eml`);
    await writePrivate(file, message.toString('utf8'));
    log.info({ to: mail.to, subject: mail.subject, file }, 'mail.written');
    // The mail is written, whether or not older ones can be removed.
    await tidyMailFolder(folder, folderLimits).catch((error: unknown) => {
      log.warn({ err: error, folder }, 'mail.folder_not_tidied');
    });
  };
}

/** A second mail with the same `key` is not sent: for a day after the first was. */
export interface MailOptions extends Pick<EnqueueOptions, 'partnerId' | 'key'> {
  /** After this time the mail is of no use, because the link in it has expired. Default: 1 day. */
  validForMs?: number;
}

/** The outbox: a mail is a sealed background job, which is sent after the transaction and retried until it is sent. */
export interface Mailer {
  /** Adds the mail in the transaction of the action that it is about: both are committed, or neither is. */
  send(tx: Tx, mail: Mail, options?: MailOptions): Promise<void>;
}

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
      if (isMailRefusal(error)) {
        throw new PermanentJobFailure('The mail server refuses the mail.', { cause: error });
      }
      throw error;
    }
  });
  return {
    async send(tx, mail, { partnerId, key, validForMs = DAY_MS } = {}) {
      await jobs.enqueue(tx, SEND_MAIL, mail, {
        deadlineMs: validForMs,
        ...(partnerId === undefined ? {} : { partnerId }),
        ...(key === undefined ? {} : { key }),
      });
    },
  };
}

/** Whether the mail server has refused this mail or its address for good, unlike one that refuses our credentials. */
export function isMailRefusal(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || !('responseCode' in error)) return false;
  const { code, responseCode } = error;
  return (code === 'EENVELOPE' || code === 'EMESSAGE') && Number(responseCode) >= 500;
}
