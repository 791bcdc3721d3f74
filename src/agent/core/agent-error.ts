import { AgentErrorCode, shortened } from '../../protocol/index.ts';
import { firstCharacters } from './plain-text.ts';

/** A failure with a code that the hub passes on to the caller. */
export class AgentError extends Error {
  readonly code: string;
  /** The output up to the failure. */
  readonly output: unknown;

  constructor(code: string, message: string, output?: unknown) {
    super(message);
    this.name = 'AgentError';
    this.code = code;
    this.output = output;
  }
}

export function logNotFound(name: string): AgentError {
  return new AgentError(
    AgentErrorCode.logNotFound,
    `This device has no log named '${shortened(name, 100)}'.`,
  );
}

export function recordNotFound(name: string, recordId: number): AgentError {
  return new AgentError(
    AgentErrorCode.recordNotFound,
    `The log '${name}' has no record ${recordId}. The record may have been deleted by log rotation.`,
  );
}

/** The failure as a result reports it. An error without its own code becomes `FAILED`. */
export function describeError(error: unknown): { code: string; message: string } {
  const message = firstCharacters(error instanceof Error ? error.message : String(error), 2000);
  return { code: error instanceof AgentError ? error.code : AgentErrorCode.failed, message };
}
