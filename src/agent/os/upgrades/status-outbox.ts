import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { UpdateStatus } from '../../../protocol/index.ts';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';
import { upgradesIn, withReserve } from './upgrade-files.ts';

/**
 * The phases of upgrades that the server has not confirmed yet, each in a file of its own, because the agent and the
 * watchdog both write and send them. A phase that is sent twice counts once: it carries the id of its attempt.
 */
const KEEP = 100;
const NAME = /^\d{12}-[\w-]+\.json$/;

const folderIn = (dataDir: string) => path.join(upgradesIn(dataDir), 'statuses');

export interface WaitingStatus {
  name: string;
  status: UpdateStatus;
}

export async function putStatus(
  dataDir: string,
  status: UpdateStatus & { attemptId: string },
): Promise<void> {
  const folder = folderIn(dataDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const names = await namesIn(folder);
  const end = `-${status.attemptId}-${status.phase}.json`;
  if (names.some((name) => name.endsWith(end))) return;
  for (const old of names.slice(0, Math.max(0, names.length - KEEP + 1))) {
    await rm(path.join(folder, old), { force: true });
  }
  const number = Number(names.at(-1)?.slice(0, 12) ?? 0) + 1;
  const file = path.join(folder, `${String(number).padStart(12, '0')}${end}`);
  await withReserve(dataDir, () => writePrivateJson(file, UpdateStatus.parse(status)));
}

/** In the order in which they happened. */
export async function waitingStatuses(dataDir: string): Promise<WaitingStatus[]> {
  const folder = folderIn(dataDir);
  const found: WaitingStatus[] = [];
  for (const name of await namesIn(folder)) {
    const status = UpdateStatus.safeParse(
      await readPrivateJson(path.join(folder, name)).catch(() => undefined),
    );
    if (status.success) found.push({ name, status: status.data });
    else await rm(path.join(folder, name), { force: true });
  }
  return found;
}

/** The server has these. */
export async function dropStatuses(dataDir: string, names: readonly string[]): Promise<void> {
  for (const name of names) await rm(path.join(folderIn(dataDir), name), { force: true });
}

async function namesIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => NAME.test(name)).sort();
}
