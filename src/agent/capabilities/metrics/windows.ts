import { z } from 'zod';
import { percent } from '../../os/machine.ts';
import { runPowerShell } from '../../os/machine-sources.ts';
import type { MachineReader, MachineReading } from './machine-reading.ts';

/**
 * One script reads everything, because starting PowerShell takes longer than running it. The classes of CIM have the same
 * names in each language of Windows, which counters have not.
 */
export const METRICS_SCRIPT = String.raw`
$ErrorActionPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$disk = Get-CimInstance Win32_PerfRawData_PerfDisk_PhysicalDisk -Filter "Name='_Total'"
@{
  volumes = @(Get-CimInstance Win32_LogicalDisk -Filter 'DriveType=3' | Where-Object { $_.Size -gt 0 } | ForEach-Object { @{ name = $_.DeviceID; size = $_.Size; free = $_.FreeSpace } })
  swap = @(Get-CimInstance Win32_PageFileUsage | ForEach-Object { @{ size = $_.AllocatedBaseSize; used = $_.CurrentUsage } })
  networks = @(Get-CimInstance Win32_PerfRawData_Tcpip_NetworkInterface | ForEach-Object { @{ received = $_.BytesReceivedPersec; sent = $_.BytesSentPersec } })
  read = $disk.DiskReadBytesPersec; written = $disk.DiskWriteBytesPersec
  processes = @(Get-Process | Where-Object { $_.Id -gt 4 -and $_.CPU -ne $null } | ForEach-Object { @{ id = $_.Id; name = $_.ProcessName; cpu = $_.CPU; ram = $_.WorkingSet64 } })
} | ConvertTo-Json -Depth 4 -Compress
`;

const POWERSHELL_MS = 50_000;

const Amount = z.coerce.number().nonnegative();
const listOf = <S extends z.ZodType>(entry: S) => z.array(entry).nullish().catch(undefined);
const Answer = z.object({
  volumes: listOf(z.object({ name: z.string(), size: Amount, free: Amount })),
  swap: listOf(z.object({ size: Amount, used: Amount })),
  networks: listOf(z.object({ received: Amount, sent: Amount })),
  read: Amount.nullish().catch(undefined),
  written: Amount.nullish().catch(undefined),
  processes: listOf(z.object({ id: z.number(), name: z.string(), cpu: Amount, ram: Amount })),
});

export const readWindows: MachineReader = async (sources, reading) => {
  const output = await reading.from(
    'powershell',
    () => runPowerShell(sources, METRICS_SCRIPT, POWERSHELL_MS),
    POWERSHELL_MS + 5000,
  );
  const found = await reading.from('powershell', () => parseWindowsReading(output ?? '{}'));
  return found ?? { counters: {} };
};

export function parseWindowsReading(output: string): MachineReading {
  const { volumes, swap, networks, read, written, processes } = Answer.parse(JSON.parse(output));
  const sum = <T>(rows: readonly T[] | null | undefined, of: (row: T) => number) =>
    rows == null || rows.length === 0 ? undefined : rows.reduce((total, row) => total + of(row), 0);
  const [swapSize, swapUsed] = [sum(swap, ({ size }) => size), sum(swap, ({ used }) => used)];
  return {
    counters: {
      networkReceived: sum(networks, ({ received }) => received),
      networkSent: sum(networks, ({ sent }) => sent),
      diskRead: read ?? undefined,
      diskWritten: written ?? undefined,
    },
    swapPercent: swapSize === undefined || swapSize === 0 ? undefined : percent((swapUsed ?? 0) / swapSize),
    volumes: volumes?.map(({ name, size, free }) => ({
      volume: name,
      usedBytes: size - free,
      totalBytes: size,
    })),
    processes: processes?.map(({ id, name, cpu, ram }) => ({
      pid: id,
      name,
      cpuSeconds: cpu,
      ramBytes: ram,
    })),
  };
}
