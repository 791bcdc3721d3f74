import { readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../clock.ts';

export interface MailFolderLimits {
  files: number;
  days: number;
}

/** Links in mails are valid for a week at most, so an older file is of no use to anybody. */
export const MAIL_FOLDER_LIMITS: MailFolderLimits = { files: 1000, days: 30 };

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
