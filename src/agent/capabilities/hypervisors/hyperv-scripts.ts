import { z } from 'zod';
import {
  CHECKPOINTS_MAX,
  MACHINE_DISKS_MAX,
  MACHINES_MAX,
  MachineErrorCode,
  shortened,
} from '../../../protocol/index.ts';
import { clock } from '../../../clock.ts';
import { AgentError } from '../../core/agent-error.ts';
import { printable } from '../../core/plain-text.ts';
import { readOutput } from '../../os/child-process.ts';

/**
 * The scripts for Hyper-V. Machines are found by their id only, because a name may be a pattern, and objects are never
 * printed whole, because they are cyclic. Each script is an expression whose value is the result.
 */

/** The base file of a disk with checkpoints. */
const PARENTS_MAX = 64;

const number = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d{1,20}$/)
      .transform(Number),
  ])
  .pipe(z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER));

const RawMachine = z.object({
  id: z.string(),
  name: z.string(),
  state: z.string(),
  generation: number.nullish(),
  memory: number.nullish(),
  processors: number.nullish(),
  disks: listOf(z.object({ path: z.string(), size: number.nullish(), passthrough: z.boolean() })),
  checkpoints: listOf(
    z.object({
      id: z.string(),
      name: z.string(),
      parent: z.string().nullish(),
      created: z.string().nullish(),
    }),
  ),
});
export type RawMachine = z.output<typeof RawMachine>;

const DESCRIBE = `
function Describe($vm) {
  $disks = @(Get-VMHardDiskDrive -VM $vm | Select-Object -First ${MACHINE_DISKS_MAX + 1} | ForEach-Object {
    $size = $null
    if ($_.Path -and $null -eq $_.DiskNumber) {
      try {
        $size = [long](Get-Item -LiteralPath $_.Path).Length
        $at = (Get-VHD -Path $_.Path).ParentPath
        for ($n = 0; $at -and $n -lt ${PARENTS_MAX}; $n++) {
          $size += [long](Get-Item -LiteralPath $at).Length
          $at = (Get-VHD -Path $at).ParentPath
        }
      } catch { }
    }
    @{ path = "$($_.Path)"; size = $size; passthrough = ($null -ne $_.DiskNumber) }
  })
  $checkpoints = @(Get-VMSnapshot -VM $vm | Select-Object -First ${CHECKPOINTS_MAX + 1} | ForEach-Object {
    @{ id = "$($_.Id)"; name = "$($_.Name)"; parent = "$($_.ParentSnapshotId)"
      created = $_.CreationTime.ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ssZ') }
  })
  $memory = if ($vm.MemoryAssigned -gt 0) { $vm.MemoryAssigned } else { $vm.MemoryStartup }
  @{ id = "$($vm.Id)"; name = "$($vm.Name)"; state = $vm.State.ToString(); generation = [int]$vm.Generation
    memory = [long]$memory; processors = [int]$vm.ProcessorCount; disks = $disks; checkpoints = $checkpoints }
}`;

const FIND = `
$vm = Get-VM | Where-Object { "$($_.Id)" -eq $p.id }
if (-not $vm) { Refuse '${MachineErrorCode.machineMissing}' 'This device has no such machine.' }
$state = $vm.State.ToString()`;

const CHECKPOINT = `
$checkpoint = Get-VMSnapshot -VM $vm | Where-Object { "$($_.Id)" -eq $p.checkpoint }
if (-not $checkpoint) { Refuse '${MachineErrorCode.checkpointMissing}' 'The machine has no such checkpoint.' }`;

const nothing = z.unknown().transform(() => undefined);

export const LIST = {
  body: `${DESCRIBE}
@(Get-VM | Sort-Object -Property Name | Select-Object -First ${MACHINES_MAX + 1} | ForEach-Object { Describe $_ })`,
  result: listOf(RawMachine),
};

export const READ = { body: `${DESCRIBE}${FIND}\nDescribe $vm`, result: RawMachine };

export const CREATE_CHECKPOINT = {
  body: `${FIND}
if ($p.name) { Checkpoint-VM -VM $vm -SnapshotName $p.name } else { Checkpoint-VM -VM $vm }`,
  result: nothing,
};

