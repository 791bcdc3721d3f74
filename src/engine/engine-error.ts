import { z } from 'zod';

/** Error codes of the engine. The codes are stable; they are part of results and messages. */
export const EngineCode = z.enum([
  'BUCKET_MISSING',
  'CANCELLED',
  'DESTINATION_DENIED',
  'DESTINATION_FULL',
  'DESTINATION_UNREACHABLE',
  'DESTINATION_UNTRUSTED',
  'ENGINE_FAILED',
  'ENGINE_MISSING',
  'ENGINE_TOO_OLD',
  'EXCLUDE_INVALID',
  'FILE_SYSTEM_DAMAGED',
  'FILE_SYSTEM_UNSUPPORTED',
  'PATH_MISSING',
  'REPOSITORY_DAMAGED',
  'REPOSITORY_EXISTS',
  'REPOSITORY_LOCKED',
  'REPOSITORY_MISSING',
  'SHADOW_COPY_DENIED',
  'SNAPSHOT_MISSING',
  'SOURCE_UNREADABLE',
  'TARGET_FULL',
  'TARGET_UNSAFE',
  'WRONG_KEY',
]);
export type EngineCode = z.infer<typeof EngineCode>;

const SENTENCES: Readonly<Record<EngineCode, string>> = {
  BUCKET_MISSING: 'The bucket does not exist.',
  CANCELLED: 'The operation was cancelled.',
  DESTINATION_DENIED: 'The destination of the backup refuses these credentials.',
  DESTINATION_FULL:
    'The destination of the backup has no space left. Make room there, or have its quota raised.',
  DESTINATION_UNREACHABLE: 'The destination of the backup cannot be reached.',
  DESTINATION_UNTRUSTED:
    'The certificate of the destination has expired, is for another name, or is signed by an authority that this machine does not trust.',
  ENGINE_FAILED: 'restic has failed.',
  ENGINE_MISSING: 'restic is not installed on this machine.',
  ENGINE_TOO_OLD: 'The restic on this machine is too old for this operation.',
  EXCLUDE_INVALID: 'restic does not accept a pattern of what is excluded. Correct the configuration.',
  FILE_SYSTEM_DAMAGED:
    'The file system in the image is damaged here, or it was in use while it was read. Restore the disk and repair it.',
  FILE_SYSTEM_UNSUPPORTED: 'The file system in the image cannot be read here.',
  PATH_MISSING: 'The snapshot does not contain this path.',
  REPOSITORY_DAMAGED: 'The repository contains damaged data.',
  REPOSITORY_EXISTS: 'There is already a repository at this destination.',
  REPOSITORY_LOCKED: 'Another operation has locked the repository.',
  REPOSITORY_MISSING: 'There is no repository at this destination.',
  SHADOW_COPY_DENIED: 'Windows does not let restic make shadow copies of the volumes.',
  SNAPSHOT_MISSING: 'The repository does not contain this snapshot.',
  SOURCE_UNREADABLE: 'The data to back up cannot be read.',
  TARGET_FULL:
    'The disk to which the data is restored has no space left. Make room there, or restore to another folder.',
  TARGET_UNSAFE: 'The folder to restore to is not safe.',
  WRONG_KEY: 'The password does not open the repository.',
};

export interface EngineErrorOptions {
  /** The output of the program, without secrets: for logs and for the operator. */
  detail?: string;
  /** Replaces the default message of the code. */
  message?: string;
  /** A snapshot that was made although the operation failed. */
  snapshotId?: string | undefined;
  cause?: unknown;
}

/** The message is for people and contains neither a secret nor an address. */
export class EngineError extends Error {
  readonly code: EngineCode;
  readonly detail: string | undefined;
  readonly snapshotId: string | undefined;

  constructor(
    code: EngineCode,
    { detail, message = SENTENCES[code], snapshotId, cause }: EngineErrorOptions = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EngineError';
    this.code = code;
    this.detail = detail;
    this.snapshotId = snapshotId;
  }
}
