import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isSharedId } from '../../../protocol/index.ts';
import { runSystemProgram } from '../processes/system-program.ts';
import { osType } from './os-type.ts';

/**
 * Identifies the machine without revealing its own id: it stays the same for every enrollment. `undefined` where the
 * system has no id, or one that many machines have, so that the machine enrolls as a new device.
 */
export async function machineId(): Promise<string | undefined> {
  const raw = await rawMachineId().catch(() => undefined);
  return raw === undefined || isSharedId(raw)
    ? undefined
    : createHash('sha256').update(`muster-agent machine id:${raw}`).digest('hex');
}

async function rawMachineId(): Promise<string | undefined> {
  switch (osType()) {
    case 'linux':
      return (await readFile('/etc/machine-id', 'utf8')).trim() || undefined;
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
