import { AgentErrorCode, type CommandOutput, type CommandPayload } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import type { DurableContext, DurableHandlers } from '../../work/durable-handler.ts';
import { CapturedOutput } from './captured-output.ts';
import type { Interpreters } from './interpreters.ts';
import { LiveOutput } from './live-output.ts';
import { runGroup } from '../../os/processes/process-group.ts';
import type { ScriptFolder } from './script-folder.ts';

/** Runs scripts in the languages that this machine supports. Without any, the agent does not offer `script.run`. */
export function scriptHandlers(interpreters: Interpreters, folder: ScriptFolder): DurableHandlers {
  if (Object.keys(interpreters).length === 0) return {};
  return { 'script.run': (script, context) => runScript(interpreters, folder, script, context) };
}

async function runScript(
  interpreters: Interpreters,
  folder: ScriptFolder,
  { language, content, parameters = {}, secrets = {}, timeoutSeconds }: CommandPayload<'script.run'>,
  { signal, rows, secret }: DurableContext<'script.run'>,
): Promise<CommandOutput<'script.run'>> {
  const interpreter = interpreters[language];
  if (interpreter === undefined) {
    throw new AgentError(AgentErrorCode.capabilityMissing, `This machine has no ${language} interpreter.`);
  }
  const captured = { stdout: new CapturedOutput(), stderr: new CapturedOutput() };
  const live = new LiveOutput(rows);
  const env = Object.fromEntries([
    ...Object.entries(parameters).map(([name, value]) => [`PARAM_${name}`, value] as const),
    ...Object.entries(secrets).map(([name, ref]) => [`SECRET_${name}`, secret(ref)] as const),
  ]);
  const { exitCode, cut } = await folder.with(interpreter, content, ({ file, workFolder, started }) =>
    runGroup(interpreter.command, [...interpreter.args, file], {
      cwd: workFolder,
      onStart: started,
      env: { ...process.env, ...env },
      signal,
      timeoutMs: timeoutSeconds * 1000,
      onOutput: (stream, bytes) => live.add(stream, captured[stream].add(bytes)),
    }),
  );
  live.end();
  const [stdout, stderr] = [captured.stdout.end(), captured.stderr.end()];
  const output = {
    exitCode,
    stdout: stdout.text,
    stderr: stderr.text,
    truncated: stdout.isCut || stderr.isCut,
  };
  if (cut === 'timed_out') {
    const message = `The script ran longer than ${timeoutSeconds} s and was stopped.`;
    throw new AgentError(AgentErrorCode.timedOut, message, output);
  }
  if (cut === 'cancelled') throw new AgentError(AgentErrorCode.cancelled, 'The script was stopped.', output);
  return output;
}
