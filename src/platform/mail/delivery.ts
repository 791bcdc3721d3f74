import path from 'node:path';
import nodemailer from 'nodemailer';
import type { Logger } from '../logger.ts';
import { newId } from '../ids.ts';
import { writePrivate } from '../secrets/own-files.ts';
import { type MailFolderLimits, tidyMailFolder } from './mail-folder.ts';
import type { Mail } from './mail.ts';

export interface DeliveryOptions {
  /** Absent: mails are written to files of `dataDir`. */
  smtpUrl: string | undefined;
  from: string;
  dataDir: string;
  log: Logger;
  /** What the folder of mails may hold. */
  folderLimits?: MailFolderLimits;
}

/** Hands a mail to the mail server, or writes it to its file. Rejects where that fails. */
export type Deliver = (mail: Mail) => Promise<void>;

const TIME_OUTS = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 15_000 };

export function createDelivery(options: DeliveryOptions): Deliver {
  return options.smtpUrl === undefined ? toFile(options) : toServer(options.smtpUrl, options);
}

/** Connects, greets and signs in, and sends no mail. Rejects where that fails. */
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
