export type EmbeddedPostgresErrorCode =
  | 'data_dir_unwritable'
  | 'major_mismatch'
  | 'in_use'
  | 'unsupported_platform'
  | 'start_failed';

/** Its message is one line for the operator: the folder, the rule, and what to do. */
export class EmbeddedPostgresError extends Error {
  readonly code: EmbeddedPostgresErrorCode;

  constructor(code: EmbeddedPostgresErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EmbeddedPostgresError';
    this.code = code;
  }
}

// What a folder that we may not or can not write answers with, root included: EROFS, and a file in a folder's place.
const unwritable = new Set(
  'EACCES EPERM EROFS ENOTDIR EEXIST ENOENT ELOOP ENOSPC EDQUOT ENAMETOOLONG'.split(' '),
);

export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

export async function namingDataDir<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof EmbeddedPostgresError || code === undefined || !unwritable.has(code)) throw error;
    const reason = (error as Error).message.replaceAll(/\s+/g, ' ');
    throw new EmbeddedPostgresError(
      'data_dir_unwritable',
      `The data folder ${dataDir} must be a folder that this user can write to (${reason}). ` +
        'Choose another with DATA_DIR, change its owner, or use a Postgres of your own with DATABASE_URL.',
      { cause: error },
    );
  }
}
