import { AgentErrorCode } from '../../protocol/index.ts';

/** A failure with a code that the hub passes on. */
export class AgentError extends Error {
  readonly code: string;
  /** What the work had brought before it failed. */
  readonly output: unknown;

  constructor(code: string, message: string, output?: unknown) {
    super(message);
    this.name = 'AgentError';
    this.code = code;
    this.output = output;
  }
}

export function logNotFound(name: string): AgentError {
  return new AgentError(AgentErrorCode.logNotFound, `This device has no log named '${name.slice(0, 100)}'.`);
}

export function recordNotFound(name: string, recordId: number): AgentError {
  return new AgentError(
    AgentErrorCode.recordNotFound,
    `The log '${name}' has no record ${recordId}; it may have been rotated away.`,
  );
}
