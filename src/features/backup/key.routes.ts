import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { EncryptionKey, KeyQuery, NewEncryptionKey, RecoveryKit, RecoveryKitQuery } from './key.schema.ts';
import { createKey, listKeys, readKey, rotateKey } from './key.service.ts';
import { readRecoveryKit } from './recovery-kit.service.ts';

export const recoveryKitRoutes = ({ secrets }: { secrets: Encryptor }): RouteGroup => ({
  name: 'Backup recovery kits',
  description: 'What stock restic needs to restore without Muster.',
  routes: [
    route({
      method: 'get',
      path: '/backup/encryption/keys/:id/recovery-kit',
      summary: 'Read what stock restic needs to restore without Muster',
      description:
        'The passwords of all versions of the key in the clear, where its repositories are, and the commands. Anyone who has it can read every backup of the key, so it is to be kept offline. Each reading is recorded in the audit trail.',
      access: { ...peopleOfEveryScope('recovery:export'), mfa: true },
      params: IdParams,
      query: RecoveryKitQuery,
      response: RecoveryKit,
      handler: ({ ctx, params, query }) => readRecoveryKit(ctx, params.id, query, secrets),
      audit: {
        action: 'backup.key.recovery_kit',
        resource: 'backup_encryption_key',
        alsoAs: 'data.export',
        note: ({ keyId, name, orgId, pagination }) => ({
          ...auditSubject({ id: keyId, name, orgId }),
          details: { repositories: pagination.total, page: pagination.page },
        }),
      },
    }),
  ],
});

/** A person with the keys can read every backup, so a second factor is required and API keys are refused. */
const CHANGE_KEYS = { ...peopleOfEveryScope('recovery:write'), mfa: true } as const;

export const keyRoutes = (parts: { secrets: Encryptor; jobs: Jobs }): RouteGroup => ({
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
