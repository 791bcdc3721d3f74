import { z } from 'zod';
import { readOutput, systemProgram } from '../../os/child-process.ts';

/** The states of Windows logs, all at once through PowerShell. */

/** What Windows knows about a log as a whole. */
export interface LogState {
  recordCount: number;
  /** In bytes. */
  maxSize: number;
  /** ISO 8601; empty if nothing was written. */
  lastWriteTime: string;
}

/** Asks for the state of many logs at once. Throws if PowerShell cannot be used. */
export type ReadLogStates = (
  names: readonly string[],
  signal: AbortSignal,
) => Promise<ReadonlyMap<string, LogState>>;

/** The names are passed by the environment, so that none becomes part of the script. */
export const LOG_STATES_SCRIPT = String.raw`
$ErrorActionPreference = 'SilentlyContinue'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$session = [Diagnostics.Eventing.Reader.EventLogSession]::GlobalSession
$states = @(foreach ($name in (ConvertFrom-Json -InputObject $env:MUSTER_LOGS)) {
  $settings = [Diagnostics.Eventing.Reader.EventLogConfiguration]::new($name)
  $state = $session.GetLogInformation($name, 'LogName')
  @{
    name = "$name"; count = "$($state.RecordCount)"; maxSize = "$($settings.MaximumSizeInBytes)"
    written = $(if ($state.LastWriteTime) { $state.LastWriteTime.ToUniversalTime().ToString('o') } else { '' })
  }
})
[Console]::Out.WriteLine((ConvertTo-Json -InputObject $states -Depth 3 -Compress))
`;

const Answer = z.array(
  z.object({ name: z.string(), count: z.string(), maxSize: z.string(), written: z.string() }),
);

const TIMEOUT_MS = 15_000;

/** One start of PowerShell for all logs takes a second; wevtutil needs two starts for each log. */
export const readLogStates: ReadLogStates = async (names, signal) => {
  const encoded = Buffer.from(LOG_STATES_SCRIPT, 'utf16le').toString('base64');
  const output = await readOutput(
    systemProgram('powershell'),
    ['-NoLogo', '-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass', '-EncodedCommand', encoded],
    { signal, timeoutMs: TIMEOUT_MS, env: { ...process.env, MUSTER_LOGS: JSON.stringify(names) } },
  );
  return parseLogStates(output);
};

export function parseLogStates(output: string): ReadonlyMap<string, LogState> {
  const states = Answer.parse(JSON.parse(output));
  return new Map(
    states.map(({ name, count, maxSize, written }) => [
      name,
      { recordCount: countOf(count), maxSize: countOf(maxSize), lastWriteTime: timeOf(written) },
    ]),
  );
}

export function countOf(text: string | undefined): number {
  const value = Number(text ?? 0);
  return Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

export function timeOf(text: string | undefined): string {
  const at = new Date(text ?? '');
  return Number.isNaN(at.getTime()) ? '' : at.toISOString();
}
