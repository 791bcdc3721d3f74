/** What the client says of itself, beside the codes of the server, which are in its documentation. */
export type OwnCode =
  /** The server could not be reached, or the connection ended in the middle of its answer. */
  | 'UNREACHABLE'
  /** The server has not answered in time. */
  | 'NO_ANSWER'
  /** The answer is not one of a Muster server, or of one that is much newer than this client. */
  | 'UNEXPECTED_ANSWER'
  /** The live connection is lost. It is made again by itself. */
  | 'DISCONNECTED'
  /** The live connection was closed by `close()`. */
  | 'CLOSED'
  /** More has arrived than the program has read, and more than is kept for it. */
  | 'TOO_SLOW';

interface Facts {
  code: string;
  error: string;
  details?: unknown;
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
}

/** Everything that goes wrong between this client and the server. What the program cancels is thrown as the signal's own reason. */
export class MusterError extends Error {
  /** Of the HTTP answer; 0 where there is none. */
  readonly status: number;
  /** One of the server, such as `NOT_FOUND`, or an `OwnCode`. */
  readonly code: string;
  /** Of an invalid request: which field breaks which rule. */
  readonly details: unknown;
  /** The operator of the server finds the request in the logs by it. */
  readonly requestId: string | undefined;
  /** After which time the server wants to be asked again. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, { code, error, details, requestId, retryAfterMs }: Facts, cause?: unknown) {
    super(error, cause === undefined ? undefined : { cause });
    this.name = 'MusterError';
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

export const ownError = (code: OwnCode, error: string, cause?: unknown): MusterError =>
  new MusterError(0, { code, error }, cause);
