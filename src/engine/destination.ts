import path from 'node:path';
import { z } from 'zod';

/** The location of a repository, and its secrets. */

/** One line of visible characters: each of these values becomes a line of a file, or a part of an address. */
const Line = z
  .string()
  .max(2000)
  .regex(/^[\x21-\x7e]+$/, 'must be visible ASCII characters without spaces');
const AbsolutePath = z
  .string()
  .max(4096)
  .refine(
    (value) => path.isAbsolute(value) && !/[\0\r\n]/.test(value),
    'must be an absolute path in one line',
  );
const HttpUrl = z
  .url({ protocol: /^https?$/, abort: true })
  .max(2000)
  .refine((value) => {
    const { username, password, search, hash } = new URL(value);
    return [username, password, search, hash].every((part) => part === '');
  }, 'must be an address without credentials, query and fragment');

export const LocalDestination = z.strictObject({ type: z.literal('local'), path: AbsolutePath });

/** A server with restic's REST protocol, such as Muster's own store. */
export const RestDestination = z.strictObject({
  type: z.literal('rest'),
  url: HttpUrl,
  /** Visible in restic's error messages, so it must not be a secret. */
  user: Line.regex(/^[\w.-]+$/, 'must be letters, digits, dots, hyphens and underscores').optional(),
  password: Line.optional(),
  /** Certificates that sign the server's own, as a PEM file. */
  caFile: AbsolutePath.optional(),
});

export const S3Destination = z.strictObject({
  type: z.literal('s3'),
  endpoint: HttpUrl,
  bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
  prefix: z
    .string()
    .max(500)
    .regex(/^[\w.-]+(\/[\w.-]+)*$/, 'must be names separated by slashes')
    .optional(),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,50}$/, 'must be the name of a region')
    .optional(),
  accessKeyId: Line,
  secretAccessKey: Line,
  sessionToken: Line.optional(),
  caFile: AbsolutePath.optional(),
});

export const Destination = z.discriminatedUnion('type', [LocalDestination, RestDestination, S3Destination]);
export type Destination = z.infer<typeof Destination>;

/** restic removes spaces around a password that it reads from a file, so there may be none. */
export const RepositoryPassword = Line.max(1000);

export const KeyId = z.string().regex(/^[0-9a-f]{8,64}$/, 'must be the id of a key');

export const Repository = z.strictObject({
  destination: Destination,
  password: RepositoryPassword,
  /**
   * The id of the key that the password opens. Without it, restic tries all keys of the repository one after another,
   * which takes long if an attacker has added keys.
   */
  keyHint: KeyId.optional(),
  /** The repository is read-only, not even locks are written: a store that is served as of a time, or a disc. */
  isReadOnly: z.boolean().optional(),
});
export type Repository = z.infer<typeof Repository>;

/** Stores a text or bytes in a file that only the program can read, and returns its path. */
export type AddSecret = (content: string | Uint8Array) => string;

/** The address as restic reads it from a file. It may contain a password. */
export function repositoryAddress(destination: Destination): string {
  if (destination.type === 'local') return `local:${destination.path}`;
  if (destination.type === 's3') {
    const { endpoint, bucket, prefix } = destination;
    return `s3:${withSlash(endpoint)}${bucket}${prefix === undefined ? '' : `/${prefix}`}`;
  }
  const url = new URL(destination.url);
  if (destination.user !== undefined) url.username = destination.user;
  if (destination.password !== undefined) {
    url.username ||= 'muster';
    url.password = encodeURIComponent(destination.password);
  }
  return `rest:${withSlash(url.href)}`;
}

/** The content of a file of S3 credentials; `undefined` for other destinations. */
export function s3Credentials(destination: Destination): string | undefined {
  if (destination.type !== 's3') return undefined;
  const { accessKeyId, secretAccessKey, sessionToken } = destination;
  return [
    '[default]',
    `aws_access_key_id = ${accessKeyId}`,
    `aws_secret_access_key = ${secretAccessKey}`,
    ...(sessionToken === undefined ? [] : [`aws_session_token = ${sessionToken}`]),
    '',
  ].join('\n');
}

/** Global restic options that a destination needs. They contain no secret. */
export function destinationOptions(destination: Destination): string[] {
  if (destination.type === 'local') return [];
  const region = destination.type === 's3' ? destination.region : undefined;
  return [
    ...(destination.caFile === undefined ? [] : ['--cacert', destination.caFile]),
    ...(region === undefined ? [] : ['-o', `s3.region=${region}`]),
  ];
}

/** Every secret of a repository, for masking texts. */
export function secretsOf({ destination, password }: Repository): string[] {
  if (destination.type === 'local') return [password];
  if (destination.type === 'rest') {
    const { password: secret = '' } = destination;
    return [password, secret, encodeURIComponent(secret)];
  }
  const { accessKeyId, secretAccessKey, sessionToken = '' } = destination;
  return [password, accessKeyId, secretAccessKey, sessionToken];
}

const withSlash = (address: string) => (address.endsWith('/') ? address : `${address}/`);
