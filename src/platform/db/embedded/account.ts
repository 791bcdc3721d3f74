import { readFile, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** The user that Postgres runs as. Only root needs another than itself: Postgres refuses to run as root. */
export interface Account {
  uid: number;
  gid: number;
}

const nobody: Account = { uid: 65534, gid: 65534 };

export function startedByRoot(): boolean {
  return process.getuid?.() === 0;
}

export async function unprivilegedAccount(): Promise<Account> {
  const passwd = await readFile('/etc/passwd', 'utf8').catch(() => '');
  const fields = passwd.match(/^postgres:.*$/m)?.[0].split(':');
  const uid = Number(fields?.[2]);
  const gid = Number(fields?.[3]);
  return uid > 0 && gid > 0 ? { uid, gid } : nobody;
}

/** Whether the account may pass through every folder down to the path, and through the path itself. */
export async function canReach(path: string, account: Account): Promise<boolean> {
  let current = await realpath(path);
  for (;;) {
    const { mode, uid, gid } = await stat(current);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    const parent = dirname(current);
    if (parent === current) return true;
    current = parent;
  }
}
