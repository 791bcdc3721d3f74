import { homedir, platform } from 'node:os';
import path from 'node:path';

/** The default folder for the agent's files. */
export function defaultDataDir(): string {
  const given = process.env['MUSTER_AGENT_DIR'];
  if (given !== undefined && given !== '') return given;
  if (platform() === 'win32') {
    return path.join(process.env['ProgramData'] ?? String.raw`C:\ProgramData`, 'muster-agent');
  }
  return process.getuid?.() === 0 ? '/var/lib/muster-agent' : path.join(homedir(), '.muster-agent');
}
