import { z } from 'zod';
import type { ServiceState, StartMode } from '../../../protocol/index.ts';
import { runPowerShell } from '../../os/machine-sources.ts';
import type { Service, ServiceDetails, ServiceReader } from './service-reader.ts';

const PROGRAM_MS = 20_000;
const POWERSHELL_MS = 50_000;
/** Nearly the most that Windows lists at once: 256 KiB. With the default, a long list is cut. */
const BUFFER_BYTES = 262_000;

/**
 * States come from `sc`, which takes a fiftieth of the time that PowerShell takes to start; PowerShell reads the start modes
 * and the names in the language of the machine.
 */
export const WINDOWS_SERVICES: ServiceReader = {
  manager: 'windows',
  async states(sources) {
    const args = ['query', 'type=', 'service', 'state=', 'all', 'bufsize=', String(BUFFER_BYTES)];
    const output = await sources.output('sc', args, PROGRAM_MS);
    return output === undefined ? undefined : parseScQuery(output);
  },
  async details(sources) {
    return parseServiceDetails((await runPowerShell(sources, DETAILS_SCRIPT, POWERSHELL_MS)) ?? '[]');
  },
};

const STATES: Readonly<Record<number, ServiceState>> = {
  1: 'stopped',
  2: 'starting',
  3: 'stopping',
  4: 'running',
  5: 'starting',
  6: 'stopping',
  7: 'paused',
};

/** A service of one signed-in user, with a number in its name that is another one each time. */
const USER_INSTANCE = 0x80;
/** No error, and never started since the start of the machine. */
const NO_FAILURE = new Set([0, 1077]);
/** The service has an error code of its own. */
const OWN_CODE = 1066;

/**
 * Blocks such as the following. Their words are in the language of the machine, so only their order and numbers count.
 *
 *     SERVICE_NAME: Spooler
 *     DISPLAY_NAME: Print Spooler
 *             TYPE               : 110  WIN32_OWN_PROCESS  (interactive)
 *             STATE              : 4  RUNNING
 *                                     (STOPPABLE, NOT_PAUSABLE, IGNORES_SHUTDOWN)
 *             WIN32_EXIT_CODE    : 0  (0x0)
 *             SERVICE_EXIT_CODE  : 0  (0x0)
 */
export function parseScQuery(output: string): Service[] {
  const lines = output.split(/\r?\n/);
  const services: Service[] = [];
  for (const [at, line] of lines.entries()) {
    const name = titleOf(line);
    const displayName = titleOf(lines[at + 1]);
    if (name === undefined || displayName === undefined) continue;
    const numbers = numbersFrom(lines, at + 2);
    const [type, stateNumber, code = '0', ownCode = '0'] = numbers;
    const known = STATES[Number(stateNumber)];
    if (known === undefined || (Number.parseInt(type ?? '0', 16) & USER_INSTANCE) !== 0) continue;
    const ended = Number(code) === OWN_CODE ? Number(ownCode) : Number(code);
    const state = known === 'stopped' && !NO_FAILURE.has(ended) ? 'failed' : known;
    // The code page of the console is not known, so other letters than those of ASCII may have been lost.
    services.push({ name, ...(/^[ -~]+$/.test(displayName) ? { displayName } : {}), state });
  }
  return services;
}

/** The text of a line that is not indented. */
const titleOf = (line = ''): string | undefined => /^[^\s:][^:]*:\s*(\S.*?)\s*$/.exec(line)?.[1];

/** The first numbers of the indented lines, up to the next block. */
function numbersFrom(lines: readonly string[], from: number): string[] {
  const numbers: string[] = [];
  for (const line of lines.slice(from, from + 12)) {
    if (!/^\s/.test(line)) break;
    const found = /^\s+[^:(]+:\s*([0-9a-f]+)\b/i.exec(line)?.[1];
    if (found !== undefined) numbers.push(found);
  }
  return numbers;
}

export const DETAILS_SCRIPT = String.raw`
$ErrorActionPreference = 'Stop'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
ConvertTo-Json -Compress -InputObject @(Get-CimInstance Win32_Service -Property Name, DisplayName, StartMode | ForEach-Object { @{ name = $_.Name; title = $_.DisplayName; start = $_.StartMode } })
`;

const START_MODES: Readonly<Record<string, StartMode>> = {
  Boot: 'automatic',
  System: 'automatic',
  Auto: 'automatic',
  Manual: 'manual',
  Disabled: 'disabled',
};

const Answer = z.array(
  z.object({ name: z.string(), title: z.string().nullish(), start: z.string().nullish() }),
);

export function parseServiceDetails(output: string): ServiceDetails {
  return new Map(
    Answer.parse(JSON.parse(output)).map(({ name, title, start }) => {
      const startMode = START_MODES[start ?? ''];
      const displayName = title?.trim() ?? '';
      return [
        name,
        { ...(displayName === '' ? {} : { displayName }), ...(startMode === undefined ? {} : { startMode }) },
      ] as const;
    }),
  );
}
