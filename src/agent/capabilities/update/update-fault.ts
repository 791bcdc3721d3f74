import { hasCode } from '../../os/files/private-file.ts';
import { ReleaseRefused } from '../../os/installation/release-check.ts';

/** Why an upgrade was not made, with a code for programs. */
export class UpdateFault extends Error {
  readonly code: string;
  /** It may pass by itself, so that it is tried again soon. */
  readonly isTemporary: boolean;

  constructor(code: string, message: string, isTemporary: boolean) {
    super(message);
    this.name = 'UpdateFault';
    this.code = code;
    this.isTemporary = isTemporary;
  }
}

/** A virus scanner or another program has the file open. On Windows this is common, and it passes. */
const LOCKED = ['EBUSY', 'EPERM', 'EACCES', 'ETXTBSY'];
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

export function faultOf(error: unknown): UpdateFault {
  if (error instanceof UpdateFault) return error;
  if (error instanceof ReleaseRefused) return new UpdateFault(error.code, error.message, false);
  const message = error instanceof Error ? error.message : String(error);
  if (FULL.some((code) => hasCode(error, code))) {
    return new UpdateFault('NO_SPACE', `The disk is full: ${message}`, true);
  }
  if (LOCKED.some((code) => hasCode(error, code))) {
    return new UpdateFault('FILE_LOCKED', `A file is locked: ${message}`, true);
  }
  return new UpdateFault('FAILED', message, true);
}
