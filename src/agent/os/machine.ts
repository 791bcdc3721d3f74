import { createHash } from 'node:crypto';
import { statfs, readFile } from 'node:fs/promises';
import os from 'node:os';
import { type OsType, isSharedId } from '../../protocol/index.ts';
import { runSystemProgram } from './child-process.ts';

export function osType(): OsType {
  const name = os.platform();
  if (name === 'win32') return 'windows';
  return name === 'darwin' ? 'macos' : 'linux';
}

/** The size and free space of the system disk, in bytes. */
export async function diskSpace(): Promise<{ total: number; free: number } | undefined> {
  try {
    const { blocks, bavail, bsize } = await statfs(osType() === 'windows' ? String.raw`C:\ `.trim() : '/');
    return { total: blocks * bsize, free: bavail * bsize };
  } catch {
    // Some file systems do not report their size.
    return undefined;
  }
}

/** What all processors have done since the machine started, in ms. */
export function cpuTimes(): { total: number; idle: number } {
  let total = 0;
  let idle = 0;
  for (const { times } of os.cpus()) {
    total += times.user + times.nice + times.sys + times.idle + times.irq;
    idle += times.idle;
  }
  return { total, idle };
}

/** A share as percents with one decimal, within 0 and 100. */
export const percent = (share: number) => Math.min(100, Math.max(0, Math.round(share * 1000) / 10));

/**
 * Identifies the machine without revealing its own id: it stays the same for every enrollment. `undefined` if the
 * system has no id, or one that many machines share, so the machine enrolls as a new device.
 */
export async function machineId(): Promise<string | undefined> {
  const raw = await rawMachineId().catch(() => undefined);
  return raw === undefined || isSharedId(raw)
    ? undefined
    : createHash('sha256').update(`muster-agent machine id:${raw}`).digest('hex');
}

/** Systems without systemd often have only the file of D-Bus. A file may be there and empty, as in an image. */
export async function linuxMachineId(
  files: readonly string[] = ['/etc/machine-id', '/var/lib/dbus/machine-id'],
): Promise<string | undefined> {
  for (const file of files) {
    const id = (await readFile(file, 'utf8').catch(() => '')).trim();
    if (id !== '') return id;
  }
  return undefined;
}

async function rawMachineId(): Promise<string | undefined> {
  switch (osType()) {
    case 'linux':
      return linuxMachineId();
    case 'macos':
      return /"IOPlatformUUID" = "([^"]+)"/.exec(
        await runSystemProgram('ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice']),
      )?.[1];
    default:
      return /MachineGuid\s+REG_SZ\s+(\S+)/.exec(
        await runSystemProgram('reg', [
          'query',
          String.raw`HKLM\SOFTWARE\Microsoft\Cryptography`,
          '/v',
          'MachineGuid',
        ]),
      )?.[1];
  }
}
