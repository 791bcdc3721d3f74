import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { OsType } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { osType } from '../os/machine.ts';
import { systemProgram } from '../os/child-process.ts';
import type { DurableHandlers } from '../work/handler.ts';

/** The administrator of the machine can forbid reboots. Then the agent does not offer this capability. */
export function powerHandlers(allowReboot: boolean, rebooter: Rebooter): DurableHandlers {
  if (!allowReboot) return {};
  return {
    async 'agent.reboot'({ delaySeconds = 0 }, { afterResult }) {
      rebooter.check();
      // A machine that is shutting down could no longer deliver the result.
      afterResult(() => rebooter.reboot(delaySeconds));
      return {};
    },
  };
}

/** Restarts the machine. A port, for tests and simulated machines. */
export interface Rebooter {
  /** Throws `AgentError` if the agent lacks the rights. */
  check(): void;
  reboot(delaySeconds: number): Promise<void>;
}

const run = promisify(execFile);
const COMMAND_MS = 30_000;

/** Linux and macOS take whole minutes. The delay is rounded up, so that no machine restarts earlier than announced. */
export function rebootCommand(system: OsType, delaySeconds: number): { command: string; args: string[] } {
  if (system === 'windows') return { command: 'shutdown', args: ['/r', '/t', String(delaySeconds)] };
  const when = delaySeconds === 0 ? 'now' : `+${Math.ceil(delaySeconds / 60)}`;
  return { command: 'shutdown', args: ['-r', when] };
}

export const machineRebooter: Rebooter = {
  check() {
    if (process.getuid !== undefined && process.getuid() !== 0) {
      throw new AgentError('FAILED', 'The agent does not run as root, so it cannot reboot this machine.');
    }
  },
  async reboot(delaySeconds) {
    const { command, args } = rebootCommand(osType(), delaySeconds);
    await run(systemProgram(command), args, { timeout: COMMAND_MS });
  },
};
