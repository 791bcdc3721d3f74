import { z } from 'zod';
import { COMMAND_LINE_MAX } from '../../../protocol/index.ts';
import { runPowerShell } from '../machine-sources.ts';
import type { IdentifiedProcess, ProcessDetails, ProcessReader } from './process-reader.ts';

const POWERSHELL_MS = 7000;
/** Processor times are in units of 100 ns. */
const TICKS_PER_SECOND = 10_000_000;

/** Processes by the classes of CIM, whose names are the same in each language of Windows. */
export const WINDOWS_PROCESSES: ProcessReader = {
  async read(sources) {
    const output = await runPowerShell(sources, PROCESSES_SCRIPT, POWERSHELL_MS);
    const processes = parseWindowsProcesses(output ?? '[]');
    if (processes.length === 0) throw new Error('Windows lists no processes.');
    return processes;
  },
  async details(sources) {
    return parseWindowsDetails((await runPowerShell(sources, DETAILS_SCRIPT, POWERSHELL_MS)) ?? '[]');
  },
};

export const PROCESSES_SCRIPT = String.raw`
$ErrorActionPreference = 'Stop'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$properties = 'ProcessId', 'ParentProcessId', 'Name', 'CreationDate', 'WorkingSetSize', 'KernelModeTime', 'UserModeTime'
ConvertTo-Json -Compress -InputObject @(Get-CimInstance Win32_Process -Property $properties | ForEach-Object { @{
  id = $_.ProcessId; parent = $_.ParentProcessId; name = $_.Name; ram = $_.WorkingSetSize; kernel = $_.KernelModeTime; user = $_.UserModeTime
  start = if ($_.CreationDate) { $_.CreationDate.ToUniversalTime().ToString('o') } else { $null }
} })
`;

/** Owners are only read by an agent with the rights of an administrator; without them, command lines are read all the same. */
export const DETAILS_SCRIPT = String.raw`
$ErrorActionPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$users = @{}
try { Get-Process -IncludeUserName -ErrorAction Stop | ForEach-Object { $users[[long]$_.Id] = $_.UserName } } catch { }
ConvertTo-Json -Compress -InputObject @(Get-CimInstance Win32_Process -Property ProcessId, CommandLine | ForEach-Object {
  $line = [string]$_.CommandLine
  @{ id = $_.ProcessId; user = $users[[long]$_.ProcessId]; line = $line.Substring(0, [Math]::Min($line.Length, ${COMMAND_LINE_MAX + 1})) }
})
`;

/** Windows stops with an error when one of these ends, or ends the session of everyone who is signed in. */
const CRITICAL_NAMES = new Set([
  'system',
  'system idle process',
  'registry',
  'memory compression',
  'secure system',
  'smss.exe',
  'csrss.exe',
  'wininit.exe',
  'winlogon.exe',
  'services.exe',
  'lsass.exe',
  'lsaiso.exe',
]);

const Amount = z.coerce.number().nonnegative().catch(0);
const Processes = z.array(
  z.object({
    id: z.number(),
    parent: z.number().nullish(),
    name: z.string().nullish(),
    ram: Amount,
    kernel: Amount,
    user: Amount,
    start: z.string().nullish(),
  }),
);

export function parseWindowsProcesses(output: string): IdentifiedProcess[] {
  return Processes.parse(JSON.parse(output)).flatMap(({ id, parent, name, ram, kernel, user, start }) => {
    // 0 stands for the processors that have nothing to do.
    if (id === 0) return [];
    const startedAt = Date.parse(start ?? '');
    return [
      {
        pid: id,
        parentPid: parent ?? 0,
        name: name ?? '',
        cpuSeconds: (kernel + user) / TICKS_PER_SECOND,
        ramBytes: ram,
        startedAt: Number.isNaN(startedAt) ? undefined : startedAt,
        ...(CRITICAL_NAMES.has((name ?? '').toLowerCase()) ? { isCritical: true } : {}),
      },
    ];
  });
}

const Details = z.array(z.object({ id: z.number(), user: z.string().nullish(), line: z.string().nullish() }));

export function parseWindowsDetails(output: string): Map<number, ProcessDetails> {
  return new Map(
    Details.parse(JSON.parse(output)).map(({ id, user, line }) => [
      id,
      {
        ...(user == null || user === '' ? {} : { user }),
        ...(line == null || line === '' ? {} : { commandLine: line }),
      },
    ]),
  );
}