export const DELETE_CHECKPOINT = {
  body: `${FIND}${CHECKPOINT}\nRemove-VMSnapshot -VMSnapshot $checkpoint`,
  result: nothing,
};

export const APPLY_CHECKPOINT = {
  body: `${FIND}${CHECKPOINT}\nRestore-VMSnapshot -VMSnapshot $checkpoint`,
  result: nothing,
};

/** From which states an action is possible, and in which state it has nothing to do. */
export const SET_STATE = {
  body: `${FIND}
$from = @{ start = @('Off', 'Saved', 'Paused'); stop = @('Running'); force_stop = @('Running', 'Paused', 'Starting', 'Stopping')
  pause = @('Running'); resume = @('Paused'); save = @('Running', 'Paused') }
$done = @{ start = 'Running'; stop = 'Off'; force_stop = 'Off'; pause = 'Paused'; resume = 'Running'; save = 'Saved' }
if ($done[$p.action] -ne $state) {
  if ($from[$p.action] -notcontains $state) { Refuse '${MachineErrorCode.stateConflict}' "The machine is in the state $state." }
  switch ($p.action) {
    'start' { if ($state -eq 'Paused') { Resume-VM -VM $vm } else { Start-VM -VM $vm } }
    'stop' { Stop-VM -VM $vm }
    'force_stop' { Stop-VM -VM $vm -TurnOff -Force }
    'pause' { Suspend-VM -VM $vm }
    'resume' { Resume-VM -VM $vm }
    'save' { Save-VM -VM $vm }
  }
}`,
  result: nothing,
};

export const EXPORT = {
  body: `${FIND}
if (Get-VMHardDiskDrive -VM $vm | Where-Object { $null -ne $_.DiskNumber }) {
  Refuse '${MachineErrorCode.passthroughDisk}' 'The machine uses a disk of its host, which Hyper-V does not export.'
}
$reached = 'application'
if ($state -eq 'Off') { Export-VM -VM $vm -Path $p.folder }
elseif ($state -eq 'Saved') { $reached = 'crash'; Export-VM -VM $vm -Path $p.folder }
elseif ($state -eq 'Running' -or $state -eq 'Paused') {
  $capture = if ($p.consistency -eq 'application') { 'CaptureDataConsistentState' } else { 'CaptureCrashConsistentState' }
  $reached = $p.consistency
  try { Export-VM -VM $vm -Path $p.folder -CaptureLiveState $capture }
  catch { if ($p.consistency -eq 'application') { Refuse '${MachineErrorCode.notConsistent}' "$($_.Exception.Message)" } else { throw } }
} else { Refuse '${MachineErrorCode.stateConflict}' "The machine is in the state $state." }
@{ consistency = $reached }`,
  result: z.object({ consistency: z.enum(['application', 'crash']) }),
};

/** The number of network cards whose switch does not exist on this host. */
const MISSING_SWITCH = 33012;

export const IMPORT = {
  body: `
$places = @{ VirtualMachinePath = $p.target; SnapshotFilePath = $p.target; SmartPagingFilePath = $p.target
  VhdDestinationPath = $p.disks }
if ($p.newId) { $report = Compare-VM -Path $p.configuration -Copy -GenerateNewId @places }
else { $report = Compare-VM -Path $p.configuration -Copy @places }
foreach ($found in @($report.Incompatibilities | Where-Object { $_.MessageId -eq ${MISSING_SWITCH} })) {
  $found.Source | Disconnect-VMNetworkAdapter
}
$report = Compare-VM -CompatibilityReport $report
if ($report.Incompatibilities) {
  Refuse '${MachineErrorCode.incompatible}' (@($report.Incompatibilities | ForEach-Object { $_.Message }) -join ' ')
}
$vm = Import-VM -CompatibilityReport $report
if ($p.name) { Rename-VM -VM $vm -NewName $p.name }
@{ id = "$($vm.Id)"; name = "$($vm.Name)" }`,
  result: z.object({ id: z.string(), name: z.string() }),
};

export const DEFAULT_FOLDER = {
  body: `@{ folder = "$((Get-VMHost).VirtualMachinePath)" }`,
  result: z.object({ folder: z.string().min(1).max(4096) }),
};

/** Runs fixed scripts. Their input is passed by the environment and never becomes part of a script. */

