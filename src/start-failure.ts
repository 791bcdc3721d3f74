import { ConfigError } from './config.ts';
import { PooledDatabaseError } from './platform/db/pooler.ts';
import { PendingMigrationsError } from './platform/db/database.ts';
import { EmbeddedPostgresError } from './platform/db/embedded/index.ts';
import { BlockedMigrationError, EditedMigrationError } from './platform/db/migrations.ts';
import { NotPrimaryError } from './platform/db/database-errors.ts';
import { UnsafeDatabaseError } from './platform/db/roles.ts';
import { ListenError } from './platform/http/http-server.ts';
import { SealBrokenError } from './platform/secrets/sealed.ts';

/** A failure of the start that the operator can correct, described in one line. */
export class StartRefused extends Error {}

/** Failures that an operator can correct: their message is printed without a stack. */
const KNOWN = [
  StartRefused,
  ConfigError,
  EmbeddedPostgresError,
  EditedMigrationError,
  BlockedMigrationError,
  PendingMigrationsError,
  PooledDatabaseError,
  UnsafeDatabaseError,
  SealBrokenError,
];

export function startFailureText(error: unknown): string {
  if (KNOWN.some((kind) => error instanceof kind)) return (error as Error).message;
  if (error instanceof ListenError) return listenFailureText(error);
  if (error instanceof NotPrimaryError) {
    return `${error.message} Let DATABASE_URL lead to the primary, or name all servers with commas between them.`;
  }
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ECONNREFUSED' || code === 'ENOTFOUND') {
    return `The database does not answer: ${message}. Check DATABASE_URL.`;
  }
  if (code === '28P01' || code === '28000') {
    return `The database refuses the sign-in: ${message}. Check DATABASE_URL and the password of svc_app.`;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function listenFailureText({ code, host, port, message }: ListenError): string {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is taken. Choose another one with PORT, such as PORT=3001`;
    case 'EACCES':
      return `Port ${port} needs more rights than this user has. Choose one above 1023.`;
    case 'EADDRNOTAVAIL':
      return `This machine has no address ${host}. Set HOST to one that it has.`;
    default:
      return `The server cannot listen on ${host}: ${message}. Set HOST to an address of this machine, such as 127.0.0.1.`;
  }
}

export function sayWhyAndExit(error: unknown): never {
  process.stderr.write(`Muster did not start. ${startFailureText(error)}\n`);
  process.exit(1);
}
