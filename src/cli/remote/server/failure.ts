/** What the remote commands exit with. `muster --help` and the operator's guide list them. */
export const EXIT = {
  /** The command worked, and found something: a device did not answer, or the job that was watched failed. */
  finding: 1,
  /** An invalid call, or a failure of another kind. */
  failed: 2,
  /** The server does not accept the key, or there is none. */
  notSignedIn: 3,
  /** The key lacks a right. */
  forbidden: 4,
  /** The server cannot be reached, or the connection to it was lost. */
  unreachable: 5,
  /** Ctrl+C. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A failure that the user can understand without a stack. */
export class RemoteFailure extends Error {
  readonly exit: ExitCode;

  constructor(exit: ExitCode, message: string) {
    super(message);
    this.name = 'RemoteFailure';
    this.exit = exit;
  }
}

/** @param code  of the body of a REST answer, or of a refusal on the socket */
export function exitOf(code: string): ExitCode {
  switch (code.toLowerCase()) {
    case 'unauthenticated':
      return EXIT.notSignedIn;
    case 'forbidden':
    case 'mfa_required':
      return EXIT.forbidden;
    default:
      return EXIT.failed;
  }
}
