import { everyScope, peopleOfEveryScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { EncryptionKey, KeyQuery, NewEncryptionKey } from './key.schema.ts';
import { createKey, listKeys, readKey, rotateKey } from './key.service.ts';

/** A person with the keys can read every backup, so a second factor is required and API keys are refused. */
const CHANGE_KEYS = { ...peopleOfEveryScope('recovery:write'), mfa: true } as const;

export const keyRoutes = (parts: { secrets: Sealer; jobs: Jobs }): RouteGroup => ({
  name: 'Backup encryption keys',
  description:
    'The keys with which the backups of an organization are encrypted. Their material is never returned.',
  routes: [
    route({
      method: 'get',
      path: '/backup/encryption/keys',
      summary: 'List encryption keys by name',
      access: everyScope('recovery:read'),
      query: KeyQuery,
      response: pageOf(EncryptionKey),
      handler: ({ ctx, query }) => listKeys(ctx, query),
    }),
    route({
      method: 'post',
      path: '/backup/encryption/keys',
      summary: 'Create an encryption key',
      access: CHANGE_KEYS,
      body: NewEncryptionKey,
      response: EncryptionKey,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: ({ ctx, body }) => createKey(ctx, body, parts.secrets),
      audit: {
        action: 'backup.key.create',
        resource: 'backup_encryption_key',
        note: (key) => ({ ...auditSubject(key), details: { fingerprint: key.fingerprint } }),
      },
    }),
    route({
      method: 'get',
      path: '/backup/encryption/keys/:id',
      summary: 'Read an encryption key',
      access: everyScope('recovery:read'),
      params: IdParams,
      response: EncryptionKey,
      handler: ({ ctx, params }) => readKey(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/backup/encryption/keys/:id/rotate',
      summary: 'Rotate an encryption key',
      description:
        'Makes a new version of the key, which each repository accepts before it refuses the earlier one. Data stays encrypted as it is: anyone who has copied a repository together with the earlier version can still read that copy.',
      access: CHANGE_KEYS,
      params: IdParams,
      response: EncryptionKey,
      errors: ['conflict'],
      handler: ({ ctx, params }) => rotateKey(ctx, params.id, parts),
      audit: {
        action: 'backup.key.rotate',
        resource: 'backup_encryption_key',
        note: (key) => ({
          ...auditSubject(key),
          details: { version: key.version, fingerprint: key.fingerprint },
        }),
      },
    }),
  ],
});
