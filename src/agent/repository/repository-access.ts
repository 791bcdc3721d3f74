import type { z } from 'zod';
import { Destination, Repository } from '../../engine/index.ts';
import {
  AgentErrorCode,
  type BackupDestination,
  type BackupRepositoryAccess,
  type SecretRef,
} from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';

export interface AccessParts {
  /** The address of the server that this machine is enrolled at. */
  server: string;
  secret: (ref: SecretRef) => string;
}

/** Where the repository is and what opens it, with the secrets of the command. Throws `INVALID_PAYLOAD`. */
export function repositoryOf(access: BackupRepositoryAccess, parts: AccessParts): Repository {
  const { destination, password, keyHint } = access;
  return checked(Repository, {
    destination: destinationOf(destination, parts),
    password: parts.secret(password),
    keyHint,
  });
}

export function destinationOf(destination: BackupDestination, { server, secret }: AccessParts): Destination {
  if (destination.type === 'local') return checked(Destination, destination);
  if (destination.type === 's3') {
    const { accessKey, secret: ref, ...bucket } = destination;
    return checked(Destination, { ...bucket, accessKeyId: accessKey, secretAccessKey: secret(ref) });
  }
  const url = new URL(server);
  // Only the path is taken from the command: it cannot lead to another server.
  url.pathname = destination.path;
  const { user } = destination;
  return checked(Destination, { type: 'rest', url: url.href, user, password: secret(destination.secret) });
}

function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  // The message names the field and the rule, and never the value, which may be a secret.
  throw new AgentError(
    AgentErrorCode.invalidPayload,
    `repository: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`,
  );
}
