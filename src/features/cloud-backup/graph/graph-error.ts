/** A request to Microsoft Graph failed. Code and message may be shown to the tenant. */
export class GraphError extends Error {
  readonly code: string;
  /** 0 where there was no answer. */
  readonly status: number;

  constructor(code: string, message: string, { status = 0 }: { status?: number } = {}) {
    super(message);
    this.name = 'GraphError';
    this.code = code;
    this.status = status;
  }
}

/** The provider wants to be left alone for longer than a worker waits. */
export class Postponed extends Error {
  readonly delayMs: number;

  constructor(delayMs: number) {
    super('The provider asks for a pause.');
    this.name = 'Postponed';
    this.delayMs = delayMs;
  }
}

/** What each of them says of one user says it of all: the connection itself does not work. */
const OF_CONNECTION: ReadonlySet<string> = new Set(['AUTHENTICATION_FAILED', 'SECRET_UNAVAILABLE']);
export const isOfConnection = (error: unknown): boolean =>
  error instanceof GraphError && OF_CONNECTION.has(error.code);

export const invalidAnswer = (what: string) =>
  new GraphError('GRAPH_ANSWER_INVALID', `Microsoft Graph gave an answer that could not be used: ${what}.`);
