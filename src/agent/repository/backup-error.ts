import { EngineError } from '../../engine/index.ts';
import { AgentErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { hasCode } from '../os/files/private-file.ts';

/** Why a restore cannot write to its target, beside the codes of the engine. */
export type TargetCode = 'TARGET_NOT_EMPTY' | 'TARGET_UNSAFE' | 'TARGET_NOT_WRITABLE' | 'TARGET_FULL';

export const targetError = (code: TargetCode, message: string) => new AgentError(code, message);

/**
 * The failure as the command reports it. What restic has printed may hold addresses and is meant for the log of this
 * machine, so it goes to `warn`.
 */
export function asAgentError(error: unknown, warn: (message: string) => void): unknown {
  if (!(error instanceof EngineError)) return error;
  if (error.detail !== undefined && error.code !== 'CANCELLED') {
    warn(`A backup command has failed (${error.code}): ${error.detail}`);
  }
  return new AgentError(error.code, error.message);
}

export const timedOut = (seconds: number) =>
  new AgentError(AgentErrorCode.timedOut, `The operation took longer than ${seconds} s and was stopped.`);

/** The system does not let the agent write at a place. */
export const isWriteRefused = (error: unknown) =>
  ['EACCES', 'EPERM', 'EROFS'].some((code) => hasCode(error, code));
