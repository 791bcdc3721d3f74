import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually } from './eventually.ts';

/** The mails that a server without SMTP_URL writes into its data folder. */
export interface Mailbox {
  dataDir: string;
  files(): Promise<string[]>;
  /** What all mails say, as they were written. */
  all(): Promise<string[]>;
  /**
   * The newest mail to an address, once there are that many. `saying` limits it to mails with that text: mails that are
   * sent at nearly the same time may be delivered in any order.
   */
  newest(to: string, count?: number, saying?: string): Promise<string>;
  remove(): Promise<void>;
}

export const createMailbox = async (): Promise<Mailbox> =>
  openMailbox(await mkdtemp(path.join(tmpdir(), 'muster-mail-')));

/** That of a data folder that is there already. */
export function openMailbox(dataDir: string): Mailbox {
  const folder = path.join(dataDir, 'mail');
  const files = async () => {
    const names = await readdir(folder).catch(() => []);
    return names
      .filter((name) => name.endsWith('.eml'))
      .sort()
      .map((name) => path.join(folder, name));
  };
  const all = async () => Promise.all((await files()).map((file) => readFile(file, 'utf8')));
  const mailsTo = async (to: string) => (await all()).filter((mail) => mail.includes(`To: ${to}`));
  return {
    dataDir,
    files,
    all,
    async newest(to, count = 1, saying = '') {
      const mails = await eventually(
        async () => (await mailsTo(to)).map(decoded).filter((mail) => mail.includes(saying)),
        ({ length }) => length >= count,
      );
      return mails.at(-1) ?? '';
    },
    remove: () => rm(dataDir, { recursive: true, force: true }),
  };
}

/** A long line is folded in quoted-printable. */
const decoded = (mail: string) =>
  /quoted-printable/i.test(mail)
    ? mail
        .replaceAll(/=\r?\n/g, '')
        .replaceAll(/=([0-9A-F]{2})/g, (_match, code: string) => String.fromCharCode(parseInt(code, 16)))
    : mail;

export const tokenIn = (text: string): string => /#token=([\w-]+)/.exec(text)?.[1] ?? '';
