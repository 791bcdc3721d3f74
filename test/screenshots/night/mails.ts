import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';

/** Reads the mails that a server without SMTP writes to its folder, in their order. */

export interface Mail {
  to: string;
  subject: string;
  /** The plain part, without the line breaks of its coding. */
  text: string;
  /** When it was written. */
  at: number;
}

interface Mails {
  /** The next one that fits, which is handed out once. Throws if none comes. */
  next(fits: (mail: Mail) => boolean, withinMs: number): Promise<Mail>;
  /** Waits, and returns one that fits if it comes although it should not. */
  none(fits: (mail: Mail) => boolean, forMs: number): Promise<Mail | undefined>;
}

const LOOKS_EVERY_MS = 200;

export function watchMails(folder: string): Mails {
  const handedOut = new Set<string>();
  const look = async (fits: (mail: Mail) => boolean): Promise<Mail | undefined> => {
    const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.eml')).toSorted();
    for (const name of names) {
      if (handedOut.has(name)) continue;
      const mail = await readMail(path.join(folder, name));
      if (!fits(mail)) continue;
      handedOut.add(name);
      return mail;
    }
    return undefined;
  };
  const wait = async (fits: (mail: Mail) => boolean, ms: number): Promise<Mail | undefined> => {
    const end = Date.now() + ms;
    while (Date.now() < end) {
      const found = await look(fits);
      if (found !== undefined) return found;
      await new Promise((resolve) => setTimeout(resolve, LOOKS_EVERY_MS));
    }
    return undefined;
  };
  return {
    async next(fits, withinMs) {
      const found = await wait(fits, withinMs);
      if (found === undefined) throw new Error(`No such mail has come within ${withinMs / 1000} s.`);
      return found;
    },
    none: wait,
  };
}

async function readMail(file: string): Promise<Mail> {
  const [raw, { mtimeMs }] = [await readFile(file, 'utf8'), await stat(file)];
  const text = raw.replaceAll('=\n', '').replaceAll('=3D', '=');
  const header = (name: string) => new RegExp(`^${name}: (.*(?:\\n .*)*)`, 'm').exec(raw)?.[1] ?? '';
  return {
    to: header('To').replaceAll(/[<>]/g, ''),
    subject: header('Subject').replaceAll(/\n\s*/g, ' '),
    text,
    at: mtimeMs,
  };
}
