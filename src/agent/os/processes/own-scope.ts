import { stat } from 'node:fs/promises';
import { clock } from '../../../clock.ts';
import { findProgram } from './find-program.ts';

/**
 * What a command line begins with whose process has to outlive the agent: systemd ends everything that a service has
 * started when the service is stopped, so the process gets a place of its own there.
 */
export async function ownScope(name: string): Promise<string[]> {
  const isSystemd = await stat('/run/systemd/system').catch(() => undefined);
  const program = isSystemd === undefined ? undefined : await findProgram(['systemd-run']);
  if (program === undefined) return [];
  return [program, '--scope', '--quiet', '--collect', `--unit=${name}-${clock.now()}`, '--'];
}
