/** Every code an answer can carry, and the HTTP status that goes with it. On the wire a code is UPPER_SNAKE. */
export const ERROR_STATUS = {
  validation_failed: 400,
  unauthenticated: 401,
  ip_not_allowed_at_sign_in: 401,
  proxy_trust_required: 400,
  provider_unsupported: 400,
  ip_not_allowed: 403,
  forbidden: 403,
  mfa_required: 403,
  partner_inactive: 403,
  tenant_inactive: 403,
  sso_required: 403,
  registration_disabled: 403,
  limit_reached: 403,

  not_found: 404,
  conflict: 409,
  sso_not_proven: 409,
  release_untrusted: 409,
  device_offline: 409,
  device_pending: 409,
  identity_conflict: 409,
  capability_missing: 409,
  engine_missing: 409,
  request_timeout: 408,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  device_busy: 429,
  rate_limited: 429,
  headers_too_large: 431,
  internal: 500,
  device_error: 502,
  unavailable: 503,
  server_engine_missing: 503,
  device_timeout: 504,
  storage_full: 507,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** Codes that clients see in another form than UPPER_SNAKE of their name. */
const WIRE: Partial<Record<ErrorCode, string>> = {
  proxy_trust_required: 'proxy_trust_required',
  ip_not_allowed_at_sign_in: 'IP_NOT_ALLOWED',
  server_engine_missing: 'ENGINE_MISSING',
};

export const wireCode = (code: ErrorCode): string => WIRE[code] ?? code.toUpperCase();

/** An expected failure with a sentence for a person. Anything else that is thrown is a fault of ours. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly details: unknown;
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: unknown; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.details = options.details;
    this.retryAfterMs = options.retryAfterMs;
  }

  get status(): number {
    return ERROR_STATUS[this.code];
  }

  /** The code as clients see it. */
  get wireCode(): string {
    return wireCode(this.code);
  }
}

/** One field that breaks one rule. The sentence is the rule's, or the one that the specification gives. */
export function invalid(path: string, rule: string, sentence = `${path}: ${rule}`): AppError {
  return new AppError('validation_failed', sentence, { details: [{ path, message: rule }] });
}

/** Several fields, each of which breaks a rule. */
export const invalidFields = (faults: readonly { path: string; message: string }[]): AppError =>
  new AppError('validation_failed', faults.map(({ path, message }) => `${path}: ${message}`).join('; '), {
    details: faults,
  });

/** For a PATCH that changes nothing (SPEC 7). */
export const noFields = () => invalid('body', 'no fields provided', 'no fields provided');

export const notFound = (what: string) => new AppError('not_found', `${what} not found`);
