import { clock } from '../../../../clock.ts';
import { MachineErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { printable } from '../../../core/plain-text.ts';
import { readOutput } from '../../../os/processes/child-process.ts';

/** Runs commands of libvirt. Names are words of their own, and never a part of a command that virsh would take apart. */

const OUTPUT_MAX = 8_000_000;
const LOOK_MS = 60_000;

export type Virsh = (
  words: readonly [command: string, ...rest: string[]],
  limits: { signal: AbortSignal; timeoutMs?: number },
) => Promise<string>;

export const virsh =
  (program: string, uri: string): Virsh =>
  async (words, { signal, timeoutMs = LOOK_MS }) => {
    const limit = clock.timeoutSignal(timeoutMs);
    try {
      const output = await readOutput(program, ['--quiet', '--connect', uri, ...words], {
        signal: AbortSignal.any([signal, limit]),
        timeoutMs,
        maxLength: OUTPUT_MAX,
      });
      // Of a program that was stopped, nothing counts.
      signal.throwIfAborted();
      if (limit.aborted) throw new Error(`virsh has not answered within ${timeoutMs / 1000} s.`);
      return output;
    } catch (error) {
      signal.throwIfAborted();
      throw refusalOf(error instanceof Error ? error.message : String(error));
    }
  };

function refusalOf(message: string): AgentError {
  const reason = message.slice(message.indexOf('error: ') + 1).replace(/^rror: /, '');
  if (/failed to get domain|domain not found|no domain with matching/i.test(reason)) {
    return new AgentError(MachineErrorCode.machineMissing, 'This device has no such machine.');
  }
  return kvmFailed(reason);
}

export const kvmFailed = (text: string) =>
  new AgentError(MachineErrorCode.failed, `KVM: ${printable(text, 500)}`);
