import { z } from 'zod';
import { clock } from '../../../../clock.ts';
import { MachineErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { printable } from '../../../core/plain-text.ts';
import { readOutput } from '../../../os/processes/child-process.ts';

/** Runs fixed scripts. What they work on goes in by the environment, and never becomes part of a script. */

const OUTPUT_MAX = 16_000_000;
const ARGUMENTS = [
  '-NoLogo',
  '-NoProfile',
  '-NonInteractive',
  '-ExecutionPolicy',
  'Bypass',
  '-EncodedCommand',
];
/** Modules print texts of their own, so the answer has a mark. */
const MARK = 'MUSTER-ANSWER:';
/** A script throws it with a code of `MachineErrorCode`. */
export const REFUSAL = 'MUSTER-REFUSAL:';

/** PowerShell 5.1 turns a list of one into its entry, and answers progress on the error output unless told otherwise. */
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
    // Of a program that was stopped, nothing counts.
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
  if (at === -1) throw failed(`PowerShell has printed no answer: ${output.slice(0, 200)}`);
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

/** A list from PowerShell 5.1, where one entry is no list and none is nothing. */
export const listOf = <S extends z.ZodType>(entry: S) =>
  z.preprocess(
    (value) =>
      value === null || value === undefined || value === '' ? [] : Array.isArray(value) ? value : [value],
    z.array(entry),
  );
