import { peopleOfEveryScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { RecoveryKit, RecoveryKitQuery } from './recovery-kit.schema.ts';
import { readRecoveryKit } from './recovery-kit.service.ts';

export const recoveryKitRoutes = ({ secrets }: { secrets: Sealer }): RouteGroup => ({
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