const OUTPUT_MAX = 16_000_000;
const ARGUMENTS = [
  '-NoLogo',
  '-NoProfile',
  '-NonInteractive',
  '-ExecutionPolicy',
  'Bypass',
  '-EncodedCommand',
];
/** Modules print texts of their own, so the result is marked. */
const MARK = 'MUSTER-ANSWER:';
/** Scripts throw it with a code of `MachineErrorCode`. */
const REFUSAL = 'MUSTER-REFUSAL:';

/** PowerShell 5.1 turns a list of one entry into the entry, and prints progress to the error output by default. */
const wrapped = (body: string) => `
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$WarningPreference = 'SilentlyContinue'
$ConfirmPreference = 'None'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$p = ConvertFrom-Json -InputObject $env:MUSTER_PARAMETERS
function Refuse([string]$code, [string]$text) { throw "${REFUSAL}\${code}:\${text}" }
try {
  Import-Module Hyper-V
  $result = & {
${body}
  }
  $answer = @{ ok = $true; result = $result }
} catch {
  $answer = @{ ok = $false; message = "$($_.Exception.Message)"; id = "$($_.FullyQualifiedErrorId)" }
}
[Console]::Out.WriteLine('${MARK}' + (ConvertTo-Json -InputObject $answer -Depth 6 -Compress))
`;

const Answer = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true), result: z.unknown() }),
  z.object({ ok: z.literal(false), message: z.string(), id: z.string().default('') }),
]);

export type PowerShell = <S extends z.ZodType>(
  script: { body: string; result: S },
  parameters: Readonly<Record<string, string | boolean | null>>,
  limits: { signal: AbortSignal; timeoutMs: number },
) => Promise<z.output<S>>;

/** @param program  a full path, or a name that is looked up on the search path */
export const powerShell =
  (program: string): PowerShell =>
  async ({ body, result }, parameters, { signal, timeoutMs }) => {
    const encoded = Buffer.from(wrapped(body), 'utf16le').toString('base64');
    const limit = clock.timeoutSignal(timeoutMs);
    const ends = AbortSignal.any([signal, limit]);
    let output: string;
    try {
      output = await readOutput(program, [...ARGUMENTS, encoded], {
        signal: ends,
        timeoutMs,
        maxLength: OUTPUT_MAX,
        env: { ...process.env, MUSTER_PARAMETERS: JSON.stringify(parameters) },
      });
    } catch (error) {
      signal.throwIfAborted();
      throw failed(error instanceof Error ? error.message : String(error));
    }
    // Ignore the output of a program that was stopped.
    signal.throwIfAborted();
    if (limit.aborted) throw failed(`PowerShell has not answered within ${timeoutMs / 1000} s.`);
    const answer = answerOf(output);
    if (!answer.ok) throw refusalOf(answer.message);
    const parsed = result.safeParse(answer.result);
    if (!parsed.success) {
      throw failed(`PowerShell has answered in another form: ${parsed.error.issues[0]?.message}`);
    }
    return parsed.data;
  };

function answerOf(output: string): z.output<typeof Answer> {
  const at = output.lastIndexOf(MARK);
  if (at === -1) throw failed(`PowerShell has printed no answer: ${shortened(output, 200)}`);
  try {
    return Answer.parse(JSON.parse(output.slice(at + MARK.length)));
  } catch {
    throw failed('PowerShell has printed an answer that cannot be read.');
  }
}

const CODES = new Set<string>(Object.values(MachineErrorCode));

function refusalOf(message: string): AgentError {
  const [, code = '', text = ''] = new RegExp(`^${REFUSAL}([A-Z_]{1,64}):(.*)$`, 's').exec(message) ?? [];
  return CODES.has(code) ? new AgentError(code, printable(text, 500)) : failed(message);
}

const failed = (text: string) => new AgentError(MachineErrorCode.failed, `Hyper-V: ${printable(text, 500)}`);

/** A list from PowerShell 5.1, which prints one entry without its list, and an empty list as nothing. */
function listOf<S extends z.ZodType>(entry: S) {
  return z.preprocess(
    (value) =>
      value === null || value === undefined || value === '' ? [] : Array.isArray(value) ? value : [value],
    z.array(entry),
  );
}
