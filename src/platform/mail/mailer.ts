import path from 'node:path';
import nodemailer from 'nodemailer';
import type { Logger } from '../logger.ts';
import { newId } from '../ids.ts';
import { writePrivate } from '../secrets/own-files.ts';
import { type MailFolderLimits, tidyMailFolder } from './mail-folder.ts';

export interface Mail {
  to: string;
  subject: string;
  text: string;
}

/** Takes mails and sends them behind the scenes: nobody waits for a mail server, and none holds up an answer. */
export interface Mailer {
  /** A function makes the mail later, or makes none; its failure is logged as one to send would be. */
  post(mail: Mail | (() => Promise<Mail | undefined>)): void;
  /** Ends when everything posted is sent or has failed. */
  close(): Promise<void>;
}

export interface MailerOptions {
  /** Absent: mails are written to files of `dataDir`. */
  smtpUrl: string | undefined;
  from: string;
  dataDir: string;
  log: Logger;
  /** What the folder of mails may hold. */
  folderLimits?: MailFolderLimits;
}

const TIME_OUTS = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 15_000 };

export function createMailer({ smtpUrl, from, dataDir, log, folderLimits }: MailerOptions): Mailer {
  const deliver = smtpUrl === undefined ? toFile(dataDir, log, folderLimits) : toServer(smtpUrl, log);
  const underWay = new Set<Promise<void>>();

  async function send(mail: Mail | (() => Promise<Mail | undefined>)): Promise<void> {
    try {
      const made = typeof mail === 'function' ? await mail() : mail;
      if (made !== undefined) await deliver({ ...made, from });
    } catch (error) {
      log.error({ err: error }, 'mail.failed');
    }
  }

  return {
    post(mail) {
      const task = send(mail).finally(() => underWay.delete(task));
      underWay.add(task);
    },
    async close() {
      await Promise.all(underWay);
    },
  };
}

type Deliver = (mail: Mail & { from: string }) => Promise<void>;

function toServer(smtpUrl: string, log: Logger): Deliver {
  const server = nodemailer.createTransport({ url: smtpUrl, ...TIME_OUTS });
  return async (mail) => {
    await server.sendMail(mail);
    log.info({ to: mail.to, subject: mail.subject }, 'mail.sent');
  };
}

/** What a mail says, a link with its token above all, is in the file alone, which only its owner reads. */
function toFile(dataDir: string, log: Logger, limits: MailFolderLimits | undefined): Deliver {
  const composer = nodemailer.createTransport({ streamTransport: true, buffer: true, newline: 'unix' });
  return async (mail) => {
    const { message } = await composer.sendMail(mail);
    if (!Buffer.isBuffer(message)) throw new Error('the mail was not composed in memory');
    const folder = path.join(dataDir, 'mail');
    const file = path.join(folder, `${newId()}.eml`);
    await writePrivate(file, message.toString('utf8'));
    log.info({ to: mail.to, subject: mail.subject, file }, 'mail.written');
    // The mail is there, whatever becomes of older ones.
    await tidyMailFolder(folder, limits).catch((error: unknown) => {
      log.warn({ err: error, folder }, 'mail.folder_not_tidied');
    });
  };
}
